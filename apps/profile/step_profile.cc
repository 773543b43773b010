#include "apps/profile/step_profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "apps/loop/node_loop.h"
#include "apps/node/random_batch.h"
#include "base/status_macros.h"
#include "compute/init.h"
#include "models/runtime/model_input.h"

namespace soapstone::apps {
namespace {

constexpr uint64_t kProfileSeed = 1;
constexpr size_t kStepsMin = 3;
constexpr size_t kStepsMax = 2000;
constexpr size_t kWatchedSteps = 5;  // of a device, operator by operator

Nanos MedianOf(std::vector<Nanos> times) {
  const auto middle = times.begin() + static_cast<int64_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

std::vector<Nanos> MediansOf(const std::vector<StepTimes>& steps,
                             std::vector<TimeSlice> StepTimes::*half) {
  std::vector<Nanos> medians;
  for (size_t k = 0; k < (steps[0].*half).size(); ++k) {
    std::vector<Nanos> times;
    for (const StepTimes& step : steps) times.push_back((step.*half)[k].took());
    medians.push_back(MedianOf(std::move(times)));
  }
  return medians;
}

// Sets the medians by operator and the typical step; returns the median of the steps.
Nanos Summarize(const std::vector<StepTimes>& steps, StepProfile* profile) {
  profile->forward = MediansOf(steps, &StepTimes::forward);
  profile->backward = MediansOf(steps, &StepTimes::backward);
  std::vector<Nanos> took;
  for (const StepTimes& step : steps) took.push_back(step.took);
  const Nanos median = MedianOf(took);
  profile->typical =
      *std::min_element(steps.begin(), steps.end(), [&](const StepTimes& a, const StepTimes& b) {
        return std::abs(a.took - median) < std::abs(b.took - median);
      });
  return median;
}

}  // namespace

std::string OperatorSpan(const models::Op& op, bool forward) {
  return op.name + (forward ? " forward" : " backward");
}

Nanos StepProfile::sum() const {
  return std::accumulate(forward.begin(), forward.end(), Nanos{0}) +
         std::accumulate(backward.begin(), backward.end(), Nanos{0});
}

StepProfiler::StepProfiler(std::unique_ptr<models::GraphRunner> replica)
    : replica_(std::move(replica)), pool_(replica_->NewPool()) {
  const models::Graph& graph = replica_->graph();
  for (size_t p = 0; p < graph.params().size(); ++p) {
    const auto id = static_cast<ParamId>(p);
    compute::InitSlice(graph.param(id), kProfileSeed, id, 0, replica_->param(id));
    gradients_.push_back(pool_.Take(graph.param(id).elements() * sizeof(float)));
  }
  for (const models::Op& op : graph.ops()) {
    where_.emplace_back();
    for (ParamId id : op.params) {
      where_.back().push_back(gradients_[soapstone::Index(id)].floats());
    }
  }
}

absl::StatusOr<std::unique_ptr<StepProfiler>> StepProfiler::Create(models::Graph graph,
                                                                   models::ReplicaOptions options) {
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<models::GraphRunner> replica,
                        models::GraphRunner::Create(std::move(graph), std::move(options)));
  return std::unique_ptr<StepProfiler>(new StepProfiler(std::move(replica)));
}

absl::StatusOr<StepTimes> StepProfiler::Run(int64_t samples) { return RunStep(samples, false); }

absl::StatusOr<StepTimes> StepProfiler::RunWatched(int64_t samples, bool single_calls) {
  replica_->Watch();
  SOAP_ASSIGN_OR_RETURN(StepTimes times, RunStep(samples, single_calls));
  times.spans = replica_->Unwatch();
  std::map<std::string, TimeSlice> slices;
  for (const compute::QueueSpan& span : times.spans) {
    if (span.queue == compute::Queue::kCompute) slices[span.name] = {span.begin_ns, span.end_ns};
  }
  const std::vector<models::Op>& ops = replica_->graph().ops();
  for (size_t k = 0; k < ops.size(); ++k) {
    times.forward[k] = slices[OperatorSpan(ops[k], true)];
    times.backward[k] = slices[OperatorSpan(ops[k], false)];
  }
  return times;
}

absl::StatusOr<StepTimes> StepProfiler::RunStep(int64_t samples, bool single_calls) {
  if (feed_.samples != samples) {
    feed_ = {};  // before the next is made
    feed_ = RandomBatch(replica_->graph(), samples, kProfileSeed);
  }
  const size_t ops = replica_->graph().ops().size();
  StepTimes times = {.forward = std::vector<TimeSlice>(ops),
                     .backward = std::vector<TimeSlice>(ops)};
  const std::vector<const void*> fields = models::FieldsOf(feed_);
  const Nanos began = NodeLoop::Now();
  SOAP_RETURN_IF_ERROR(
      replica_->Begin(samples, fields, {.step = step_++, .single_calls = single_calls}));
  Nanos last = NodeLoop::Now() - began;
  for (size_t k = 0; k < ops; ++k) {
    replica_->ForwardOp(k);
    const Nanos now = NodeLoop::Now() - began;
    times.forward[k] = {last, now};
    last = now;
  }
  // The backward pass may write over it; a device is not to be waited for here.
  if (!replica_->on_device()) times.loss_sum = replica_->loss_sum();
  last = NodeLoop::Now() - began;
  for (size_t k = ops; k-- > 0;) {
    replica_->BackwardOp(k, where_[k]);
    const Nanos now = NodeLoop::Now() - began;
    times.backward[k] = {last, now};
    last = now;
  }
  replica_->WaitForGradients(0);
  times.took = replica_->on_device() ? NodeLoop::Now() - began : last;
  if (replica_->on_device()) times.loss_sum = replica_->loss_sum();
  return times;
}

absl::StatusOr<StepProfile> StepProfiler::Measure(int64_t samples, double seconds,
                                                  const Progress& progress) {
  SOAP_RETURN_IF_ERROR(Run(samples).status());
  if (replica_->on_device()) SOAP_RETURN_IF_ERROR(Run(samples).status());
  std::vector<StepTimes> steps;
  const Nanos began = NodeLoop::Now();
  const double wanted = std::max(seconds, 1e-9) * static_cast<double>(kSecond);
  for (double done = 0; steps.size() < kStepsMin || (done < 1 && steps.size() < kStepsMax);) {
    SOAP_ASSIGN_OR_RETURN(StepTimes times, Run(samples));
    steps.push_back(std::move(times));
    const double of_time = static_cast<double>(NodeLoop::Now() - began) / wanted;
    done = std::min(of_time, static_cast<double>(steps.size()) / kStepsMin);
    if (progress) progress(std::min(done, 1.0), steps.size());
  }
  StepProfile profile = {.samples = samples, .steps = steps.size()};
  profile.step = Summarize(steps, &profile);
  if (replica_->on_device()) SOAP_RETURN_IF_ERROR(MeasureOperators(samples, &profile));
  return profile;
}

// The host's clock says of a device when it was asked, and not when it computed.
absl::Status StepProfiler::MeasureOperators(int64_t samples, StepProfile* profile) {
  SOAP_ASSIGN_OR_RETURN(StepTimes as_run, RunWatched(samples, false));
  profile->as_run = std::move(as_run.spans);
  std::vector<StepTimes> watched;
  for (size_t i = 0; i < kWatchedSteps; ++i) {
    SOAP_ASSIGN_OR_RETURN(StepTimes times, RunWatched(samples, true));
    watched.push_back(std::move(times));
  }
  Summarize(watched, profile);
  return absl::OkStatus();
}

}  // namespace soapstone::apps
