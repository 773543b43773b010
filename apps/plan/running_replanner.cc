#include "apps/plan/running_replanner.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "apps/loop/node_loop.h"
#include "apps/plan/planning_process.h"
#include "base/exit_codes.h"
#include "base/plain_text.h"
#include "base/status_macros.h"
#include "base/stop_signals.h"
#include "cluster/job.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMarksMax = 20;  // of late: half a second each

std::string MsText(Nanos ns) {
  return absl::StrFormat("%.4g ms", static_cast<double>(ns) / kMillisecond);
}

// Of what `soapstone plan --compare --json` says: the steps of both. Error: it says something else.
absl::StatusOr<std::pair<Nanos, Nanos>> StepsOf(const std::string& output) {
  try {  // nlohmann's interface; its exceptions stay here
    const nlohmann::json strategies = nlohmann::json::parse(output).at("strategies");
    const auto step = [&](size_t i) { return strategies.at(i).at("iteration_ns").get<Nanos>(); };
    const std::pair<Nanos, Nanos> steps = {step(0), step(1)};
    if (steps.first > 0 && steps.second > 0) return steps;
  } catch (const nlohmann::json::exception&) {
  }
  return absl::InternalError("what was predicted cannot be read");
}

}  // namespace

std::string WhyNotReplanned(const ReplanTimes& times) {
  const auto present = static_cast<double>(times.present_ns);
  const auto found = static_cast<double>(times.found_ns);
  const std::string steps = absl::StrCat(MsText(times.found_ns),
                                         " a step is predicted of the best "
                                         "strategy that was found, ",
                                         MsText(times.present_ns), " of the present one");
  if (found * RunningReplanner::kGainMin > present) {
    return absl::StrCat(steps, ": it gains less than ",
                        absl::StrFormat("%.0f%%", 100 * (RunningReplanner::kGainMin - 1)));
  }
  const auto clocks = static_cast<double>(
      std::min(RunningReplanner::kPaidBackSteps, std::max<Clock>(0, times.left)));
  const double gain_s =
      clocks * static_cast<double>(times.step_ns) * (1 - found / present) / kSecond;
  const double stop_s = static_cast<double>(times.stop_ns) / kSecond;
  if (gain_s > stop_s) return "";
  return absl::StrCat(
      steps, absl::StrFormat(": %g steps would gain %.1f s, and the stop takes %.1f", clocks,
                             gain_s, stop_s));
}

std::vector<double> SlownessOfSeats(const std::vector<double>& by_worker, size_t devices) {
  std::vector<double> seats(devices, 0);
  for (size_t w = 0; w < by_worker.size(); ++w) {
    seats[w % devices] = std::max(seats[w % devices], by_worker[w]);
  }
  return seats;
}

uint32_t RunningReplanner::devices() const {
  return config_.cluster().workers() / std::max(1u, config_.cluster().teams());
}

absl::StatusOr<int> RunningReplanner::Prepare(const wire::JobConfig& config) {
  if (!machine_given_.empty()) SOAP_RETURN_IF_ERROR(CheckMachineFile(machine_given_, config));
  if (!inputs_->files().machine.empty()) return kExitOk;  // auto has measured them
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job, PrepareJob(config));
  std::cerr << "soapstone: --replan: measuring "
            << (machine_given_.empty() ? "this machine as the workers share it, and " : "")
            << "what " << config.model() << " takes" << std::endl;
  InputsProbe probe = ProbeOf(config, *job);
  probe.machine_path = machine_given_;
  const ScratchFolder scratch;
  if (!scratch.made()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot make a temporary folder ", scratch.path(), ": is TMPDIR writable?"));
  }
  absl::Status measured;
  SOAP_ASSIGN_OR_RETURN(const ProcessEnd end, RunApart(scratch, [&] {
                          if (!MeasureInputs(probe, scratch.path()).ok()) _exit(kExitInternal);
                        }));
  if (end.asked.has_value()) return *end.asked;
  if (!end.failed.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--replan: this machine could not be measured: ", end.failed));
  }
  SOAP_RETURN_IF_ERROR(inputs_->KeepFrom(scratch.path(), machine_given_));
  return kExitOk;
}

