#include "apps/cli/train_defaults.h"

#include <algorithm>
#include <filesystem>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "cluster/job_config.h"
#include "cluster/job_paths.h"
#include "cluster/team/job_strategy.h"
#include "glog/logging.h"

namespace soapstone::apps {
namespace {

constexpr char kExample[] = R"(
model: "lenet5"
data {
  format: "digits"
  path: "data/digits/digits.csv.gz"
  test_fraction: 0.2
}
policy: "ssp:s=2"
training {
  epochs: 30
  batch: 48
  micro_batches: 12
  seed: 1
  optimizer: "momentum:lr=0.03,mu=0.9,decay=1e-4"
  schedule: "cosine:min=0.01,warmup=20"
}
)";
constexpr char kDigits[] = "data/digits/digits.csv.gz";
constexpr uint32_t kWorkersMax = 8;
constexpr uint32_t kEpochs = 10;  // of a job that flags alone describe
constexpr uint32_t kBatch = 32;

// How long, how fast and from which seed, the example can be told.
bool SaysWhatToTrain(const JobOverride& override) {
  const absl::string_view path = override.field->path;
  return path == "model" || absl::StartsWith(path, "data.");
}

// The digits beside this program's sources: three folders above build/release/bin. Empty: not
// there.
std::string DigitsOfTheProject() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  const auto digits = self.parent_path().parent_path().parent_path().parent_path() / kDigits;
  return std::filesystem::exists(digits, error) ? digits.string() : "";
}

bool IsSet(const std::vector<JobOverride>& overrides, absl::string_view path) {
  return std::any_of(overrides.begin(), overrides.end(),
                     [&](const JobOverride& override) { return override.field->path == path; });
}

// "epochs: 10, batch: 32": those of the two that no flag sets.
std::string ChosenOfTraining(const std::vector<JobOverride>& overrides, bool split) {
  std::vector<std::string> chosen;
  if (!IsSet(overrides, "training.epochs")) chosen.push_back(absl::StrCat("epochs: ", kEpochs));
  if (!split && !IsSet(overrides, "training.batch"))
    chosen.push_back(absl::StrCat("batch: ", kBatch));
  return absl::StrJoin(chosen, ", ");
}

void LeaveMicroBatches(const std::vector<JobOverride>& overrides, wire::JobConfig* config) {
  if (IsSet(overrides, "training.micro_batches")) return;
  config->mutable_training()->clear_micro_batches();
}

// What no flag and no file says, and a strategy does.
void LeaveToStrategy(const std::vector<JobOverride>& overrides, wire::JobConfig* config) {
  wire::Training* training = config->mutable_training();
  if (!IsSet(overrides, "training.batch")) training->clear_batch();
  LeaveMicroBatches(overrides, config);
}

}  // namespace

wire::JobConfig ExampleJob() {
  const absl::StatusOr<wire::JobConfig> job = ParseJobText(kExample, "the example");
  CHECK(job.ok()) << job.status();
  return *job;
}

absl::StatusOr<wire::JobConfig> TrainConfigFromFlags(const NodeFlags& flags, std::string* said) {
  said->clear();
  wire::JobConfig config;
  const bool example =
      flags.config_path.empty() &&
      std::none_of(flags.overrides.begin(), flags.overrides.end(), SaysWhatToTrain);
  if (example) {
    config = ExampleJob();
    absl::StrAppend(
        said, "no job was named: lenet5 on the digits (--config=FILE, or --model and --data_path)");
  } else if (!flags.config_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(config, ReadJobFile(flags.config_path));
  }
  const bool bare = flags.config_path.empty() && !example;  // of flags alone
  if (bare) {
    config.mutable_training()->set_epochs(kEpochs);
    config.mutable_training()->set_batch(kBatch);
  }
  SOAP_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, &config));
  if (bare && config.model().empty()) {
    const auto of_data =
        std::find_if(flags.overrides.begin(), flags.overrides.end(), SaysWhatToTrain);
    return absl::InvalidArgumentError(absl::StrCat(
        "--", of_data->field->flag, ": a flag of the data begins a job of its own: --model",
        config.data().path().empty() ? ", and where the data are," : "", " must be named too"));
  }
  const bool split = !config.cluster().strategy().empty() && !IsAutoStrategy(config);
  if (IsAutoStrategy(config) && example) LeaveMicroBatches(flags.overrides, &config);
  if (split && (example || bare)) LeaveToStrategy(flags.overrides, &config);
  const bool found = IsAutoStrategy(config);  // later
  if (!found) SOAP_RETURN_IF_ERROR(FillFromStrategy(&config));
  wire::Cluster* cluster = config.mutable_cluster();
  const bool sized = cluster->servers() > 0 && cluster->workers() > 0;
  if (cluster->servers() == 0) cluster->set_servers(1);
  if (cluster->workers() == 0) {
    cluster->set_workers(std::clamp(std::thread::hardware_concurrency(), 1u, kWorkersMax));
  }
  // Once more: a number that is given as 0 is not one that is left open.
  SOAP_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, &config));
  if (bare) *said = ChosenOfTraining(flags.overrides, split);
  if (!sized && !said->empty()) {
    absl::StrAppend(said, "; servers: ", cluster->servers(), ", workers: ", cluster->workers());
  }
  const bool open = config.training().micro_batches() == 0;
  FillDefaults(&config);
  if (found && open) config.mutable_training()->clear_micro_batches();
  std::error_code error;
  if (config.data().path() == kDigits && !std::filesystem::exists(kDigits, error)) {
    const std::string digits = DigitsOfTheProject();
    if (!digits.empty()) config.mutable_data()->set_path(digits);
  }
  return config;
}

}  // namespace soapstone::apps
