#include "apps/plan/auto_strategy.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "apps/cli/job_source.h"
#include "apps/cli/launcher.h"
#include "apps/plan/plan_command.h"
#include "apps/plan/planning_process.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "cluster/resume/ran_before.h"
#include "cluster/team/job_strategy.h"
#include "strategy/strategy_text.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

constexpr double kGainMin = 1.05;  // over data parallelism: less is within what predictions miss
// Of steps that are mostly messages predictions miss more than a part of them.
constexpr Nanos kGainLeast = kMillisecond / 2;
constexpr char kByAuto[] = "# By `soapstone train --strategy=auto` (docs/execution.md).\n";
constexpr size_t kReasonCharsMax = 300;

std::string MsText(Nanos ns) {
  return absl::StrFormat("%.4g ms", static_cast<double>(ns) / kMillisecond);
}

void SayOfAuto(const std::string& line) {
  std::cerr << kSoapstone << ": --strategy=auto: " << line << std::endl;
}

std::string OneLine(const absl::Status& status) {
  return absl::StrReplaceAll(status.message().substr(0, kReasonCharsMax), {{"\n", " "}});
}

std::string TriedText(const TriedSteps& tried) {
  if (tried.split_ns == 0) return "";
  return absl::StrCat("tried, ", MsText(tried.split_ns), " and ", MsText(tried.whole_ns), "; ");
}

bool Gains(Nanos found, Nanos data) {
  return static_cast<double>(data) >= kGainMin * static_cast<double>(found);
}

std::string WhereKept(const std::string& synchronization) {
  if (synchronization == planner::NameOf(planner::Synchronization::kServers)) {
    return "kept by servers";
  }
  const bool ring = synchronization == planner::NameOf(planner::Synchronization::kRing);
  return ring ? "kept by the workers, in a ring" : "kept by the workers";
}

std::string WithoutField(const absl::Status& status) {
  return std::string(absl::StripPrefix(status.message(), "cluster.strategy: "));
}

// The finding of one job's strategy.
class Finding {
 public:
  Finding(const NodeFlags& flags, const wire::JobConfig& config, MeasuredInputs* kept)
      : flags_(flags), kept_(kept), config_(config), whole_(WithoutStrategy(config)) {
    const wire::Cluster& cluster = config.cluster();
    teams_ = std::max(1u, cluster.teams());
    devices_ = cluster.workers() / teams_;
    batch_ = config.training().batch() / teams_;
    micro_batches_ = config.training().micro_batches() / teams_;
    budget_s_ = flags.plan_budget_s.value_or(kPlanBudgetS);
  }

