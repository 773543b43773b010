#include "cluster/team/job_strategy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/counted.h"
#include "base/files/whole_file.h"
#include "base/leaf_tree.h"
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

// Policies whose members may be teams of several workers: servers, or the worker's own peer, answer
// each member for itself, and no member's rounds go on without it: its seats would go on from
// different clocks.
bool TakesTeams(const consistency::PolicyTraits& policy) {
  if (!policy.decentralised()) {
    return !policy.skips() && !policy.tree() && !policy.ordered_reads();
  }
  const auto* rounds = std::get_if<consistency::CollectiveTraits>(&policy.peers());
  return rounds == nullptr || rounds->partial == consistency::Partial::kNone;
}

// Between exchanges a seat steps what it holds by itself: the sum of what several compute of a
// piece would be needed at each step.
absl::Status CheckHolders(const std::string& file, const consistency::PolicyTraits& policy,
                          const planner::TeamPlan& plan) {
  std::vector<std::string> shared;
  for (size_t p = 0; p < plan.params.size(); ++p) {
    const std::vector<uint32_t>& seats = plan.pieces.sets[plan.pieces.pieces[p].set];
    if (seats.size() == 1) continue;
    shared.push_back(
        absl::StrCat(plan.params[p].name, " (workers ", absl::StrJoin(seats, ", "), ")"));
  }
  if (shared.empty()) return absl::OkStatus();
  constexpr size_t kNamed = 3;
  const std::string more =
      shared.size() > kNamed ? absl::StrCat(" and ", shared.size() - kNamed, " more") : "";
  shared.resize(std::min(shared.size(), kNamed));
  return Refuse(absl::StrCat(
      file, ": under ", policy.spec,
      " each worker of a team steps the parameters that it has by itself, and several have ",
      absl::StrJoin(shared, ", "), more,
      ": leave operators that have parameters whole, or split them by what they put out; or take a "
      "policy of servers, as ssp:s=1"));
}

// A seat that runs ahead reads values that lack so many of its own updates: only a bound as great
// lets it. Others than these count a reader's clock as that of what it has pushed.
absl::Status CheckStaleness(const std::string& file, const wire::Strategy& strategy,
                            const consistency::PolicyTraits& policy) {
  const uint32_t staleness = strategy.staleness();
  if (staleness == 0) return absl::OkStatus();
  const auto* bounded = std::get_if<consistency::BoundedTraits>(&policy.gate);
  const bool plain = std::holds_alternative<consistency::OptimizerRule>(policy.store);
  if (bounded != nullptr && plain && bounded->bound >= Clock{staleness}) return absl::OkStatus();
  return Refuse(absl::StrCat(file, " has a staleness of ", staleness, ", which policy ",
                             policy.spec, " does not allow: take --policy=ssp:s=", staleness,
                             " or more, or async; or plan with --staleness=0"));
}

bool KeptByWorkers(const wire::Strategy& strategy) {
  return strategy.synchronization() == planner::NameOf(planner::Synchronization::kOwner) ||
         strategy.synchronization() == planner::NameOf(planner::Synchronization::kRing);
}

uint32_t MicroBatchesOf(const wire::Strategy& strategy) {
  return static_cast<uint32_t>(std::max<int64_t>(1, strategy.micro_batches()));
}

// "for 2 devices", of several teams "for 2 devices, which of 3 teams are 6".
std::string For(const std::string& each, uint64_t count, uint32_t teams) {
  if (teams == 1) return absl::StrCat("for ", each);
  return absl::StrCat("for ", each, ", which of ", teams, " teams are ", count * teams);
}

// What else would do where the job has `given` of what a team has `each` of.
std::string OrPlanWith(const char* flag, uint64_t given, uint32_t teams) {
  if (given == 0 || given % teams != 0) return "";
  return absl::StrCat(", or plan with --", flag, "=", given / teams);
}

