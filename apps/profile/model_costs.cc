#include "apps/profile/model_costs.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/profile/cost_table.h"
#include "apps/profile/roofline.h"
#include "apps/profile/step_profile.h"
#include "apps/report/step_memory.h"
#include "base/memory/memory_limit.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::apps {
namespace {

constexpr double kCostSeconds = 0.6;
// Of one size: a step that is not counted and three that are.
constexpr Nanos kCostSteps = 4;
constexpr Nanos kLongestCosts = 4 * kSecond;
// Of one sample; beyond, the roofline has to do.
constexpr Nanos kLongestCostSample = 5 * kSecond;

// Of the memory that is free, for a profile.
constexpr double kMemoryShare = 0.5;

bool HasRoomFor(const models::Graph& graph, const models::ReplicaOptions& options,
                int64_t samples) {
  const absl::StatusOr<models::StepPlan> plan =
      models::GraphRunner::PlanStep(graph, options, samples);
  return plan.ok() && static_cast<double>(StepMemoryOf(graph, samples, plan->memory).total()) <=
                          kMemoryShare * static_cast<double>(AvailableMemory());
}

}  // namespace

absl::StatusOr<Nanos> MeasureModelCosts(const models::Graph& graph, const ModelCosts& of,
                                        const std::string& path) {
  const std::shared_ptr<compute::Backend> backend =
      compute::MakeCpuBackend({.threads = of.threads});
  const models::ReplicaOptions options = {.backend = backend};
  if (!HasRoomFor(graph, options, 1)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too little memory for a sample of ", of.model));
  }
  SOAP_ASSIGN_OR_RETURN(const Roofline roofline, MeasureRoofline(backend.get(), of.threads));
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<StepProfiler> profiler,
                        StepProfiler::Create(graph, options));
  SOAP_RETURN_IF_ERROR(profiler->Run(1).status());
  SOAP_ASSIGN_OR_RETURN(const StepTimes once, profiler->Run(1));
  if (once.took > kLongestCostSample) {
    return absl::ResourceExhaustedError(absl::StrCat("a sample of ", of.model, " takes too long"));
  }
  const int64_t share = std::max<int64_t>(1, of.batch / of.workers);
  std::vector<StepProfile> profiles;
  // A step of n samples takes no longer than n of one.
  for (const int64_t samples : {of.batch, share, share / 2, int64_t{1}}) {
    const bool taken = !profiles.empty() && profiles.back().samples <= samples;
    const bool is_long =
        samples > 1 && samples > kLongestCosts / kCostSteps / std::max<Nanos>(1, once.took);
    if (samples < 1 || taken || is_long || !HasRoomFor(graph, options, samples)) continue;
    SOAP_ASSIGN_OR_RETURN(StepProfile profile, profiler->Measure(samples, kCostSeconds, nullptr));
    profiles.push_back(std::move(profile));
  }
  const CostOrigin origin = {.model = of.model, .threads = of.threads, .roofline = roofline};
  SOAP_RETURN_IF_ERROR(WriteCostTable(path, MakeCostTable(graph, origin, profiles)));
  const auto nearest = std::min_element(
      profiles.begin(), profiles.end(), [share](const StepProfile& a, const StepProfile& b) {
        return std::abs(a.samples - share) < std::abs(b.samples - share);
      });
  return nearest->step * share / nearest->samples;
}

}  // namespace soapstone::apps