  absl::StatusOr<int> Run(wire::JobConfig* settled) {
    SOAP_RETURN_IF_ERROR(Prepare());
    const std::optional<wire::Checkpoint> before = RanBefore(config_);
    if (before.has_value() && RunsAsBefore(*before, config_)) return TakeAsBefore(*before, settled);
    const std::string why = WhyNoStrategy();
    if (!why.empty()) return TakeNone(why, settled);
    if (!flags_.machine_path.empty()) {
      SOAP_RETURN_IF_ERROR(CheckMachineFile(flags_.machine_path, config_));
    }
    SOAP_RETURN_IF_ERROR(ChoosePath());
    const ScratchFolder scratch;
    if (!scratch.made()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot make a temporary folder ", scratch.path(), ": is TMPDIR writable?"));
    }
    SayBegin();
    SOAP_ASSIGN_OR_RETURN(const ProcessEnd end, RunApart(scratch, [&] { Plan(scratch); }));
    if (end.asked.has_value()) {
      SayOfAuto(absl::StrCat(*end.asked == kExitInterrupted ? "interrupted" : "terminated",
                             " while planning"));
      return *end.asked;
    }
    FoundStep found = {.none = absl::StrCat("the process that plans: ", end.failed)};
    if (end.failed.empty()) {
      SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(scratch.File(kStep)));
      SOAP_ASSIGN_OR_RETURN(found, FoundStep::FromText(text));
    }
    const std::string left = WhyNotTaken(found, whole_runs_.ok());
    if (!left.empty()) return TakeNone(left, settled);
    if (kept_ != nullptr) {
      SOAP_RETURN_IF_ERROR(kept_->KeepFrom(scratch.path(), flags_.machine_path));
    }
    return Take(scratch.File(kStrategy), found, settled);
  }

 private:
  static constexpr char kStrategy[] = "strategy.textproto";
  static constexpr char kStep[] = "step";

  // As it runs without a strategy; or, where it does not, its model all the same.
  absl::Status Prepare() {
    absl::StatusOr<std::shared_ptr<const Job>> job = PrepareJob(whole_);
    whole_runs_ = job.status();
    if (!job.ok()) {
      wire::JobConfig alone = config_;
      alone.mutable_cluster()->set_workers(1);
      job = PrepareJob(WithoutStrategy(std::move(alone)));
    }
    if (!job.ok()) return whole_runs_;
    job_ = *std::move(job);
    return CheckOutputs(config_, {});
  }

  // What needs no plan to be known.
  std::string WhyNoStrategy() const {
    const wire::Cluster& cluster = config_.cluster();
    if (job_->graph == nullptr || job_->tables != nullptr) {
      return absl::StrCat(config_.model(), " is a model of tables, which is not split");
    }
    for (const auto& [number, what] :
         {std::pair(cluster.workers(), "workers"),
          std::pair(config_.training().batch(), "samples of a batch"),
          std::pair(config_.training().micro_batches(), "micro-batches")}) {
      if (number % teams_ != 0) {
        return absl::StrCat(number, " ", what, " are not divided among ", teams_, " teams");
      }
    }
    if (devices_ == 1) return "one worker has nobody to share the model with";
    if (job_->test_samples == 0) return "a team evaluates held-out samples, and there are none";
    wire::JobConfig split = config_;
    split.mutable_cluster()->set_teams(teams_);
    if (micro_batches_ == 0) split.mutable_training()->set_micro_batches(teams_);
    wire::Strategy sizes;
    sizes.set_devices(devices_);
    sizes.set_batch(batch_);
    sizes.set_micro_batches(std::max(1u, micro_batches_));
    const absl::Status goes = CheckStrategyGoes(split, job_->specs, sizes);
    return goes.ok() ? "" : WithoutField(goes);
  }

  // Where the file will be, which only an earlier one of ours may be now.
  absl::Status ChoosePath() {
    const wire::Output& output = config_.output();
    fs::path folder = fs::path(output.model_path()).parent_path();
    if (output.model_path().empty()) {
      log_dir_ = output.log_dir().empty() ? DefaultLogDir() : output.log_dir();
      folder = log_dir_;
    }
    path_ = (folder / StrategyName(config_)).string();
    SOAP_RETURN_IF_ERROR(CheckApart({{"--strategy=auto", path_}}, config_,
                                    {flags_.config_path, flags_.machine_path}));
    std::error_code error;
    if (!fs::exists(path_, error)) return absl::OkStatus();
    const absl::StatusOr<std::string> there = ReadWholeFile(path_);
    if (there.ok() && absl::StartsWith(*there, kByAuto)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "--strategy=auto: ", path_, " is no file of an earlier such job, and is not written over: ",
        "take it with --strategy=", path_, ", or move it"));
  }

  void SayBegin() const {
    const std::string machine = flags_.machine_path.empty()
                                    ? absl::StrCat("measuring this machine as ", devices_ * teams_,
                                                   " workers share it, and ")
                                    : "measuring ";
    SayOfAuto(absl::StrFormat("%swhat %s takes; then planning for %g s (--plan_budget)", machine,
                              job_->config.model(), budget_s_));
  }

  // In a process of its own.
  void Plan(const ScratchFolder& scratch) const {
    ForgetNodeVariables();  // the processes of a probe have theirs
    FoundStep found;
    const absl::StatusOr<PlannedStep> planned = PlanStepOf(scratch);
    if (planned.ok()) {
      found = {.found_ns = planned->found_ns,
               .data_ns = planned->data_ns,
               .synchronization = planned->synchronization};
      const absl::Status tried = TryWhereItCounts(scratch, &found);
      if (!tried.ok()) found.none = absl::StrCat("what was found was tried: ", OneLine(tried));
    } else {
      found.none = OneLine(planned.status());
    }
    WriteWholeFile(scratch.File(kStep), found.ToText()).IgnoreError();  // then it is not there
  }

  absl::StatusOr<PlannedStep> PlanStepOf(const ScratchFolder& scratch) const {
    InputsProbe probe = ProbeOf(config_, *job_);
    probe.model = job_->config.model();
    probe.machine_path = flags_.machine_path;
    SOAP_RETURN_IF_ERROR(MeasureInputs(probe, scratch.path()));
    const PlanInputs inputs = InputsIn(scratch.path(), flags_.machine_path);
    const PlanningOptions options = {.model = probe.model,
                                     .graph = job_->graph,
                                     .machine_path = inputs.machine,
                                     .devices = devices_,
                                     .batch = batch_,
                                     .micro_batches = micro_batches_,
                                     .costs_path = inputs.costs,
                                     .for_workers = true,
                                     .optimizer = whole_.training().optimizer()};
    return PlanStep({.micro_batches = micro_batches_,
                     .budget_s = budget_s_,
                     .output_path = scratch.File(kStrategy),
                     .for_workers = true,
                     .all_devices = true},
                    options,
                    job_->specs.policy.decentralised() ? planner::Synchronization::kRing
                                                       : planner::Synchronization::kServers);
  }

  // Where the prediction would take it, and data parallelism runs too: on this machine, which it is
  // planned for.
  absl::Status TryWhereItCounts(const ScratchFolder& scratch, FoundStep* found) const {
    const bool choice = found->data_ns > 0 && whole_runs_.ok() && flags_.machine_path.empty();
    if (!choice || !WhyNotTaken(*found, true).empty()) return absl::OkStatus();
    SayOfAuto(absl::StrCat("a step of ", MsText(found->found_ns), " is predicted, and ",
                           MsText(found->data_ns), " by data parallelism: trying both"));
    SOAP_ASSIGN_OR_RETURN(const wire::JobConfig split, SplitBy(scratch.File(kStrategy)));
    SOAP_ASSIGN_OR_RETURN(
        found->tried,
        TrySteps(split, whole_, std::max(found->found_ns, found->data_ns), scratch.path()));
    return absl::OkStatus();
  }

  // The job goes on from a checkpoint, and as what wrote it: nothing is measured again, and where
  // operators are split the bits stay those of one strategy.
  absl::StatusOr<int> TakeAsBefore(const wire::Checkpoint& before, wire::JobConfig* settled) {
    if (before.strategy().empty()) {
      SayOfAuto(absl::StrCat("without a strategy, as until checkpoint ", before.clock()));
      *settled = whole_;
      return kExitOk;
    }
    SOAP_RETURN_IF_ERROR(ChoosePath());
    SOAP_RETURN_IF_ERROR(WriteFile(before.strategy() + "\n"));
    SOAP_ASSIGN_OR_RETURN(*settled, SplitBy(path_));
    if (!log_dir_.empty()) settled->mutable_output()->set_log_dir(log_dir_);
    SayOfAuto(absl::StrCat("by that of checkpoint ", before.clock(), ": ", path_));
    return kExitOk;
  }

  // The job goes on without a strategy, or cannot.
  absl::StatusOr<int> TakeNone(const std::string& why, wire::JobConfig* settled) const {
    if (!whole_runs_.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--strategy=auto found no way to split the model: ", why,
                       "; and without a strategy ", whole_runs_.message()));
    }
    SayOfAuto(absl::StrCat("without a strategy, by data parallelism: ", why));
    *settled = whole_;
    return kExitOk;
  }

  absl::StatusOr<wire::JobConfig> SplitBy(const std::string& strategy) const {
    wire::JobConfig split = config_;
    split.mutable_cluster()->set_strategy(strategy);
    SOAP_RETURN_IF_ERROR(FillFromStrategy(&split));
    FillDefaults(&split);
    return split;
  }

  absl::StatusOr<int> Take(const std::string& planned, const FoundStep& found,
                           wire::JobConfig* settled) const {
    absl::StatusOr<wire::JobConfig> by = SplitBy(planned);
    const absl::Status runs = by.ok() ? PrepareJob(*by).status() : by.status();
    if (!runs.ok()) {
      return TakeNone(absl::StrCat("what was found does not run: ", WithoutField(runs)), settled);
    }
    wire::JobConfig split = *std::move(by);
    SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(planned));
    SOAP_RETURN_IF_ERROR(WriteFile(text));
    split.mutable_cluster()->set_strategy(path_);
    if (!log_dir_.empty()) split.mutable_output()->set_log_dir(log_dir_);
    const std::string data = found.data_ns > 0
                                 ? absl::StrCat(MsText(found.data_ns), " by data parallelism")
                                 : "data parallelism does not fit";
    const uint32_t micro_batches = split.training().micro_batches();
    SayOfAuto(absl::StrCat(
        "a step of ", MsText(found.found_ns), " is predicted, ", data, "; ", TriedText(found.tried),
        micro_batches == 1 ? "" : absl::StrCat(micro_batches, " micro-batches, "), "parameters ",
        WhereKept(found.synchronization), ": ", path_));
    *settled = std::move(split);
    return kExitOk;
  }

  absl::Status WriteFile(std::string text) const {
    if (absl::StartsWith(text, "#")) text.erase(0, text.find('\n') + 1);  // of `soapstone plan`
    std::error_code error;
    const fs::path folder = fs::path(path_).parent_path();
    if (!folder.empty()) fs::create_directories(folder, error);
    return WriteWholeFile(path_, kByAuto + text);
  }

  const NodeFlags& flags_;
  MeasuredInputs* kept_;
  const wire::JobConfig config_;
  const wire::JobConfig whole_;  // without a strategy
  absl::Status whole_runs_;      // whether that runs
  std::shared_ptr<const Job> job_;
  uint32_t teams_ = 1, devices_ = 1;  // of a team; and so the batch
  int64_t batch_ = 1;
  uint32_t micro_batches_ = 0;  // 0: to be chosen
  double budget_s_ = kPlanBudgetS;
  std::string path_;     // of the strategy
  std::string log_dir_;  // where it goes there; empty: beside the model
};

}  // namespace