// "alexnet" of "alexnet:tiny"; empty of a file, whose name says nothing.
std::string NameIn(const std::string& model) {
  return absl::StartsWith(model, "onnx:") ? "" : model.substr(0, model.find(':'));
}

// By name: of which sizes it is says the plan of the team, to which other numbers have to agree.
absl::Status CheckModelName(const wire::JobConfig& config, const wire::Strategy& strategy) {
  const std::string ours = NameIn(config.model()), its = NameIn(strategy.model());
  if (ours.empty() || its.empty() || ours == its) return absl::OkStatus();
  return Refuse(absl::StrCat(config.cluster().strategy(), " is for ", strategy.model(),
                             "; model is ", config.model(), ": leave that out, or plan for it"));
}

absl::Status CheckWorkerCount(const wire::Cluster& cluster, const wire::Strategy& strategy) {
  const uint32_t workers = cluster.workers();
  if (workers == uint64_t{strategy.devices()} * cluster.teams()) return absl::OkStatus();
  const bool whole = workers % strategy.devices() == 0;
  const std::string teams =
      whole ? absl::StrCat(", or take --teams=", workers / strategy.devices()) : "";
  return Refuse(
      absl::StrCat(cluster.strategy(), " is ",
                   For(Counted(strategy.devices(), "device"), strategy.devices(), cluster.teams()),
                   "; the job has ", Counted(workers, "worker"), ": leave that out", teams,
                   OrPlanWith("devices", workers, cluster.teams())));
}

