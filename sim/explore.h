// Explore: every interleaving of a small world, by depth-first search over its choices with the
// set of visited states. Two states are taken for equal when their 128-bit fingerprints are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/fingerprint.h"

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

// AnyWorld: a copyable value with Enabled, Do, Finished, Violation, Describe and AddTo as World
// (world.h) and PeerWorld (peer_world.h) have them.
template <typename AnyWorld>
ExploreReport Explore(const AnyWorld& start, const ExploreOptions& options) {
  struct Branch {
    AnyWorld world;
    decltype(start.Enabled()) choices;
    size_t next = 0;
  };
  const auto fingerprint = [](const AnyWorld& world) {
    Fingerprint f;
    world.AddTo(&f);
    return f.value();
  };
  ExploreReport report;
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited;
  std::vector<Branch> stack;
  visited.insert(fingerprint(start));
  stack.push_back({start, start.Enabled()});
  while (!stack.empty()) {
    report.depth = std::max<uint64_t>(report.depth, stack.size());
    Branch& top = stack.back();
    if (top.next == top.choices.size()) {
      stack.pop_back();
      continue;
    }
    const auto choice = top.choices[top.next++];
    AnyWorld world = top.world;
    world.Do(choice);
    ++report.transitions;
    if (world.Violation().has_value() || stack.size() > options.depth_max) {
      report.violation = world.Violation().value_or("S5: a path does not end");
      for (const Branch& branch : stack) {
        report.path.push_back(branch.world.Describe(branch.choices[branch.next - 1]));
      }
      break;
    }
    if (!visited.insert(fingerprint(world)).second) continue;
    if (visited.size() > options.states_max) break;
    if (world.Finished()) {
      ++report.ends;
      continue;
    }
    auto choices = world.Enabled();
    stack.push_back({std::move(world), std::move(choices)});
  }
  report.states = visited.size();
  report.complete = stack.empty();
  return report;
}

}  // namespace soapstone::sim