void RunningReplanner::Begin(Nanos now, const wire::JobConfig& config, const std::string& log_dir) {
  config_ = config;
  log_dir_ = log_dir;
  factors_.resize(devices(), 1);
  began_ = now;
  stop_ns_.reset();
  marks_.clear();
  found_ = false;
}

void RunningReplanner::Take(Nanos now, const ProgressReport& progress) {
  if (!stop_ns_.has_value()) stop_ns_ = now - began_;
  clocks_ = progress.clocks;
  if (!marks_.empty() && marks_.back().clock == progress.clock) return;
  marks_.push_back({now, progress.clock});
  if (marks_.size() > kMarksMax) marks_.erase(marks_.begin());
}

void RunningReplanner::Take(Nanos now, const SlownessReport& slowness) {
  if (work_.has_value() || found_ || devices() < 2 || slowness.slowness.empty()) return;
  if (looked_at_.has_value() && now - *looked_at_ < kPause) return;
  std::vector<double> seats = SlownessOfSeats(slowness.slowness, devices());
  if (std::all_of(seats.begin(), seats.end(), [](double f) { return f == 1; })) return;
  looked_at_ = now;
  work_ = WorkFor(std::move(seats));
}

RunningReplanner::Work RunningReplanner::WorkFor(std::vector<double> slowness) {
  Work work;
  work.slowness = std::move(slowness);
  std::error_code error;
  do {  // a former job's may be what this one runs by
    work.path = absl::StrCat(log_dir_, "/replan-", ++searches_, ".strategy.textproto");
  } while (fs::exists(work.path, error));
  return work;
}

std::vector<std::string> RunningReplanner::Command(const Work& work) const {
  std::vector<double> factors = work.slowness;
  for (size_t d = 0; d < factors.size(); ++d) factors[d] *= factors_[d];
  // Of the child that becomes it: this program, whatever has its path by now.
  std::vector<std::string> command = {program_.empty() ? "/proc/self/exe" : program_,
                                      "plan",
                                      absl::StrCat("--config=", log_dir_, "/job.textproto"),
                                      absl::StrCat("--machine=", inputs_->files().machine),
                                      absl::StrCat("--devices=", factors.size()),
                                      absl::StrCat("--slowness=", absl::StrJoin(factors, ",")),
                                      "--json"};
  if (!inputs_->files().costs.empty()) {
    command.push_back(absl::StrCat("--costs=", inputs_->files().costs));
  }
  if (work.comparing) {  // two strategies say themselves what their micro-batches are
    command.push_back(absl::StrCat("--compare=", config_.cluster().strategy(), ",", work.path));
  } else {
    command.push_back("--for_workers");
    command.push_back("--all_devices");
    command.push_back(absl::StrCat("--budget=", work.budget_s, "s"));
    command.push_back(absl::StrCat("--output=", work.path));
  }
  return command;
}

std::string RunningReplanner::Start(Work* work) {
  work->output.clear();
  absl::StatusOr<std::unique_ptr<ChildProcess>> process =
      ChildProcess::Start({.name = "replan",
                           .command = Command(*work),
                           .log_path = absl::StrCat(log_dir_, "/replan.log")});
  if (!process.ok()) return std::string(process.status().message());
  work->process = *std::move(process);
  work->until = NodeLoop::Now() + kProcessMax;
  return "";
}

bool RunningReplanner::HasEnded(Work* work) {
  const auto read = [work] {
    work->process->ReadStdout([work](const std::string& line) { work->output += line; });
    work->process->ReadStderr([](const std::string&) {});
  };
  read();
  work->process->Poll();
  if (!work->process->ending().has_value()) return NodeLoop::Now() > work->until;
  read();
  return true;
}

std::string RunningReplanner::WhyItFailed(const Work& work) {
  const ChildProcess& process = *work.process;
  if (!process.ending().has_value()) {
    return absl::StrCat("planning has not ended in ", kProcessMax / kSecond, " s");
  }
  if (process.ending()->good()) return "";
  const std::string said = process.last_lines().empty() ? "" : process.last_lines().back();
  return absl::StrCat(process.ending()->by_signal ? "planning was " : "planning ended with ",
                      process.ending()->ToString(), said.empty() ? "" : ": ", PlainText(said));
}

