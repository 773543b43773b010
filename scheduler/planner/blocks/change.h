// A change is what a search proposes: other configurations of operators, other servers of weight
// groups. Values; searchers make them, Simulator tries them.
#pragma once

#include <cstdint>
#include <vector>

#include "strategy/strategy.h"

namespace soapstone::planner {

struct Change {
  uint32_t op = 0;
  OpConfig config;
};

// Of a parameter group that has parameters: who keeps it from now on, as in Strategy::servers.
struct ServerChange {
  uint32_t group = 0;
  std::vector<uint32_t> servers;
};

// How proposals were decided.
struct ProposalCounts {
  uint64_t proposed = 0;
  // Rejected without simulation; remembered: known to be longer from before.
  uint64_t remembered = 0, by_compute = 0, by_path = 0, by_memory = 0, by_load = 0;
  uint64_t aborted = 0;    // in it
  uint64_t simulated = 0;  // to the end

  ProposalCounts& operator+=(const ProposalCounts& other) {
    proposed += other.proposed;
    remembered += other.remembered;
    by_compute += other.by_compute;
    by_path += other.by_path;
    by_memory += other.by_memory;
    by_load += other.by_load;
    aborted += other.aborted;
    simulated += other.simulated;
    return *this;
  }
};

}  // namespace soapstone::planner
