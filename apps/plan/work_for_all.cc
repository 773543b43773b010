#include "apps/plan/work_for_all.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "glog/logging.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"

namespace soapstone::apps {
namespace {

// The operators of a group alike, where each of them may be so.
std::vector<planner::Change> ChangesOf(const planner::OpGraph& graph,
                                       const std::vector<uint32_t>& group,
                                       const planner::OpConfig& config, uint32_t devices) {
  std::vector<planner::Change> changes;
  for (const uint32_t op : group) {
    if (!planner::CheckConfig(graph.ops[op], config, devices).ok()) return {};
    changes.push_back({op, config});
  }
  return changes;
}

// The change that gives `device` work at the least step, without taking the last of another's.
// Empty: there is none.
std::vector<planner::Change> ChangeFor(const Planning& planning, const planner::Strategy& strategy,
                                       uint32_t device, const std::function<bool()>& give_up) {
  const planner::OpGraph& graph = planning.graph();
  const auto devices = static_cast<uint32_t>(planning.machine().devices().size());
  const size_t idle = IdleDevices(strategy, devices).size();
  planner::Simulator simulator(&graph, &planning.machine(), &planning.costs(),
                               planning.simulator_options());
  CHECK(simulator.SetStrategy(strategy).ok());
  const planner::Space space(&graph, &planning.machine());
  std::vector<planner::Change> best;
  Nanos least = planner::kNever;
  for (const std::vector<uint32_t>& group : graph.groups) {
    for (const planner::OpConfig& config : space.Configs(group[0])) {
      if (std::ranges::find(config.devices, device) == config.devices.end()) continue;
      if (give_up()) return best;
      std::vector<planner::Change> changes = ChangesOf(graph, group, config, devices);
      if (changes.empty()) continue;
      planner::Strategy changed = strategy;
      for (const planner::Change& change : changes) changed.ops[change.op] = change.config;
      if (IdleDevices(changed, devices).size() >= idle) continue;
      const Nanos step = simulator.Propose(changes, least - 1);
      simulator.Reject();
      if (step >= least) continue;
      least = step;
      best = std::move(changes);
    }
  }
  return best;
}

}  // namespace

std::vector<uint32_t> IdleDevices(const planner::Strategy& strategy, uint32_t devices) {
  std::vector<bool> works(devices, false);
  for (const planner::OpConfig& op : strategy.ops) {
    for (const uint32_t device : op.devices) works[device] = true;
  }
  std::vector<uint32_t> idle;
  for (uint32_t device = 0; device < devices; ++device) {
    if (!works[device]) idle.push_back(device);
  }
  return idle;
}

planner::Strategy WithWorkForAll(const Planning& planning, planner::Strategy strategy,
                                 const std::function<bool()>& give_up) {
  planner::Strategy before = strategy;
  const auto devices = static_cast<uint32_t>(planning.machine().devices().size());
  for (;;) {
    const std::vector<uint32_t> idle = IdleDevices(strategy, devices);
    if (idle.empty()) return strategy;
    const std::vector<planner::Change> changes = ChangeFor(planning, strategy, idle[0], give_up);
    if (changes.empty()) return before;
    for (const planner::Change& change : changes) strategy.ops[change.op] = change.config;
  }
}

}  // namespace soapstone::apps
