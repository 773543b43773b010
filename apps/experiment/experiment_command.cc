#include "apps/experiment/experiment_command.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/command_line.h"
#include "apps/cli/console.h"
#include "apps/cli/job_source.h"
#include "apps/daemon/signal_watch.h"
#include "apps/experiment/experiment_folder.h"
#include "apps/experiment/experiment_runs.h"
#include "apps/loop/node_loop.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "cluster/job.h"
#include "cluster/job_config.h"
#include "cluster/team/job_strategy.h"
#include "experiment/report/claims.h"
#include "experiment/run_json.h"

namespace soapstone::apps {
namespace {

constexpr int kRunBarWidth = 24;

using experiment::Experiment;
using experiment::RunOutcome;
using experiment::RunPlan;

absl::StatusOr<wire::JobConfig> CheckJob(const wire::JobConfig& config) {
  wire::JobConfig filled = config;
  FillDefaults(&filled);
  SOAP_RETURN_IF_ERROR(CheckJobConfig(filled).status());
  SOAP_RETURN_IF_ERROR(CheckUnsplit(filled, "an experiment"));
  return filled;
}

// What only the data and the model tell: a file that is missing, more shards than parameters.
absl::Status PrepareSubjects(const Experiment& experiment) {
  for (size_t subject = 0; subject < experiment.subjects.size(); ++subject) {
    for (const uint32_t workers : experiment.workers) {
      const auto job =
          PrepareDenseJob(experiment::JobOf(experiment, subject, 0, {}, workers), "an experiment");
      if (job.ok()) continue;
      return absl::Status(job.status().code(), absl::StrCat(experiment.subjects[subject].name, ": ",
                                                            job.status().message()));
    }
  }
  return absl::OkStatus();
}

std::string Describe(const Experiment& experiment, const RunPlan& plan) {
  return absl::StrCat(
      experiment.subjects[plan.cell.subject].name, ", ", experiment.policies[plan.cell.policy].name,
      ", ", experiment.stragglers[plan.cell.straggler].name(), ", ", plan.cell.workers,
      " workers, ", plan.tuning ? "tuning seed " : "seed ", plan.config.training().seed());
}

// The exit code of a signal that waits, which the launcher, between two runs, has not read; 0:
// none.
int PendingSignal() {
  sigset_t pending;
  sigpending(&pending);
  const sigset_t stops = StopSignals();
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    if (sigismember(&pending, number) != 1 || sigismember(&stops, number) != 1) continue;
    return number == SIGINT ? kExitInterrupted : kExitTerminated;
  }
  return 0;
}

// One process's work on an experiment.
class Campaign {
 public:
  Campaign(const Experiment& experiment, ExperimentFolder* folder, unsigned jobs)
      : experiment_(experiment),
        folder_(*folder),
        agenda_(&experiment, folder->outcomes()),
        terminal_(isatty(STDOUT_FILENO) != 0),
        console_(&std::cout, terminal_),
        machine_(ReadMachineFacts()),
        runner_(Options(jobs), &agenda_) {}

  int Run();

 private:
  bool real() const { return experiment_.spec.mode() == experiment::ExperimentSpec::real; }
  RunnerOptions Options(unsigned jobs);
  absl::StatusOr<RunOutcome> Make(const RunPlan& plan, const experiment::RunProgress& progress);
  absl::Status Keep(const RunPlan& plan, const RunOutcome& outcome) {
    return folder_.Append(experiment::RecordJson(experiment_, plan, outcome));
  }
  void Say(const ExperimentProgress& progress) {
    console_.Progress(NodeLoop::Now(),
                      ProgressText(progress, Describe(experiment_, progress.plan), terminal_));
  }
  void Greet();
  absl::Status Report();
  int Finish(const ExperimentRunner::End& end);

