// Window: how far the seats of a team run ahead where several iterations are under way. A seat
// with a lead of a runs, in one step, the forward halves of clock c + a, then the backward halves
// of clock c: so the stages of a pipeline work on different clocks and none waits for the others
// (1F1B with stashed weights: Narayanan et al., PipeDream, SOSP 2019). Its reads of parameters lag
// by its lead, which a bounded staleness of the same covers. Where no seat has a stage behind it,
// they ask for the next clock's parameters as they begin one, and compute meanwhile: reads lag by
// one. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "strategy/order.h"
#include "strategy/team_parts.h"

namespace soapstone::planner {

// By seat: the seats that its outputs come to one after another, up to `window` - 1; seats that
// send to each other have the same. So a block goes from a seat to one of no greater lead:
//     lead(i) = min(window - 1, max over i -> j of lead(j) + [j sends nothing back to i])
// REQUIRES: window >= 1. messages: of the team; forward ones count.
std::vector<uint32_t> LeadsOf(const std::vector<BlockMessage>& messages, uint32_t seats,
                              uint32_t window);

// The same order, but on seats with a lead all forward halves stand before all backward ones.
// Orders that one sequence of the team agreed with still do: forward halves wait for no backward
// half.
Order ForwardFirst(Order order, const std::vector<uint32_t>& leads);

}  // namespace soapstone::planner