absl::StatusOr<int> FindStrategy(const NodeFlags& flags, MeasuredInputs* kept,
                                 wire::JobConfig* config) {
  return Finding(flags, *config, kept).Run(config);
}

std::string FoundStep::ToText() const {
  return absl::StrJoin(
      std::tuple(found_ns, data_ns, tried.split_ns, tried.whole_ns, synchronization, none), "\n");
}

absl::StatusOr<FoundStep> FoundStep::FromText(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, absl::MaxSplits('\n', 5));
  FoundStep found;
  Nanos* const numbers[] = {&found.found_ns, &found.data_ns, &found.tried.split_ns,
                            &found.tried.whole_ns};
  bool good = lines.size() == 6;
  for (size_t i = 0; good && i < 4; ++i) good = absl::SimpleAtoi(lines[i], numbers[i]);
  if (!good) return absl::InternalError("--strategy=auto: what was planned cannot be read");
  found.synchronization = lines[4];
  found.none = lines[5];
  return found;
}

std::string WhyNotTaken(const FoundStep& found, bool data_runs) {
  if (!found.none.empty()) return found.none;
  if (found.data_ns == 0 || !data_runs) return "";
  const auto less = [](const char* how, Nanos ours, Nanos data, const std::string& than) {
    return absl::StrCat("the best that was found ", how, MsText(ours),
                        " a step and data parallelism ", MsText(data), ": it gains less than ",
                        than);
  };
  constexpr char kPredicted[] = "is predicted to take ";
  const std::string share = absl::StrFormat("%.0f%%", 100 * (kGainMin - 1));
  if (!Gains(found.found_ns, found.data_ns)) {
    return less(kPredicted, found.found_ns, found.data_ns, share);
  }
  if (found.data_ns - found.found_ns < kGainLeast) {
    return less(kPredicted, found.found_ns, found.data_ns,
                absl::StrCat(MsText(kGainLeast), ", and such steps are mostly messages"));
  }
  const TriedSteps& tried = found.tried;
  if (tried.split_ns == 0 || Gains(tried.split_ns, tried.whole_ns)) return "";
  return absl::StrCat(less("takes ", tried.split_ns, tried.whole_ns, share),
                      " (tried; predicted were ", MsText(found.found_ns), " and ",
                      MsText(found.data_ns), ")");
}

std::string StrategyName(const wire::JobConfig& config) {
  std::string name = fs::path(config.output().model_path()).stem().string();
  if (name.empty()) {
    const std::string& model = config.model();
    const bool from_file = absl::StartsWith(model, "onnx:");
    name = from_file ? fs::path(model.substr(5)).stem().string() : model.substr(0, model.find(':'));
  }
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && !absl::StrContains("._-", c))
      c = '_';
  }
  return absl::StrCat(name, ".strategy.textproto");
}

}  // namespace soapstone::apps
