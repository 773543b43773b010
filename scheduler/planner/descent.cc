#include "scheduler/planner/descent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kUnaskedMax = 256;
constexpr uint64_t kTasksUnasked = 1 << 18;  // some 50 ms

class Descent {
 public:
  Descent(const Space& space, const DescentLimits& limits, Simulator* simulator)
      : space_(space),
        limits_(limits),
        unasked_(ProposalsUnasked(*simulator)),
        simulator_(*simulator) {}

  // Operators that change together, over and over until all of them are as good as they get.
  bool Run(absl::Span<const std::vector<uint32_t>> together) {
    size_t unimproved = 0;
    for (size_t at = 0; unimproved < together.size(); at = (at + 1) % together.size()) {
      bool improved = false;
      for (OpConfig& config : space_.Configs(together[at][0])) {
        if (Stops()) return false;
        improved |= Try(together[at], std::move(config));
      }
      unimproved = improved ? 0 : unimproved + 1;
    }
    return true;
  }

 private:
  bool Stops() {
    return proposed_ >= limits_.proposals ||
           (limits_.stop && proposed_ % unasked_ == 0 && limits_.stop());
  }

  bool Try(const std::vector<uint32_t>& ops, OpConfig config) {
    ++proposed_;
    changes_.clear();
    for (const uint32_t op : ops) {
      if (config == simulator_.config(op)) continue;
      if (op != ops[0] && !space_.Holds(op, config.degrees)) continue;
      changes_.push_back({op, config});
    }
    if (changes_.empty()) return false;
    const Nanos time = simulator_.Propose(changes_, simulator_.StepTime() - 1);
    if (time == kNever) {
      simulator_.Reject();
      return false;
    }
    simulator_.Accept();
    return true;
  }

  const Space& space_;
  const DescentLimits& limits_;
  const uint64_t unasked_;
  Simulator& simulator_;
  uint64_t proposed_ = 0;
  std::vector<Change> changes_;
};

}  // namespace

uint64_t ProposalsUnasked(const Simulator& simulator) {
  return std::clamp<uint64_t>(kTasksUnasked / std::max<uint64_t>(simulator.tasks(), 1), 1,
                              kUnaskedMax);
}

bool DescendByOperator(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> together;
  for (uint32_t op = 0; op < space.graph().ops.size(); ++op) together.push_back({op});
  return Descent(space, limits, simulator).Run(together);
}

bool DescendByGroup(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> together;
  for (const std::vector<uint32_t>& group : space.graph().groups) {
    if (!group.empty()) together.push_back(group);
  }
  return Descent(space, limits, simulator).Run(together);
}

}  // namespace soapstone::planner
