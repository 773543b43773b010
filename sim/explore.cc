#include "sim/explore.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace soapstone::sim {
namespace {

struct Branch {
  World world;
  std::vector<Choice> choices;
  size_t next = 0;
};

std::pair<uint64_t, uint64_t> FingerprintOf(const World& world) {
  Fingerprint f;
  world.AddTo(&f);
  return f.value();
}

// The choices taken on the way to the end of `stack`.
std::vector<std::string> PathOf(const std::vector<Branch>& stack) {
  std::vector<std::string> path;
  for (const Branch& branch : stack) {
    if (branch.next > 0) path.push_back(branch.world.Describe(branch.choices[branch.next - 1]));
  }
  return path;
}

}  // namespace

ExploreReport Explore(const World& start, const ExploreOptions& options) {
  ExploreReport report;
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited;
  std::vector<Branch> stack;
  visited.insert(FingerprintOf(start));
  stack.push_back({start, start.Enabled()});
  while (!stack.empty()) {
    report.depth = std::max<uint64_t>(report.depth, stack.size());
    Branch& top = stack.back();
    if (top.next == top.choices.size()) {
      stack.pop_back();
      continue;
    }
    const Choice choice = top.choices[top.next++];
    World world = top.world;
    world.Do(choice);
    ++report.transitions;
    if (world.Violation().has_value() || stack.size() > options.depth_max) {
      report.violation = world.Violation().value_or("S5: a path does not end");
      report.path = PathOf(stack);
      break;
    }
    if (!visited.insert(FingerprintOf(world)).second) continue;
    if (visited.size() > options.states_max) break;
    if (world.Finished()) {
      ++report.ends;
      continue;
    }
    std::vector<Choice> choices = world.Enabled();
    stack.push_back({std::move(world), std::move(choices)});
  }
  report.states = visited.size();
  report.complete = stack.empty();
  return report;
}

std::string ExploreReport::ToString() const {
  std::string text = absl::StrCat(states, " states, ", transitions, " transitions, ", ends,
                                  " ends, depth ", depth, complete ? ", complete" : ", incomplete");
  if (violation.has_value()) {
    absl::StrAppend(&text, "\n", *violation, "\n  ", absl::StrJoin(path, "\n  "));
  }
  return text;
}

}  // namespace soapstone::sim
