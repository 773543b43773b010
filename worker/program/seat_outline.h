// SeatOutline: what a worker's program must know of its seat in a team: the steps of its section
// (models/graph/section.h), which blocks it exchanges with other seats, and when gradients are all
// there. A value, made where a strategy is lowered.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace soapstone::worker {

struct SeatOutline {
  struct Step {
    // kRun: a forward or backward half. kTake, kGive: `index` is of the section's incoming or
    // outgoing blocks, as here.
    enum class Kind : uint8_t { kTake, kRun, kGive };
    Kind kind = Kind::kRun;
    uint32_t index = 0;
    std::vector<ParamId> ready;  // whose gradient is all there after it
    friend bool operator==(const Step&, const Step&) = default;
  };
  struct Block {
    uint32_t number = 0;  // of the team's messages
    uint32_t seat = 0;    // who sends it, or takes it
    uint64_t bytes = 0;
    friend bool operator==(const Block&, const Block&) = default;
  };
  std::vector<Step> steps;  // as the section's
  // Of a seat that runs ahead: steps from here on are of backward halves, the others of forward
  // ones.
  uint32_t backward_from = 0;
  std::vector<Block> incoming, outgoing;
  // Word to seats that send to this one and hear nothing from it in between: they may begin the
  // clock that this one begins. And word that this one waits for. Their numbers are behind those of
  // the team's messages.
  std::vector<Block> grants, awaited;
  friend bool operator==(const SeatOutline&, const SeatOutline&) = default;
};

}  // namespace soapstone::worker
