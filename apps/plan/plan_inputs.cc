#include "apps/plan/plan_inputs.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/cli/job_source.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "strategy/strategy_text.h"

namespace soapstone::apps {
namespace {

// A job that is planned need not say how many servers and workers it has.
absl::Status FillFromJob(const PlanFlags& flags, PlanningOptions* options) {
  SOAP_ASSIGN_OR_RETURN(wire::JobConfig config, ReadJobFile(flags.config_path));
  if (!flags.model.empty()) config.set_model(flags.model);
  const uint32_t teams = std::max(1u, config.cluster().teams());  // one of which is planned for
  if (options->devices == 0) options->devices = config.cluster().workers() / teams;
  if (options->batch == 0) options->batch = config.training().batch() / teams;
  if (flags.for_workers && !flags.micro_batches.has_value()) {
    options->micro_batches = std::max<int64_t>(1, config.training().micro_batches() / teams);
  }
  if (options->optimizer.empty()) options->optimizer = config.training().optimizer();
  wire::Cluster* cluster = config.mutable_cluster();
  if (!cluster->strategy().empty()) {  // may be what is planned
    cluster->clear_strategy();
    cluster->clear_teams();
    config.mutable_training()->clear_micro_batches();
  }
  cluster->set_servers(std::max(1u, cluster->servers()));
  cluster->set_workers(std::max(1u, cluster->workers()));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, PrepareJob(std::move(config)));
  SayNotes("soapstone plan", job->notes);
  options->model = job->config.model();
  options->graph = job->graph;
  if (options->graph != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      options->model, " is a model over tables alone: it has no operators (docs/tables.md)"));
}

}  // namespace

absl::StatusOr<PlanningOptions> OptionsOf(const PlanFlags& flags) {
  PlanningOptions options = {.model = flags.model,
                             .machine_path = flags.machine_path,
                             .devices = flags.devices,
                             .slowness = flags.slowness,
                             .batch = flags.batch,
                             .time_chunk = flags.time_chunk,
                             .micro_batches = flags.micro_batches.value_or(1),
                             .jitter = flags.jitter,
                             .moved_gb = flags.moved_gb,
                             .costs_path = flags.costs_path,
                             .synchronization = flags.synchronization,
                             .for_workers = flags.for_workers,
                             .optimizer = flags.optimizer};
  if (!flags.config_path.empty()) SOAP_RETURN_IF_ERROR(FillFromJob(flags, &options));
  return options;
}

absl::Status CheckFilesApart(const PlanFlags& flags) {
  wire::JobConfig config;
  if (!flags.config_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(config, ReadJobFile(flags.config_path));
    config.mutable_cluster()->clear_strategy();  // may be what is planned
  }
  std::vector<std::string> read = {flags.config_path, flags.costs_path};
  if (std::filesystem::exists(flags.machine_path)) read.push_back(flags.machine_path);
  if (flags.strategy_path != flags.output_path) read.push_back(flags.strategy_path);
  return CheckApart({{"--output", flags.output_path},
                     {"--trace", flags.trace_path},
                     {"--svg", flags.svg_path},
                     {"--dot", flags.dot_path}},
                    config, read);
}

absl::StatusOr<StrategyFile> ReadStrategyFile(const std::string& path) {
  StrategyFile file = {.path = path};
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  SOAP_ASSIGN_OR_RETURN(file.message, planner::ParseStrategy(text, path));
  return file;
}

void FillFrom(const wire::Strategy& strategy, PlanningOptions* options) {
  if (options->model.empty()) options->model = strategy.model();
  if (options->devices == 0) options->devices = strategy.devices();
  if (options->batch == 0) options->batch = strategy.batch();
  if (options->time_chunk == 0) options->time_chunk = strategy.time_chunk();
  if (options->micro_batches <= 1) {
    options->micro_batches = std::max<int64_t>(1, strategy.micro_batches());
  }
}

bool HasOtherCosts(const StrategyFile& file, const Planning& planning) {
  return file.message.costs_sha256() != planning.costs().sha256();
}

}  // namespace soapstone::apps