void RunningReplanner::AppendFds(std::vector<int>* fds) const {
  if (work_.has_value() && work_->process != nullptr) work_->process->AppendFds(fds);
}

std::vector<std::string> RunningReplanner::Turn(Nanos now) {
  std::vector<std::string> lines;
  if (!work_.has_value()) return lines;
  if (work_->process == nullptr) {
    std::vector<std::string> changed;
    for (size_t d = 0; d < work_->slowness.size(); ++d) {
      if (work_->slowness[d] == 1) continue;
      changed.push_back(
          absl::StrFormat("seat %d takes %.2f times as long as at first", d, work_->slowness[d]));
    }
    lines.push_back(
        absl::StrFormat("%s: planning anew for %g s", absl::StrJoin(changed, ", "), kBudgetS));
    const std::string failed = Start(&*work_);
    if (failed.empty()) return lines;
    lines.push_back(absl::StrCat("not planned anew: ", failed));
    work_.reset();
    return lines;
  }
  if (found_ || !HasEnded(&*work_)) return lines;
  const std::string failed = OnEnded(now);
  if (!failed.empty()) {
    lines.push_back(absl::StrCat("the present strategy stays: ", failed));
    work_.reset();
  }
  return lines;
}

// Why nothing comes of it; empty: it goes on, or something was found.
std::string RunningReplanner::OnEnded(Nanos now) {
  if (std::string failed = WhyItFailed(*work_); !failed.empty()) return failed;
  if (!work_->comparing) {
    work_->comparing = true;
    return Start(&*work_);
  }
  const absl::StatusOr<std::pair<Nanos, Nanos>> steps = StepsOf(work_->output);
  if (!steps.ok()) return std::string(steps.status().message());
  std::string why = WhyNotReplanned(TimesNow(now, steps->first, steps->second));
  found_ = why.empty();
  return why;
}

ReplanTimes RunningReplanner::TimesNow(Nanos now, Nanos present_ns, Nanos found_ns) const {
  ReplanTimes times = {
      .present_ns = present_ns, .found_ns = found_ns, .stop_ns = stop_ns_.value_or(now - began_)};
  if (marks_.size() < 2) return times;
  const Clock clocks = marks_.back().clock - marks_.front().clock;
  times.step_ns = (marks_.back().at - marks_.front().at) / std::max<Clock>(1, clocks);
  times.left = clocks_ - marks_.back().clock;
  return times;
}

absl::StatusOr<bool> RunningReplanner::End(const std::vector<uint32_t>& leaving,
                                           wire::JobConfig* config) {
  const bool found = std::exchange(found_, false);
  std::optional<Work> work = std::exchange(work_, std::nullopt);  // kills what still runs
  if (!leaving.empty()) {
    if (config->cluster().teams() > 1) {
      return absl::FailedPreconditionError("of several teams nothing is planned for fewer workers");
    }
    const auto gone = static_cast<uint32_t>(std::min<size_t>(leaving.size(), devices()));
    SOAP_RETURN_IF_ERROR(PlanForFewer(devices() - gone, config));
    return true;
  }
  if (!found) return false;
  for (size_t d = 0; d < factors_.size(); ++d) factors_[d] *= work->slowness[d];
  config->mutable_cluster()->set_strategy(work->path);
  return true;
}

absl::Status RunningReplanner::PlanForFewer(uint32_t devices, wire::JobConfig* config) {
  if (devices == 0) return absl::FailedPreconditionError("no worker is left");
  if (devices > 1) {
    Work work = WorkFor(std::vector<double>(devices, 1));
    work.budget_s = kFewerBudgetS;
    std::string failed = Start(&work);
    while (failed.empty() && !HasEnded(&work)) {
      if (CodeOfPendingStop() != kExitOk) failed = "told to end meanwhile";
      absl::SleepFor(absl::Milliseconds(10));
    }
    if (failed.empty()) failed = WhyItFailed(work);
    if (!failed.empty()) return absl::FailedPreconditionError(failed);
    config->mutable_cluster()->set_strategy(work.path);
  } else {
    config->mutable_cluster()->clear_strategy();
  }
  config->mutable_cluster()->set_workers(devices);
  factors_.resize(devices);
  return absl::OkStatus();
}

}  // namespace soapstone::apps
