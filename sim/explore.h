// Explore: every interleaving of a small world, by depth-first search over its choices with the
// set of visited states. Two states are taken for equal when their 128-bit fingerprints are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/world.h"

namespace soapstone::sim {

struct ExploreOptions {
  uint64_t states_max = 1'000'000;  // stop there, incomplete
  uint64_t depth_max = 10'000;      // choices on one path; a longer one is a violation (S5)
};

struct ExploreReport {
  uint64_t states = 0;                   // distinct
  uint64_t transitions = 0;              // choices tried
  uint64_t ends = 0;                     // distinct states in which the job is over
  uint64_t depth = 0;                    // longest path taken
  bool complete = false;                 // all states that can be reached were
  std::optional<std::string> violation;  // the first
  std::vector<std::string> path;         // the choices that lead to it

  std::string ToString() const;
};

ExploreReport Explore(const World& start, const ExploreOptions& options);

}  // namespace soapstone::sim
