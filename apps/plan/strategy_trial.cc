#include "apps/plan/strategy_trial.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/profile/quiet_job.h"
#include "base/status_macros.h"

namespace soapstone::apps {
namespace {

constexpr size_t kWarmUp = 3;
constexpr Nanos kTrial = 8 * kSecond;
constexpr Nanos kLongStep = kSecond / 2;
constexpr Nanos kStepsMin = 5, kStepsMax = 100;  // of a run, that count
constexpr size_t kSocketCharsMax = 100;          // of a socket's path

// Its processes listen where nobody else can call.
absl::StatusOr<Nanos> StepOf(wire::JobConfig config, uint32_t steps, const std::string& folder) {
  wire::Cluster* cluster = config.mutable_cluster();
  const std::string socket = absl::StrCat(folder, "/scheduler");
  if (socket.size() > kSocketCharsMax) {
    return absl::InvalidArgumentError(absl::StrCat("no socket can be named ", socket));
  }
  cluster->set_scheduler(absl::StrCat("ipc://", socket));
  cluster->set_security("off");
  config.mutable_training()->set_steps(steps);
  config.mutable_training()->set_evaluation("none");
  SOAP_ASSIGN_OR_RETURN(const double step, MedianStepOfJob(std::move(config), folder, kWarmUp));
  return static_cast<Nanos>(step);
}

}  // namespace

absl::StatusOr<TriedSteps> TrySteps(const wire::JobConfig& split, const wire::JobConfig& whole,
                                    Nanos step, const std::string& folder) {
  const int turns = step > kLongStep ? 1 : 2;
  const Nanos fit = kTrial / (2 * turns) / std::max<Nanos>(1, step);
  const auto steps = static_cast<uint32_t>(kWarmUp + 1 + std::clamp(fit, kStepsMin, kStepsMax));
  Nanos sums[] = {0, 0};
  for (int turn = 0; turn < turns; ++turn) {
    for (const bool is_split : {turn % 2 == 0, turn % 2 != 0}) {
      const absl::StatusOr<Nanos> took = StepOf(is_split ? split : whole, steps, folder);
      if (!took.ok()) {
        return absl::InternalError(
            absl::StrCat(is_split ? "split" : "without a strategy", ": ", took.status().message()));
      }
      sums[is_split ? 0 : 1] += *took;
    }
  }
  return TriedSteps{.split_ns = sums[0] / turns, .whole_ns = sums[1] / turns};
}

}  // namespace soapstone::apps
