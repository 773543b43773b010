#include "scheduler/planner/descent.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/shard_placement.h"
#include "scheduler/planner/stage_shift.h"

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

  // Operators that change together, then who keeps all groups, then each, over and over until all
  // of it is as good as it gets. follow: groups also go to the servers of their new nodes.
  bool Run(absl::Span<const std::vector<uint32_t>> together, bool follow, bool singles) {
    const size_t items = together.size() + (places_ ? 1 + placement_.groups().size() : 0);
    size_t unimproved = 0;
    for (size_t at = 0; unimproved < items; at = (at + 1) % items) {
      const bool improved = at < together.size() ? TryConfigs(together[at], follow)
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
  // Each configuration; and, where groups follow, behind each the same with the servers of its
  // nodes.
  bool TryConfigs(const std::vector<uint32_t>& ops, bool follow) {
    const std::vector<OpConfig> configs = space_.Configs(ops[0]);
    const uint32_t group = space_.graph().ops[ops[0]].group;
    const size_t ways = places_ && follow && HasParams(space_.graph(), group) ? 2 : 1;
    const auto make = [&](const Simulator& now, size_t index, Trials::Proposal* proposal) {
      const OpConfig& config = configs[index / ways];
      for (const uint32_t op : ops) {
        if (config == now.config(op)) continue;
        if (op != ops[0] && !space_.Holds(op, config.degrees)) continue;
        proposal->changes.push_back({op, config});
      }
      if (index % ways == 0 || proposal->changes.empty()) return;
      std::vector<uint32_t> servers = placement_.OfItsNodes(now, group, proposal->changes);
      if (servers == now.servers(group)) return proposal->changes.clear();  // as before
      proposal->servers.push_back({group, std::move(servers)});
    };
    return trials_.Run(configs.size() * ways, make);
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