// Under a fixed tree a team pushes the sum of its micro-batches, which must be one of the tree's.
absl::Status CheckNodes(const wire::JobConfig& config, const consistency::PolicyTraits& policy,
                        uint32_t each) {
  const uint32_t all = config.training().micro_batches();
  for (uint32_t first = 0; policy.fixed_tree && first < all; first += each) {
    if (IsCanonicalNode({first, first + each}, all)) continue;
    return Refuse(absl::StrCat(
        config.cluster().strategy(), " has ", each, " micro-batches: under ", policy.spec,
        " those of each of ", config.cluster().teams(),
        " teams must be summed by themselves, which they are where they are a power of two: plan "
        "with --micro_batches=",
        std::bit_floor(each), " or ", std::bit_ceil(each)));
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const wire::JobConfig& config, const consistency::PolicyTraits& policy,
                        const wire::Strategy& strategy) {
  const std::string& file = config.cluster().strategy();
  const uint32_t teams = config.cluster().teams();
  SOAP_RETURN_IF_ERROR(CheckWorkerCount(config.cluster(), strategy));
  const auto batch = static_cast<uint64_t>(strategy.batch());
  const uint64_t given = config.training().batch();
  if (given != batch * teams) {
    return Refuse(absl::StrCat(file, " is ", For(absl::StrCat("a batch of ", batch), batch, teams),
                               "; training.batch is ", given, ": leave that out",
                               OrPlanWith("batch", given, teams)));
  }
  const uint32_t micro_batches = MicroBatchesOf(strategy);
  const uint64_t asked = config.training().micro_batches();
  if (asked != uint64_t{micro_batches} * teams) {
    const std::string each =
        absl::StrCat(micro_batches, micro_batches == 1 ? " micro-batch" : " micro-batches");
    return Refuse(absl::StrCat(file, " is ", For(each, micro_batches, teams),
                               "; training.micro_batches is ", asked, ": leave that out",
                               OrPlanWith("micro_batches", asked, teams)));
  }
  return CheckNodes(config, policy, micro_batches);
}

// Of a full batch, and of an epoch's last.
struct TeamSizes {
  uint32_t teams = 1;
  uint32_t micro_batches = 1;  // of a team
  MicroBatchRange Of(uint32_t team) const {
    return {team * micro_batches, (team + 1) * micro_batches};
  }
  SampleRange Samples(MicroBatchRange leaves, int64_t batch) const {
    return SamplesOfLeaves(leaves, teams * micro_batches, static_cast<uint64_t>(batch));
  }
  bool HasSamples(uint64_t batch) const { return batch == 0 || batch >= teams * micro_batches; }
  // A team cuts its samples into the same micro-batches as the whole batch is cut into.
  bool CutsAlike(int64_t batch) const {
    for (uint32_t team = 0; team < teams; ++team) {
      const SampleRange own = Samples(Of(team), batch);
      for (uint32_t i = 0; i < micro_batches; ++i) {
        const uint32_t leaf = team * micro_batches + i;
        const SampleRange part = SamplesOfLeaves({i, i + 1}, micro_batches, own.size());
        if (part.end != Samples({leaf, leaf + 1}, batch).end - own.begin) return false;
      }
    }
    return true;
  }
};

// The greatest batch below, whose last of an epoch is whole or has samples for all.
std::string BatchThatWouldDo(const TeamSizes& sizes, uint64_t train_samples, uint64_t batch,
                             bool alike) {
  for (uint64_t n = std::min(batch - 1, train_samples); n >= sizes.teams * sizes.micro_batches;
       --n) {
    const uint64_t rest = train_samples % n;
    const bool cut = !alike || rest == 0 || sizes.CutsAlike(static_cast<int64_t>(rest));
    if (n % sizes.teams != 0 || !sizes.HasSamples(rest) || !cut) continue;
    return absl::StrCat("training.batch: ", n, " would do (plan with --batch=", n / sizes.teams,
                        ")");
  }
  return "take fewer teams, or fewer micro-batches";
}

// The sizes of a team's batch that occur, the full one first. Of one team the lowering says which
// parts have nothing.
absl::StatusOr<std::vector<int64_t>> SizesOf(const TeamSizes& sizes, uint64_t train_samples,
                                             uint64_t batch, bool alike) {
  std::vector<int64_t> of_teams;
  for (const int64_t n : BatchSizes(train_samples, batch)) {
    if (sizes.teams > 1 && !sizes.HasSamples(static_cast<uint64_t>(n))) {
      return Refuse(absl::StrCat(
          "a batch of ", n, " samples, an epoch's last, has none for some micro-batch of ",
          sizes.teams, " teams: ", BatchThatWouldDo(sizes, train_samples, batch, alike)));
    }
    if (alike && !sizes.CutsAlike(n)) {
      return Refuse(absl::StrCat(
          "a batch of ", n, " samples, an epoch's last, is cut into other micro-batches by ",
          sizes.teams,
          " teams than by one: ", BatchThatWouldDo(sizes, train_samples, batch, alike)));
    }
    for (uint32_t team = 0; team < sizes.teams; ++team) {
      const auto samples = static_cast<int64_t>(sizes.Samples(sizes.Of(team), n).size());
      if (std::find(of_teams.begin(), of_teams.end(), samples) == of_teams.end()) {
        of_teams.push_back(samples);
      }
    }
  }
  return of_teams;
}

}  // namespace

