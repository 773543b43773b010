#include "scheduler/planner/simulator/simulator.h"

#include <optional>

#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::planner {
namespace {

constexpr char kGivenUp[] = "there was no time to price the strategy";

}  // namespace

Simulator::Simulator(const OpGraph* graph, const Machine* machine, const CostModel* costs,
                     SimulatorOptions options)
    : inputs_{graph, machine, costs, options},
      connections_(graph),
      cache_(&connections_, machine, costs,
             {.segment_bytes = options.segment_bytes, .rings_by_ranges = options.rings_by_ranges}),
      now_(&connections_, &cache_),
      loads_(&connections_, *machine, cache_.resources(),
             {.optimizer_floats = options.optimizer_floats,
              .memory_share = options.memory_share,
              .moved_bytes_max = options.moved_bytes_max}),
      tasks_(&connections_),
      bounds_(&connections_, loads_.devices()),
      timeline_(&now_, &tasks_, &loads_, &bounds_),
      proposal_(&now_, &loads_, &tasks_) {}

Simulator::~Simulator() = default;

std::unique_ptr<Simulator> Simulator::CloneEmpty() const {
  auto clone =
      std::make_unique<Simulator>(inputs_.graph, inputs_.machine, inputs_.costs, inputs_.options);
  clone->early_rejection_ = early_rejection_;
  return clone;
}

absl::Status Simulator::SetStrategy(const Strategy& strategy,
                                    const std::function<bool()>& give_up) {
  CHECK(!proposal_.pending()) << "Accept or Reject first";
  SOAP_RETURN_IF_ERROR(CheckStrategy(*inputs_.graph, *inputs_.machine, strategy));
  // What is known is of one way to synchronize.
  if (strategy.synchronization != now_.synchronization()) known_.Clear();
  if (!now_.Set(strategy, give_up)) return absl::DeadlineExceededError(kGivenUp);
  now_.RefreshFullCache();
  loads_.Clear(strategy.staleness);
  for (uint32_t op = 0; op < connections_.ops(); ++op) loads_.AddOp(op, now_.op(op), 1);
  for (uint32_t edge = 0; edge < connections_.edges(); ++edge) {
    loads_.AddEdge(edge, now_.edge(edge), 1);
  }
  for (uint32_t group = 0; group < connections_.groups(); ++group) {
    loads_.AddSync(now_.sync(group), 1);
  }
  loads_.FindFit();
  tasks_.PlaceAll(now_);
  step_.reset();
  return absl::OkStatus();
}

Nanos Simulator::StepTime() {
  if (!step_.has_value()) step_ = Simulate();
  return *step_;
}

Nanos Simulator::IterationTime() {
  return now_.staleness() == 0 ? StepTime() : timeline_.Iteration();
}

absl::StatusOr<Nanos> Simulator::StepTimeUnless(const std::function<bool()>& give_up) {
  if (step_.has_value()) return *step_;
  timeline_.set_give_up(&give_up);
  const Nanos step = Simulate();
  const bool gave_up = timeline_.gave_up();
  timeline_.set_give_up(nullptr);
  if (gave_up) return absl::DeadlineExceededError(kGivenUp);
  step_ = step;
  return step;
}

bool Simulator::IsTooLong(Nanos cutoff) {
  if (known_.AtLeast(now_.hash()) > cutoff) {
    ++counts_.remembered;
    return true;
  }
  if (loads_.BusiestDevice() > cutoff) {
    ++counts_.by_compute;
    return true;
  }
  if (bounds_.PathBound(now_.ops()) > cutoff ||
      bounds_.DeviceBound(now_.ops(), loads_.compute()) > cutoff) {
    ++counts_.by_path;
    return true;
  }
  return false;
}

Nanos Simulator::Propose(absl::Span<const Change> changes, Nanos cutoff,
                         absl::Span<const ServerChange> servers) {
  CHECK(!proposal_.pending()) << "Accept or Reject first";
  if (now_.RefreshFullCache()) tasks_.LinkAll(now_);
  ++counts_.proposed;
  step_before_ = step_;
  proposal_.Begin(changes, servers);
  // Bounds on time say nothing where less overflow may count for more.
  const int64_t overflow_before = proposal_.fit_before().overflow;
  const bool bounded = early_rejection_ && overflow_before == 0;
  if (bounded && IsTooLong(cutoff)) return kNever;
  proposal_.SwapBlocks(changes, servers);
  if (Overflow() > overflow_before) {
    ++counts_.by_memory;
    return kNever;
  }
  if (Overflow() < overflow_before) cutoff = kNever - 1;
  if (bounded && !loads_.Allow(cutoff)) {
    ++counts_.by_load;
    return kNever;
  }
  proposal_.Place();
  const Nanos step = bounded && cutoff != kNever ? timeline_.StepUpTo(cutoff) : Simulate();
  step_ = step;
  if (bounded) known_.Remember(now_.hash(), step == kNever ? cutoff + 1 : step);
  ++(step == kNever ? counts_.aborted : counts_.simulated);
  return step <= cutoff ? step : kNever;
}

void Simulator::Accept() {
  CHECK(proposal_.pending() && proposal_.placed() && step_ != kNever) << "nothing to accept";
  proposal_.Keep();
}

void Simulator::Reject() {
  CHECK(proposal_.pending()) << "nothing to reject";
  proposal_.TakeBack();
  step_ = step_before_;
}

Breakdown Simulator::Explain() {
  Breakdown result;
  result.step_ns = StepTime();
  result.compute_ns = loads_.BusiestDevice();
  result.exposed_ns = result.step_ns - result.compute_ns;
  result.transfer_bytes = loads_.transfer_bytes();
  result.sync_bytes = loads_.sync_bytes();
  result.in_flight = in_flight();
  for (size_t r = 0; r < loads_.resources(); ++r) result.busy_ns.push_back(loads_.BusyOf(r));
  for (uint32_t d = 0; d < loads_.devices(); ++d) {
    result.memory_bytes.push_back(loads_.MemoryOf(d));
  }
  return result;
}

}  // namespace soapstone::planner
