#include "apps/profile/synchronization_probe.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/profile/quiet_job.h"
#include "apps/profile/scratch_folder.h"
#include "apps/profile/step_profile.h"
#include "base/status_macros.h"
#include "cluster/job_config.h"
#include "compute/cpu/backend.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

constexpr uint32_t kSamples = 125;  // of which one in five is held out
constexpr uint32_t kTrained = 100;
constexpr uint32_t kEpochsEach = 4;  // times the workers: 400 steps
constexpr size_t kWarmUp = 50;       // steps that are not counted
constexpr double kProfileSeconds = 0.2;

struct ProbeSize {
  uint32_t side = 0;  // of the images
  uint32_t classes = 0;
  uint64_t bytes() const { return uint64_t{4} * classes * (side * side + 1); }
};
constexpr ProbeSize kSmall = {.side = 4, .classes = 2};
constexpr ProbeSize kLarge = {.side = 32, .classes = 1024};

// Labels up to the last class, so that the model has as many.
void WriteSamples(const ProbeSize& size, const std::string& path) {
  std::ofstream file(path);
  for (uint32_t i = 0; i < kSamples; ++i) {
    for (uint32_t p = 0; p < size.side * size.side; ++p) file << (i * 31 + p * 17) % 16 << ',';
    file << size.classes - 1 - i % size.classes << '\n';
  }
}

absl::StatusOr<double> StepOfCluster(const ProbeSize& size, uint32_t workers, uint32_t servers) {
  const ScratchFolder folder;
  if (!folder.made()) return absl::InternalError(absl::StrCat("cannot make ", folder.path()));
  const std::string samples = folder.File("samples.csv");
  WriteSamples(size, samples);
  wire::JobConfig config;
  config.set_model("softmax");
  config.set_policy("bsp");
  config.mutable_data()->set_format("csv");
  config.mutable_data()->set_path(samples);
  config.mutable_data()->set_height(size.side);
  config.mutable_data()->set_width(size.side);
  config.mutable_training()->set_epochs(kEpochsEach * workers);
  config.mutable_training()->set_batch(workers);
  config.mutable_training()->set_optimizer("sgd:lr=0.0001");
  config.mutable_cluster()->set_workers(workers);
  config.mutable_cluster()->set_servers(servers);
  FillDefaults(&config);
  return MedianStepOfJob(std::move(config), folder.path(), kWarmUp);
}

absl::StatusOr<double> OperatorsOf(const ProbeSize& size) {
  const auto side = static_cast<int64_t>(size.side);
  SOAP_ASSIGN_OR_RETURN(
      models::Graph graph,
      models::BuildModel("softmax", models::ModelInput{.image = {1, side, side},
                                                       .classes = int64_t{size.classes}}));
  SOAP_ASSIGN_OR_RETURN(
      const std::unique_ptr<StepProfiler> profiler,
      StepProfiler::Create(std::move(graph), {.backend = compute::MakeCpuBackend({.threads = 1})}));
  SOAP_ASSIGN_OR_RETURN(const StepProfile profile, profiler->Measure(1, kProfileSeconds, nullptr));
  return static_cast<double>(profile.sum());
}

}  // namespace

absl::StatusOr<SyncTimes> MeasureSynchronization(uint32_t workers, uint32_t servers,
                                                 double slowdown) {
  static_assert(kTrained * 5 == kSamples * 4);
  double beside[2];
  const ProbeSize sizes[] = {kSmall, kLarge};
  for (size_t i = 0; i < 2; ++i) {
    SOAP_ASSIGN_OR_RETURN(const double step, StepOfCluster(sizes[i], workers, servers));
    SOAP_ASSIGN_OR_RETURN(const double operators, OperatorsOf(sizes[i]));
    beside[i] = std::max(0.0, step - slowdown * operators);
  }
  const auto apart = static_cast<double>(kLarge.bytes() - kSmall.bytes());
  const double ns_per_byte = std::max(0.0, beside[1] - beside[0]) / apart;
  return SyncTimes{.fixed_ns = beside[0], .ns_per_byte = ns_per_byte};
}

}  // namespace soapstone::apps
