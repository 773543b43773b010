#include "cluster/team/job_strategy.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/counted.h"
#include "base/files/whole_file.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "cluster/job_config.h"
#include "strategy/strategy_text.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

absl::Status Refuse(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("cluster.strategy: ", why));
}

// Policies whose members may be teams of several workers: those that answer each member for itself,
// and apply gradients as they are.
bool TakesTeams(const consistency::PolicyTraits& policy) {
  return policy.takes_tables() && !policy.deferred();
}

// A seat that runs ahead reads values that lack so many of its own updates: only a bound as great
// lets it. Others than these count a reader's clock as that of what it has pushed.
absl::Status CheckStaleness(const std::string& file, const wire::Strategy& strategy,
                            const consistency::PolicyTraits& policy) {
  const uint32_t staleness = strategy.staleness();
  if (staleness == 0) return absl::OkStatus();
  const auto* bounded = std::get_if<consistency::BoundedTraits>(&policy.gate);
  if (bounded != nullptr && bounded->bound >= Clock{staleness}) return absl::OkStatus();
  return Refuse(absl::StrCat(file, " has a staleness of ", staleness, ", which policy ",
                             policy.spec, " does not allow: take --policy=ssp:s=", staleness,
                             " or more, or async; or plan with --staleness=0"));
}

bool KeptByWorkers(const wire::Strategy& strategy) {
  return strategy.synchronization() == planner::NameOf(planner::Synchronization::kOwner);
}

