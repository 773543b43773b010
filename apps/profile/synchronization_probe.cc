#include "apps/profile/synchronization_probe.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/cli/console.h"
#include "apps/cli/launcher.h"
#include "apps/profile/step_profile.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "cluster/iteration_trace.h"
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

// A folder that is gone when this is.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = (std::filesystem::temp_directory_path() / "soapstone-probe-XXXXXX").string();
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (made_) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  bool made() const { return made_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

// Labels up to the last class, so that the model has as many.
void WriteSamples(const ProbeSize& size, const std::string& path) {
  std::ofstream file(path);
  for (uint32_t i = 0; i < kSamples; ++i) {
    for (uint32_t p = 0; p < size.side * size.side; ++p) file << (i * 31 + p * 17) % 16 << ',';
    file << size.classes - 1 - i % size.classes << '\n';
  }
}

// Median time between the ends of a worker's successive iterations.
absl::StatusOr<double> MedianStepNs(const std::string& trace) {
  std::ifstream file(trace);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> names = absl::StrSplit(line, ',');
  const auto end =
      static_cast<size_t>(std::find(names.begin(), names.end(), "end_us") - names.begin());
  std::map<std::string, std::vector<double>> ends;  // by worker
  while (std::getline(file, line)) {
    const std::vector<std::string> row = absl::StrSplit(line, ',');
    double us = 0;
    if (end >= row.size() || !absl::SimpleAtod(row[end], &us)) continue;
    ends[row[0]].push_back(us);
  }
  std::vector<double> steps;
  for (const auto& [worker, of] : ends) {
    for (size_t i = kWarmUp + 1; i < of.size(); ++i) steps.push_back(of[i] - of[i - 1]);
  }
  if (steps.empty()) return absl::InternalError(absl::StrCat(trace, ": no iterations"));
  const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return 1000 * *middle;
}

absl::StatusOr<double> StepOfCluster(const ProbeSize& size, uint32_t workers, uint32_t servers) {
  const TemporaryFolder folder;
  if (!folder.made()) return absl::InternalError(absl::StrCat("cannot make ", folder.path()));
  const std::string samples = absl::StrCat(folder.path(), "/samples.csv");
  const std::string trace = absl::StrCat(folder.path(), "/trace.csv");
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
  config.mutable_output()->set_log_dir(absl::StrCat(folder.path(), "/logs"));
  config.mutable_output()->set_trace_path(trace);
  FillDefaults(&config);
  SOAP_ASSIGN_OR_RETURN(LauncherOptions options, PrepareLaunch(std::move(config)));
  std::ostringstream said;
  Console console(&said, false);
  if (Launcher(std::move(options), &console).Run() != kExitOk) {
    return absl::InternalError(absl::StrCat("the job of the probe failed: ", said.str()));
  }
  SOAP_RETURN_IF_ERROR(JoinTraceParts(trace, workers));
  return MedianStepNs(trace);
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