wire::JobConfig WithoutStrategy(wire::JobConfig config) {
  config.mutable_cluster()->clear_strategy();
  config.mutable_cluster()->clear_teams();
  FillDefaults(&config);
  return config;
}

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
  if (IsAutoStrategy(*config)) {
    return Refuse(
        "auto is what `soapstone train` finds for the machine that it runs on, without --hosts: "
        "plan first (soapstone plan --config=JOB --machine=FILE --for_workers "
        "--output=STRATEGY) and give each process that file; a file named auto is ./auto");
  }
  SOAP_ASSIGN_OR_RETURN(const JobStrategy file, ReadJobStrategy(*config));
  const wire::Strategy& strategy = file.strategy;
  if (config->model().empty()) config->set_model(strategy.model());
  if (config->policy().empty() && strategy.staleness() > 0) {
    config->set_policy(absl::StrCat("ssp:s=", strategy.staleness()));
  }
  wire::Cluster* cluster = config->mutable_cluster();
  if (cluster->teams() == 0) cluster->set_teams(1);
  const uint64_t teams = cluster->teams();
  const uint64_t largest = std::max<uint64_t>(
      {strategy.devices(), static_cast<uint64_t>(strategy.batch()), MicroBatchesOf(strategy)});
  if (teams * largest > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("cluster.teams: ", teams, " of ", file.path, " are too many"));
  }
  const auto of_teams = [teams](uint64_t each) { return static_cast<uint32_t>(teams * each); };
  if (cluster->workers() == 0) cluster->set_workers(of_teams(strategy.devices()));
  // Those beside the workers of team 0.
  if (KeptByWorkers(strategy)) cluster->set_servers(strategy.devices());
  wire::Training* training = config->mutable_training();
  if (training->batch() == 0) training->set_batch(of_teams(strategy.batch()));
  if (training->micro_batches() == 0) {
    training->set_micro_batches(of_teams(MicroBatchesOf(strategy)));
  }
  return absl::OkStatus();
}

absl::Status CheckStrategyGoes(const wire::JobConfig& config, const cluster::JobSpecs& specs,
                               const wire::Strategy& strategy) {
  SOAP_RETURN_IF_ERROR(CheckModelName(config, strategy));
  SOAP_RETURN_IF_ERROR(CheckSizes(config, specs.policy, strategy));
  if (!TakesTeams(specs.policy)) {
    return Refuse(absl::StrCat("policy ", specs.policy.spec,
                               " does not take a model that is split over workers; bsp, ssp, essp, "
                               "dssp, psp, pssp, async, softsync, dcasgd, easgd, eamsgd, localsgd, "
                               "bmuf, allreduce and gossip do"));
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
  if (IsAutoStrategy(config)) {
    return Refuse(absl::StrCat("auto is found by `soapstone train` alone; ", what,
                               " takes no strategy so far: leave it out"));
  }
  return Refuse(absl::StrCat(config.cluster().strategy(), " splits the model, which ", what,
                             " does not take so far; `soapstone train` and `soapstone simulate "
                             "--job` do"));
}

std::vector<int64_t> BatchSizes(uint64_t train_samples, uint64_t batch) {
  const uint64_t full = std::min(train_samples, batch);
  std::vector<int64_t> sizes = {static_cast<int64_t>(full)};
  const uint64_t rest = train_samples % full;
  if (rest > 0) sizes.push_back(static_cast<int64_t>(rest));
  return sizes;
}

absl::StatusOr<std::shared_ptr<const cluster::TeamJob>> MakeTeams(const JobStrategy& file,
                                                                  const models::Graph& graph,
                                                                  const TeamsOf& of) {
  const TeamSizes each = {.teams = of.teams, .micro_batches = MicroBatchesOf(file.strategy)};
  const uint64_t batch = of.teams * static_cast<uint64_t>(file.strategy.batch());
  SOAP_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                        SizesOf(each, of.train_samples, batch, of.policy.fixed_tree));
  auto team = std::make_shared<cluster::TeamJob>();
  absl::StatusOr<planner::TeamPlan> plan =
      planner::PlanTeam(graph, file.strategy, file.path, sizes);
  if (!plan.ok()) return Refuse(std::string(plan.status().message()));
  team->plan = *std::move(plan);
  if (!of.policy.pushes_gradients()) {
    SOAP_RETURN_IF_ERROR(CheckHolders(file.path, of.policy, team->plan));
  }
  team->shape = {.teams = of.teams, .seats = team->plan.seats};
  team->peers = of.policy.decentralised();
  team->evaluation_batch = static_cast<uint64_t>(sizes[0]);
  team->evaluation_batches =
      (of.test_samples + team->evaluation_batch - 1) / team->evaluation_batch;
  if (of.test_samples == 0) return Refuse("a team evaluates held-out samples, and there are none");
  return team;
}

}  // namespace soapstone::apps
