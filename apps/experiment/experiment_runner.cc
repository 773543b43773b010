#include "apps/experiment/experiment_runner.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

constexpr absl::Duration kStopPatience = absl::Seconds(1);  // after Stop

}  // namespace

ExperimentRunner::ExperimentRunner(RunnerOptions options, experiment::Agenda* agenda)
    : options_(std::move(options)), agenda_(agenda) {}

ExperimentRunner::~ExperimentRunner() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

ExperimentRunner::End ExperimentRunner::Run() {
  {
    MutexLock lock(&mutex_);
    finished_before_ = agenda_->finished();
    began_s_ = options_.wall_seconds();
    working_ = std::max(1u, options_.jobs);
  }
  if (options_.jobs == 0) {
    Work();
  } else {
    threads_.reserve(options_.jobs);
    for (unsigned i = 0; i < options_.jobs; ++i) threads_.emplace_back([this] { Work(); });
  }
  MutexLock lock(&mutex_);
  while (working_ > 0 && !stopping_) changed_.Wait(&mutex_, SteadyTime::InfiniteFuture());
  const SteadyTime deadline = SteadyNow() + kStopPatience;
  while (working_ > 0 && changed_.Wait(&mutex_, deadline)) continue;
  closed_ = true;
  if (status_.ok() && stopping_) status_ = absl::CancelledError("interrupted");
  return {.status = status_, .ended = working_ == 0};
}

void ExperimentRunner::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.NotifyAll();
}

void ExperimentRunner::Work() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const std::optional<experiment::RunPlan> plan = agenda_->Next();
    if (!plan.has_value()) {
      if (fractions_.empty()) break;  // no run is left that another waits for
      changed_.Wait(&mutex_, SteadyTime::InfiniteFuture());
      continue;
    }
    fractions_[plan->id] = 0;
    ShowProgress(*plan);
    mutex_.Unlock();
    absl::StatusOr<experiment::RunOutcome> outcome =
        options_.run(*plan, [&](double fraction) { return Report(*plan, fraction); });
    mutex_.Lock();
    Take(*plan, std::move(outcome));
  }
  --working_;
  changed_.NotifyAll();
}

void ExperimentRunner::Take(const experiment::RunPlan& plan,
                            absl::StatusOr<experiment::RunOutcome> outcome) {
  fractions_.erase(plan.id);
  changed_.NotifyAll();
  if (closed_) return;
  absl::Status taken = outcome.status();
  if (taken.ok()) taken = options_.keep(plan, *outcome);
  if (taken.ok()) {
    agenda_->Finish(plan, *std::move(outcome));
    ShowProgress(plan);
    return;
  }
  stopping_ = true;
  if (status_.ok()) status_ = std::move(taken);
}

bool ExperimentRunner::Report(const experiment::RunPlan& plan, double fraction) {
  MutexLock lock(&mutex_);
  if (stopping_) return false;
  fractions_[plan.id] = std::clamp(fraction, 0.0, 1.0);
  ShowProgress(plan);
  return true;
}

void ExperimentRunner::ShowProgress(const experiment::RunPlan& plan) {
  ExperimentProgress progress{
      .finished = agenda_->finished(), .total = agenda_->total(), .plan = plan};
  auto done = static_cast<double>(progress.finished);
  for (const auto& [id, fraction] : fractions_) done += fraction;
  const auto total = static_cast<double>(progress.total);
  const double fresh = done - static_cast<double>(finished_before_);
  progress.share = total > 0 ? done / total : 1;
  if (fresh > 0) {
    progress.eta_s = (options_.wall_seconds() - began_s_) / fresh * (total - done);
  }
  options_.progress(progress);
}

}  // namespace soapstone::apps
