#include "scheduler/planner/descent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/shard_placement.h"
#include "scheduler/planner/stage_shift.h"

namespace soapstone::planner {
namespace {

constexpr uint64_t kUnaskedMax = 256;
constexpr uint64_t kTasksUnasked = 1 << 18;  // some 50 ms

constexpr uint32_t kSinglesDevicesMax = 16;

class Descent {
 public:
  Descent(const Space& space, const DescentLimits& limits, Simulator* simulator)
      : space_(space),
        placement_(&space),
        limits_(limits),
        places_(limits.servers && placement_.HasChoice(*simulator)),
        unasked_(ProposalsUnasked(*simulator)),
        simulator_(*simulator) {}

  // Operators that change together, then who keeps all groups, then each, over and over until all
  // of it is as good as it gets. follow: groups also go to the servers of their new nodes.
  bool Run(absl::Span<const std::vector<uint32_t>> together, bool follow, bool singles) {
    const size_t items = together.size() + (places_ ? 1 + placement_.groups().size() : 0);
    size_t unimproved = 0;
    for (size_t at = 0; unimproved < items; at = (at + 1) % items) {
      bool improved = false;
      if (at < together.size()) {
        for (const OpConfig& config : space_.Configs(together[at][0])) {
          if (Stops()) return false;
          improved |= Try(together[at], config, follow);
        }
      } else {
        for (std::vector<ServerChange>& servers : Servers(at - together.size(), singles)) {
          if (Stops()) return false;
          improved |= TryServers(std::move(servers));
        }
      }
      unimproved = improved ? 0 : unimproved + 1;
    }
    return true;
  }

  // Boundaries in turn, each moved on as long as that is better.
  bool RunStages() {
    const OpGraph& graph = space_.graph();
    const size_t places = graph.groups.size();
    size_t unimproved = 0;
    for (size_t at = 0; unimproved < places; at = (at + 1) % places) {
      bool improved = false;
      const auto group = static_cast<uint32_t>(at);
      for (uint32_t way = 0; group > 0 && way < 2 * kStageShiftMax; ++way) {
        if (!IsStageBoundary(graph, simulator_, group)) break;
        if (Stops()) return false;
        ++proposed_;
        servers_.clear();
        ShiftStage(space_, simulator_,
                   {.boundary = group, .later = way % 2 == 0, .groups = 1 + way / 2}, &changes_);
        improved |= !changes_.empty() && Propose();
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

  bool Try(const std::vector<uint32_t>& ops, const OpConfig& config, bool follow) {
    ++proposed_;
    changes_.clear();
    servers_.clear();
    for (const uint32_t op : ops) {
      if (config == simulator_.config(op)) continue;
      if (op != ops[0] && !space_.Holds(op, config.degrees)) continue;
      changes_.push_back({op, config});
    }
    if (changes_.empty()) return false;
    if (Propose()) return true;
    if (!places_ || !follow) return false;
    const uint32_t group = space_.graph().ops[ops[0]].group;
    if (!HasParams(space_.graph(), group)) return false;
    servers_.push_back({group, placement_.OfItsNodes(simulator_, group, changes_)});
    if (servers_[0].servers == simulator_.servers(group)) return false;
    ++proposed_;
    return Propose();
  }

  // What is tried: at 0 of all groups together, then of each.
  std::vector<std::vector<ServerChange>> Servers(size_t at, bool singles) const {
    const std::vector<uint32_t>& all = placement_.groups();
    absl::Span<const uint32_t> groups = all;
    std::vector<std::vector<ServerChange>> tried(2);
    if (at == 0) {
      tried.push_back(placement_.Spread(simulator_, all));
    } else {
      groups = groups.subspan(at - 1, 1);
    }
    for (const uint32_t group : groups) {
      tried[0].push_back({group, {}});
      tried[1].push_back({group, placement_.OfItsNodes(simulator_, group)});
    }
    if (at == 0 || !singles || space_.devices() > kSinglesDevicesMax) return tried;
    for (uint32_t s = 0; s < placement_.servers(); ++s) tried.push_back({{groups[0], {s}}});
    return tried;
  }

  bool TryServers(std::vector<ServerChange> servers) {
    ++proposed_;
    changes_.clear();
    servers_ = std::move(servers);
    if (std::all_of(servers_.begin(), servers_.end(), [this](const ServerChange& change) {
          return change.servers == simulator_.servers(change.group);
        })) {
      return false;
    }
    return Propose();
  }

  bool Propose() {
    const Nanos time = simulator_.Propose(changes_, simulator_.StepTime() - 1, servers_);
    if (time == kNever) {
      simulator_.Reject();
      return false;
    }
    simulator_.Accept();
    return true;
  }

  const Space& space_;
  const ShardPlacement placement_;
  const DescentLimits& limits_;
  const bool places_;
  const uint64_t unasked_;
  Simulator& simulator_;
  uint64_t proposed_ = 0;
  std::vector<Change> changes_;
  std::vector<ServerChange> servers_;
};

}  // namespace

uint64_t ProposalsUnasked(const Simulator& simulator) {
  return std::clamp<uint64_t>(kTasksUnasked / std::max<uint64_t>(simulator.tasks(), 1), 1,
                              kUnaskedMax);
}

bool DescendByOperator(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> together;
  for (uint32_t op = 0; op < space.graph().ops.size(); ++op) together.push_back({op});
  return Descent(space, limits, simulator).Run(together, false, true);
}

bool DescendByStage(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  return Descent(space, limits, simulator).RunStages();
}

bool DescendByGroup(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> together;
  for (const std::vector<uint32_t>& group : space.graph().groups) {
    if (!group.empty()) together.push_back(group);
  }
  return Descent(space, limits, simulator).Run(together, true, true);
}

bool DescendByServers(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  return Descent(space, limits, simulator).Run({}, false, false);
}

}  // namespace soapstone::planner
