// Lowering: from a model's operators, a strategy and an order to what each worker of a team runs
// and what they send each other. Everything that the simulator prices is here as a step or a
// message, and nothing else. Values; knows no kernels and no network.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/section_builder.h"
#include "strategy/strategy.h"
#include "strategy/team_parts.h"

namespace soapstone::planner {

// Of batch norm that is split over samples or places there are two operators: the moments' have
// numbers behind the graph's own (shared_moments.h).
struct TeamProgram {
  std::vector<BlockMessage> messages;  // their numbers are their places
  std::vector<SeatProgram> seats;
};

// Errors: those of CheckConfig, seats being devices, and of CheckOrder; Unimplemented, naming the
// operator: what no kernel runs alone (parts of an lstm's units, chunks of time).
absl::StatusOr<TeamProgram> Lower(const OpGraph& graph, const Strategy& strategy,
                                  const Order& order, Purpose purpose = Purpose::kRun);

}  // namespace soapstone::planner