absl::Status CheckSizes(const wire::JobConfig& config, const wire::Strategy& strategy) {
  const std::string& file = config.cluster().strategy();
  if (config.cluster().workers() != strategy.devices()) {
    return Refuse(
        absl::StrCat(file, " is for ", Counted(strategy.devices(), "device"), "; the job has ",
                     Counted(config.cluster().workers(), "worker"),
                     ": leave that out, or plan with --devices=", config.cluster().workers()));
  }
  if (config.training().batch() != static_cast<uint64_t>(strategy.batch())) {
    return Refuse(
        absl::StrCat(file, " is for a batch of ", strategy.batch(), "; training.batch is ",
                     config.training().batch(),
                     ": leave that out, or plan with --batch=", config.training().batch()));
  }
  const int64_t micro_batches = std::max<int64_t>(1, strategy.micro_batches());
  if (config.training().micro_batches() != micro_batches) {
    return Refuse(absl::StrCat(
        file, " is for ", micro_batches, micro_batches == 1 ? " micro-batch" : " micro-batches",
        "; training.micro_batches is ", config.training().micro_batches(),
        ": leave that out, or plan with --micro_batches=", config.training().micro_batches()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobStrategy> ReadJobStrategy(const wire::JobConfig& config) {
  JobStrategy read = {.path = config.cluster().strategy()};
  const absl::StatusOr<std::string> text = ReadWholeFile(read.path);
  if (!text.ok()) return Refuse(std::string(text.status().message()));
  absl::StatusOr<wire::Strategy> strategy = planner::ParseStrategy(*text, read.path);
  if (!strategy.ok()) return Refuse(std::string(strategy.status().message()));
  read.strategy = *std::move(strategy);
  Sha256 digest;
  digest.Update(text->data(), text->size());
  read.sha256 = digest.HexDigest();
  return read;
}

absl::Status FillFromStrategy(wire::JobConfig* config) {
  if (config->cluster().strategy().empty()) return absl::OkStatus();
  SOAP_ASSIGN_OR_RETURN(const JobStrategy file, ReadJobStrategy(*config));
  const wire::Strategy& strategy = file.strategy;
  if (config->model().empty()) config->set_model(strategy.model());
  if (config->policy().empty() && strategy.staleness() > 0) {
    config->set_policy(absl::StrCat("ssp:s=", strategy.staleness()));
  }
  wire::Cluster* cluster = config->mutable_cluster();
  if (cluster->workers() == 0) cluster->set_workers(strategy.devices());
  if (KeptByWorkers(strategy)) cluster->set_servers(strategy.devices());
  wire::Training* training = config->mutable_training();
  if (training->batch() == 0) training->set_batch(static_cast<uint32_t>(strategy.batch()));
  if (training->micro_batches() == 0) {
    training->set_micro_batches(
        static_cast<uint32_t>(std::max<int64_t>(1, strategy.micro_batches())));
  }
  return absl::OkStatus();
}

absl::Status CheckStrategyGoes(const wire::JobConfig& config, const cluster::JobSpecs& specs,
                               const wire::Strategy& strategy) {
  SOAP_RETURN_IF_ERROR(CheckSizes(config, strategy));
  if (!TakesTeams(specs.policy)) {
    return Refuse(absl::StrCat("policy ", specs.policy.spec,
                               " does not take a model that is split over workers; bsp, ssp, dssp, "
                               "psp, pssp and async do"));
  }
  SOAP_RETURN_IF_ERROR(CheckStaleness(config.cluster().strategy(), strategy, specs.policy));
  const wire::Cluster& cluster = config.cluster();
  const std::pair<bool, const char*> refused[] = {
      {cluster.rebalance(), "cluster.rebalance: a strategy says who computes what"},
      {cluster.communication() != "fifo", "cluster.communication: a strategy has none but fifo"},
      {cluster.precision() != "float32", "cluster.precision: parts run in float32 so far"},
      {cluster.device() == "cuda", "cluster.device: parts run on processors so far"},
      {config.training().on_nonfinite() == "skip",
       "training.on_nonfinite: one worker of a team cannot leave out what others have"},
      {!config.output().record_path().empty(), "output.record_path: teams are not replayed so far"},
      {!config.output().curve_path().empty(), "output.curve_path: not measured of teams so far"},
      {!config.output().timeline_path().empty(), "output.timeline_path: not of teams so far"},
  };
  for (const auto& [is_set, why] : refused) {
    if (is_set) return Refuse(absl::StrCat("it does not go with ", why));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> ServerProcesses(const wire::JobConfig& config,
                                         const cluster::JobSpecs& specs) {
  if (!config.cluster().strategy().empty()) {
    SOAP_ASSIGN_OR_RETURN(const JobStrategy file, ReadJobStrategy(config));
    if (KeptByWorkers(file.strategy)) return 0;
  }
  return ServerCount(config, specs.policy);
}

absl::Status CheckUnsplit(const wire::JobConfig& config, const char* what) {
  if (config.cluster().strategy().empty()) return absl::OkStatus();
  return Refuse(absl::StrCat(config.cluster().strategy(), " splits the model, which ", what,
                             " does not take so far; `soapstone train` does"));
}

std::vector<int64_t> BatchSizes(uint64_t train_samples, uint64_t batch) {
  const uint64_t full = std::min(train_samples, batch);
  std::vector<int64_t> sizes = {static_cast<int64_t>(full)};
  const uint64_t rest = train_samples % full;
  if (rest > 0) sizes.push_back(static_cast<int64_t>(rest));
  return sizes;
}

absl::StatusOr<std::shared_ptr<const cluster::TeamJob>> MakeTeam(const JobStrategy& file,
                                                                 const models::Graph& graph,
                                                                 uint64_t train_samples,
                                                                 uint64_t test_samples) {
  const auto batch = static_cast<uint64_t>(file.strategy.batch());
  auto team = std::make_shared<cluster::TeamJob>();
  absl::StatusOr<planner::TeamPlan> plan =
      planner::PlanTeam(graph, file.strategy, file.path, BatchSizes(train_samples, batch));
  if (!plan.ok()) return Refuse(std::string(plan.status().message()));
  team->plan = *std::move(plan);
  team->shape = {.teams = 1, .seats = team->plan.seats};
  team->evaluation_batch = std::min(train_samples, batch);
  team->evaluation_batches = (test_samples + team->evaluation_batch - 1) / team->evaluation_batch;
  if (test_samples == 0) return Refuse("a team evaluates held-out samples, and there are none");
  return team;
}

}  // namespace soapstone::apps
