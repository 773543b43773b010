#include "scheduler/planner/searchers/sync_lower_bound.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace soapstone::planner {
namespace {

constexpr Nanos kSlowTask = 10 * kSecond;

// The group's operators without their edges.
OpGraph Alone(const OpGraph& graph, uint32_t group) {
  OpGraph alone;
  alone.batch = graph.batch;
  alone.groups.emplace_back();
  for (uint32_t op : graph.groups[group]) {
    PlanOp copy = graph.ops[op];
    copy.in.clear();
    copy.out.clear();
    copy.group = 0;
    const auto id = static_cast<uint32_t>(alone.ops.size());
    for (uint32_t& param : copy.params) {
      const PlanParam& old = graph.params[param];
      const auto same = [&](const PlanParam& p) { return p.name == old.name; };
      const auto it = std::find_if(alone.params.begin(), alone.params.end(), same);
      param = static_cast<uint32_t>(it - alone.params.begin());
      if (it == alone.params.end()) {
        alone.params.push_back({old.name, old.shape, {id}, old.trained});
      } else {
        it->ops.push_back(id);
      }
    }
    alone.groups[0].push_back(id);
    alone.ops.push_back(std::move(copy));
  }
  return alone;
}

// The machine with kinds twice, `device` of the second of its kind.
Machine WithSlow(const Machine& machine, uint32_t device) {
  const auto devices = static_cast<uint32_t>(machine.devices().size());
  const auto servers = static_cast<uint32_t>(machine.servers().size());
  Machine::Parts parts = {.name = machine.name(),
                          .kinds = machine.kinds(),
                          .devices = machine.devices(),
                          .links = machine.links(),
                          .servers = machine.servers()};
  const auto kinds = static_cast<uint32_t>(machine.kinds().size());
  for (const DeviceKind& kind : machine.kinds()) {
    parts.kinds.push_back(kind);
    parts.kinds.back().name += " slow";
  }
  parts.devices[device].kind += kinds;
  const auto path = [](absl::Span<const uint32_t> links) {
    return std::vector<uint32_t>(links.begin(), links.end());
  };
  for (uint32_t from = 0; from < devices; ++from) {
    for (uint32_t to = 0; to < devices; ++to) {
      parts.device_paths.push_back(path(machine.Path(from, to)));
    }
    for (uint32_t s = 0; s < servers; ++s) {
      parts.push_paths.push_back(path(machine.PushPath(from, s)));
    }
  }
  for (uint32_t s = 0; s < servers; ++s) {
    for (uint32_t to = 0; to < devices; ++to) {
      parts.pull_paths.push_back(path(machine.PullPath(s, to)));
    }
  }
  absl::StatusOr<Machine> made = Machine::Make(std::move(parts));
  CHECK(made.ok()) << made.status();
  return *std::move(made);
}

}  // namespace

// Slow on the second half of the kinds, else as quick as can be.
class SyncTails::SlowCosts : public CostModel {
 public:
  explicit SlowCosts(size_t kinds) : kinds_(kinds) {}
  PartCost CostOf(const PlanOp& /*op*/, const models::Block& /*part*/,
                  uint32_t kind) const override {
    const Nanos ns = kind >= kinds_ ? kSlowTask : 1;
    return {.forward_ns = ns, .backward_ns = ns};
  }
  std::string sha256() const override { return ""; }

 private:
  const size_t kinds_;
};

SyncTails::SyncTails(const OpGraph* graph, uint32_t group, const Machine& machine,
                     const SimulatorOptions& options)
    : alone_(Alone(*graph, group)), costs_(std::make_unique<SlowCosts>(machine.kinds().size())) {
  for (uint32_t d = 0; d < machine.devices().size(); ++d) {
    Slow slow = {.machine = std::make_unique<Machine>(WithSlow(machine, d))};
    slow.simulator =
        std::make_unique<Simulator>(&alone_, slow.machine.get(), costs_.get(), options);
    slow_.push_back(std::move(slow));
  }
}

SyncTails::~SyncTails() = default;

Nanos SyncTails::TailBehind(uint32_t device, const Strategy& strategy, SyncBounds* bounds) {
  Simulator& simulator = *slow_[device].simulator;
  CHECK(simulator.SetStrategy(strategy).ok());
  Nanos last = 0;
  const std::vector<TimelineTask> timeline = simulator.Timeline();
  for (const TimelineTask& task : timeline) {
    if (task.kind == TaskKind::kBackward) last = std::max(last, task.end);
  }
  Nanos waited = 0, longest = 0;
  std::vector<Nanos> apply(slow_.size(), 0);
  for (const TimelineTask& task : timeline) {
    if (task.kind != TaskKind::kSynchronize) continue;
    const bool on_device = task.resource < slow_.size();
    if (on_device) apply[task.resource] += task.end - task.start;
    if (task.ready < last) continue;
    waited += task.start - task.ready;
    longest = std::max(longest, task.end - task.start);
  }
  bounds->apply = std::move(apply);
  return std::max(simulator.StepTime() - last - waited, longest);
}

SyncBounds SyncTails::Find(const std::vector<const OpConfig*>& configs, Synchronization way) {
  Strategy strategy = {.synchronization = way};
  for (const OpConfig* config : configs) strategy.ops.push_back(*config);
  SyncBounds bounds;
  std::vector<Nanos> behind(slow_.size(), -1);
  for (const OpConfig* config : configs) {
    // Which of its devices is the last is not known.
    Nanos least = kNever;
    for (uint32_t device : config->devices) {
      if (behind[device] < 0) behind[device] = TailBehind(device, strategy, &bounds);
      least = std::min(least, behind[device]);
    }
    bounds.tail.push_back(least);
  }
  return bounds;
}

}  // namespace soapstone::planner