  const Experiment& experiment_;
  ExperimentFolder& folder_;
  experiment::Agenda agenda_;
  const bool terminal_;
  Console console_;
  const MachineFacts machine_;
  std::atomic<int> signalled_{0};  // exit code
  ExperimentRunner runner_;
};

RunnerOptions Campaign::Options(unsigned jobs) {
  RunnerOptions options{.jobs = real() ? 0 : jobs};
  options.run = [this](const RunPlan& plan, const experiment::RunProgress& progress) {
    return Make(plan, progress);
  };
  options.keep = [this](const RunPlan& plan, const RunOutcome& outcome) {
    return Keep(plan, outcome);
  };
  options.progress = [this](const ExperimentProgress& progress) { Say(progress); };
  options.wall_seconds = [] {
    return static_cast<double>(NodeLoop::Now()) / static_cast<double>(kSecond);
  };
  return options;
}

absl::StatusOr<RunOutcome> Campaign::Make(const RunPlan& plan,
                                          const experiment::RunProgress& progress) {
  if (const int code = real() ? PendingSignal() : 0; code != 0) {
    signalled_ = code;
    return absl::CancelledError("");
  }
  absl::StatusOr<RunOutcome> outcome =
      real() ? RunProcesses(plan, machine_, absl::StrCat(folder_.path(), "/logs/", plan.id),
                            &signalled_)
             : RunInVirtualTime(plan, machine_, progress);
  if (outcome.ok() || absl::IsCancelled(outcome.status())) return outcome;
  return absl::Status(outcome.status().code(),
                      absl::StrCat("run ", plan.id, " (", Describe(experiment_, plan),
                                   "): ", outcome.status().message()));
}

void Campaign::Greet() {
  if (folder_.facts().torn_lines > 0) {
    console_.Line(
        "warning: the last line of runs.jsonl was cut off, as by a kill; that run is "
        "made again");
  }
  if (agenda_.finished() > 0) {
    console_.Line(absl::StrCat(experiment_.spec.title(), ": ", agenda_.finished(), " of ",
                               agenda_.total(), " runs were finished before; going on in ",
                               folder_.path()));
  } else {
    console_.Line(absl::StrCat(experiment_.spec.title(), ": ", agenda_.total(), " runs, in ",
                               folder_.path()));
  }
}

int Campaign::Run() {
  Greet();
  // Real processes are the launcher's, and so are the signals while it runs.
  std::unique_ptr<SignalWatch> signals;
  if (!real()) {
    signals = std::make_unique<SignalWatch>();
    signals->Attach([this](int code, int) {
      signalled_ = code;
      runner_.Stop();
    });
  }
  const ExperimentRunner::End end = runner_.Run();
  console_.EndProgress();
  const int code = Finish(end);
  if (signals != nullptr) signals->Detach();
  if (end.ended) return code;
  std::cout << std::flush;
  std::_Exit(code);  // a thread still computes what nobody will keep
}

absl::Status Campaign::Report() {
  const experiment::Results results =
      experiment::Summarize(experiment_, agenda_.outcomes(), folder_.facts());
  SOAP_RETURN_IF_ERROR(folder_.WriteReport(results));
  for (const experiment::JudgedClaim& judged : experiment::JudgeClaims(results)) {
    const bool withheld = judged.verdict == experiment::Verdict::kWithheld;
    std::string line = absl::StrCat(experiment::VerdictText(judged.verdict), ": ", judged.text);
    if (!withheld) absl::StrAppend(&line, " (", judged.evidence, ")");
    // What always marks co-simulation is left to the page.
    for (const experiment::Finding& finding : judged.reasons) {
      if (!withheld && (finding.rule == 6 || finding.rule == 16)) continue;
      absl::StrAppend(&line, withheld ? ": rule " : "; marked by rule ", finding.rule, ": ",
                      finding.why);
      if (withheld) break;
    }
    console_.Line(line);
  }
  console_.Line(absl::StrCat("report: ", folder_.path(), "/report.html"));
  return absl::OkStatus();
}

int Campaign::Finish(const ExperimentRunner::End& end) {
  const std::string count =
      absl::StrCat(agenda_.finished(), " of ", agenda_.total(), " runs are finished and kept");
  const absl::Status reported = Report();
  if (!reported.ok()) return SayConfigError(kSoapstone, reported);
  if (end.status.ok()) return kExitOk;
  if (absl::IsCancelled(end.status)) {
    console_.Line(absl::StrCat("interrupted: ", count, "; run the same command to go on"));
    return signalled_ != 0 ? signalled_.load() : kExitInterrupted;
  }
  console_.Line(count);
  return SayConfigError(kSoapstone, end.status);
}

unsigned JobsOf(const ExperimentFlags& flags) {
  return flags.jobs > 0 ? flags.jobs : std::max(1u, std::thread::hardware_concurrency());
}

}  // namespace

std::string ProgressText(const ExperimentProgress& progress, const std::string& plan, bool bar) {
  std::string text;
  if (bar) {
    const int full = static_cast<int>(std::lround(kRunBarWidth * progress.share));
    text = absl::StrCat("[", std::string(static_cast<size_t>(full), '#'),
                        std::string(static_cast<size_t>(kRunBarWidth - full), '-'), "]  ");
  }
  absl::StrAppend(&text, progress.finished, "/", progress.total, " runs  ", plan, "  ETA ",
                  progress.eta_s < 0 ? "?" : DurationText(progress.eta_s));
  return text;
}

int RunExperiment(const ExperimentFlags& flags) {
  const absl::StatusOr<std::string> text = ReadWholeFile(flags.spec_path);
  if (!text.ok()) return SayConfigError(kSoapstone, text.status());
  const absl::StatusOr<Experiment> experiment =
      experiment::ParseExperiment(*text, flags.spec_path, CheckJob);
  if (!experiment.ok()) return SayConfigError(kSoapstone, experiment.status());
  const absl::Status prepared = PrepareSubjects(*experiment);
  if (!prepared.ok()) return SayConfigError(kSoapstone, prepared);
  if (flags.check && !flags.out_dir.empty()) {
    const absl::Status folder = ExperimentFolder::Check(flags.out_dir, *experiment);
    if (!folder.ok()) return SayConfigError(kSoapstone, folder);
  }
  if (flags.check) {
    const experiment::Agenda agenda(&*experiment, {});
    std::cout << "ok: " << experiment->spec.title() << ": " << agenda.total() << " runs\n";
    const std::vector<std::string> missing = experiment::MissingForClaims(*experiment);
    if (!missing.empty()) {
      std::cout << "no claim will be printed; missing: " << absl::StrJoin(missing, ", ") << "\n";
    }
    return kExitOk;
  }
  if (flags.out_dir.empty()) {
    return SayConfigError(kSoapstone, absl::InvalidArgumentError("--out=DIR is needed"));
  }
  const auto folder = ExperimentFolder::Open(flags.out_dir, *experiment, *text);
  if (!folder.ok()) return SayConfigError(kSoapstone, folder.status());
  return Campaign(*experiment, folder->get(), JobsOf(flags)).Run();
}

}  // namespace soapstone::apps
