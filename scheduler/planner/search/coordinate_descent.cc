#include "scheduler/planner/search/coordinate_descent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/search/shard_placement.h"
#include "scheduler/planner/search/stage_shift.h"

namespace soapstone::planner {
namespace {

constexpr uint32_t kSinglesDevicesMax = 16;

class Descent {
 public:
  Descent(const Space& space, const DescentLimits& limits, Simulator* simulator)
      : space_(space),
        placement_(&space),
        places_(limits.servers && placement_.HasChoice(*simulator)),
        simulator_(*simulator),
        trials_(simulator, limits.trials) {}

  // Who keeps all groups, once.
  bool RunOfAll() {
    if (places_) TryServers(0, false);
    return !trials_.stopped();
  }

  // Operators that change together, then who keeps all groups, then each, over and over until all
  // of it is as good as it gets.
  bool Run(absl::Span<const std::vector<uint32_t>> together, bool singles) {
    const size_t items = together.size() + (places_ ? 1 + placement_.groups().size() : 0);
    size_t unimproved = 0;
    for (size_t at = 0; unimproved < items; at = (at + 1) % items) {
      const bool improved = at < together.size() ? TryConfigs(together[at])
                                                 : TryServers(at - together.size(), singles);
      if (trials_.stopped()) return false;
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
      const auto group = static_cast<uint32_t>(at);
      const bool improved =
          group > 0 && trials_.Run(2 * kStageShiftMax, [&](const Simulator& now, size_t way,
                                                           Trials::Proposal* proposal) {
            if (!IsStageBoundary(graph, now, group)) return;
            const auto groups = static_cast<uint32_t>(1 + way / 2);
            ShiftStage(space_, now, {.boundary = group, .later = way % 2 == 0, .groups = groups},
                       &proposal->changes);
          });
      if (trials_.stopped()) return false;
      unimproved = improved ? 0 : unimproved + 1;
    }
    return true;
  }

 private:
  bool TryConfigs(const std::vector<uint32_t>& ops) {
    const std::vector<OpConfig> configs = space_.Configs(ops[0]);
    const auto make = [&](const Simulator& now, size_t index, Trials::Proposal* proposal) {
      for (const uint32_t op : ops) {
        if (configs[index] == now.config(op)) continue;
        if (op != ops[0] && !space_.Holds(op, configs[index].degrees)) continue;
        proposal->changes.push_back({op, configs[index]});
      }
    };
    return trials_.Run(configs.size(), make);
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

  bool TryServers(size_t at, bool singles) {
    const std::vector<std::vector<ServerChange>> tried = Servers(at, singles);
    return trials_.Run(
        tried.size(), [&](const Simulator& now, size_t index, Trials::Proposal* proposal) {
          const bool changes = std::any_of(tried[index].begin(), tried[index].end(),
                                           [&now](const ServerChange& change) {
                                             return change.servers != now.servers(change.group);
                                           });
          if (changes) proposal->servers = tried[index];
        });
  }

  const Space& space_;
  const ShardPlacement placement_;
  const bool places_;
  const Simulator& simulator_;
  Trials trials_;
};

}  // namespace

bool DescendByOperator(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> together;
  for (uint32_t op = 0; op < space.graph().ops.size(); ++op) together.push_back({op});
  return Descent(space, limits, simulator).Run(together, true);
}

bool DescendByStage(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  return Descent(space, limits, simulator).RunStages();
}

bool DescendByGroup(const Space& space, const DescentLimits& limits, Simulator* simulator) {
  std::vector<std::vector<uint32_t>> together;
  for (const std::vector<uint32_t>& group : space.graph().groups) {
    if (!group.empty()) together.push_back(group);
  }
  DescentLimits by_config = limits;
  by_config.servers = false;
  return Descent(space, by_config, simulator).Run(together, false);
}

bool DescendByServers(const Space& space, const DescentLimits& limits, bool each,
                      Simulator* simulator) {
  Descent descent(space, limits, simulator);
  return each ? descent.Run({}, false) : descent.RunOfAll();
}

}  // namespace soapstone::planner
