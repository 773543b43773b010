#include "apps/experiment/cosim_command.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/command_line.h"
#include "apps/cli/console.h"
#include "apps/cli/job_source.h"
#include "apps/experiment/planned_job.h"
#include "apps/experiment/simulate_command.h"
#include "apps/loop/node_loop.h"
#include "apps/node/compute_backend.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "cluster/divergence.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "experiment/cosim/cosim.h"
#include "models/formats/safetensors_writer.h"

namespace soapstone::apps {
namespace {

using experiment::CosimResult;
using experiment::CurvePoint;

double CosimWallSeconds() {
  return static_cast<double>(NodeLoop::Now()) / static_cast<double>(kSecond);
}

absl::StatusOr<std::shared_ptr<const Job>> JobFromFlags(const SimulateFlags& flags) {
  SOAP_ASSIGN_OR_RETURN(wire::JobConfig config, ConfigFromFlags({.config_path = flags.job_path,
                                                                 .overrides = flags.overrides}));
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<const Job> job,
                        PrepareDenseJob(std::move(config), "a simulation", Splits::kTaken));
  SOAP_RETURN_IF_ERROR(ChooseInstructionSet(job->config.cluster()));
  return job;
}

// Null: no machine is named.
absl::StatusOr<std::unique_ptr<const PlannedJob>> PlannedFromFlags(const Job& job,
                                                                   const SimulateFlags& flags) {
  if (flags.machine_path.empty()) return nullptr;
  return PlanJob(job, flags.machine_path, flags.costs_path);
}

experiment::CosimTiming TimingOf(const Job& job, const SimulateFlags& flags,
                                 const PlannedJob* planned) {
  return {.stragglers = job.config.training().stragglers(),
          .seed = job.config.training().seed(),
          .iteration_ns = std::llround(1000 * flags.iteration_us),
          .latency_us = flags.latency_us,
          .bandwidth_mbps = 1000 * flags.bandwidth_gbps,
          .timeout_ns = NanosOf(job.config.cluster().heartbeat_timeout_s()),
          .seat_costs = planned != nullptr ? &planned->times.costs : nullptr,
          .machine = planned != nullptr ? &planned->machine : nullptr};
}

std::string ProgressLine(double fraction, const CurvePoint* latest) {
  std::string line = absl::StrFormat("simulating %3.0f%%", 100 * fraction);
  if (latest == nullptr) return line;
  absl::StrAppendFormat(&line, "  virtual %.3f s  samples %s  loss %.4f  test accuracy %.4f",
                        latest->time_s, WithCommas(latest->samples), latest->train_loss,
                        latest->test_accuracy);
  return line;
}

void CosimRow(const char* name, const std::string& value) {
  std::cout << absl::StrFormat("  %-22s %s\n", name, value);
}

// The first step alone, as it is planned; then the mean of all, which overlap: a worker begins the
// next once it has its own parameters. Several steps under way are planned as their mean.
std::string StepText(const Job& job, const sim::VirtualResult& timing, const PlannedJob* planned) {
  std::string text = absl::StrFormat("%.3f ms virtual", static_cast<double>(timing.step_ns) / 1e6);
  if (planned == nullptr) return text;
  const bool many = job.team->plan.window > 1;
  const auto step = static_cast<double>(many ? timing.step_ns : timing.first_step_ns);
  const auto as_planned = static_cast<double>(planned->times.step_ns);
  if (!many) absl::StrAppendFormat(&text, " in the mean, %.3f ms alone", step / 1e6);
  absl::StrAppendFormat(&text, ", %.3f ms planned (%+.2f%%)", as_planned / 1e6,
                        100 * (step / as_planned - 1));
  return text;
}

void PrintTable(const Job& job, const SimulateFlags& flags, const PlannedJob* planned,
                const CosimResult& result) {
  const sim::VirtualResult& timing = result.timing;
  std::cout << "\n" << job.summary << ", in virtual time\n";
  CosimRow("stragglers", timing.stragglers);
  CosimRow("test accuracy",
           absl::StrFormat("%.4f  (loss %.4f, %s held-out samples)", result.test_accuracy,
                           result.test_loss, WithCommas(job.data->test.size())));
  if (result.replica_accuracy.has_value()) {
    const CosimResult::Spread& spread = *result.replica_accuracy;
    CosimRow("of the replicas", absl::StrFormat("least %.4f, median %.4f, greatest %.4f",
                                                spread.min, spread.median, spread.max));
  }
  if (!result.curve.empty()) {
    const CurvePoint& last = result.curve.back();
    CosimRow("training loss", absl::StrFormat("%.4f", last.train_loss));
    const auto reached = experiment::TimeToAccuracy(result.curve, flags.target);
    CosimRow(absl::StrFormat("time to %.4g", flags.target).c_str(),
             reached.has_value() ? absl::StrFormat("%.4f s virtual", *reached) : "not reached");
    CosimRow("samples", WithCommas(last.samples));
  }
  if (planned == nullptr) {
    CosimRow("virtual time",
             absl::StrFormat("%.4f s, %.1f iterations of %.0f us", result.duration_s,
                             timing.duration, flags.iteration_us));
  } else {
    CosimRow("virtual time", absl::StrFormat("%.4f s", result.duration_s));
  }
  if (timing.step_ns > 0) CosimRow("a step", StepText(job, timing, planned));
  CosimRow("wall time", absl::StrFormat("%.2f s", timing.wall_seconds));
  if (planned == nullptr) {
    CosimRow("rate", absl::StrFormat("%.3f iterations a worker and iteration time", timing.rate));
  }
  if (timing.failures > 0) {
    CosimRow("failures",
             absl::StrFormat("%d, down for %.1f iterations in all", timing.failures, timing.down));
  }
  CosimRow("reads by lag", LagHistogram(timing.read_lags));
  CosimRow("waiting",
           absl::StrFormat("%.3f s of %.3f virtual worker seconds (%.1f%%)", result.wait_s,
                           result.wait_s + result.compute_s, 100 * timing.blocked_fraction));
  CosimRow("sent",
           absl::StrFormat("%s in %s messages", Bytes(timing.bytes), WithCommas(timing.messages)));
  CosimRow("guarantee",
           absl::StrCat(timing.guarantee, "; violations: ", WithCommas(timing.violations),
                        timing.violation.has_value() ? absl::StrCat(", first: ", *timing.violation)
                                                     : std::string()));
  if (timing.left_out > 0) CosimRow("left out", LeftOutText(timing.left_out));
  CosimRow("parameters, sha256", result.sha256);
}

absl::Status WriteFiles(const SimulateFlags& flags, const CosimResult& result) {
  if (!flags.curve_path.empty()) {
    SOAP_RETURN_IF_ERROR(WriteWholeFile(flags.curve_path, experiment::CurveCsv(result.curve)));
    CosimRow("curve", flags.curve_path);
  }
  if (!flags.trace_path.empty()) {
    SOAP_RETURN_IF_ERROR(WriteWholeFile(flags.trace_path, sim::TimelineJson(result.timing)));
    CosimRow("timeline", flags.trace_path);
  }
  return absl::OkStatus();
}

}  // namespace

int SimulateJob(const SimulateFlags& flags) {
  for (const std::string& path : {flags.curve_path, flags.trace_path}) {
    const absl::Status writable = path.empty() ? absl::OkStatus() : models::CheckWritable(path);
    if (!writable.ok()) return SayConfigError(kSoapstone, writable);
  }
  const absl::StatusOr<std::shared_ptr<const Job>> job = JobFromFlags(flags);
  if (!job.ok()) return SayConfigError(kSoapstone, job.status());
  const absl::Status apart =
      CheckApart({{"--curve", flags.curve_path}, {"--trace", flags.trace_path}}, (*job)->config,
                 {flags.job_path});
  if (!apart.ok()) return SayConfigError(kSoapstone, apart);
  const absl::StatusOr<std::unique_ptr<const PlannedJob>> planned = PlannedFromFlags(**job, flags);
  if (!planned.ok()) return SayConfigError(kSoapstone, planned.status());
  Console console(&std::cout, StdoutConsole());
  const absl::StatusOr<CosimResult> result = experiment::Cosimulate(
      **job, TimingOf(**job, flags, planned->get()),
      {.samples_per_point = flags.curve_every > 0 ? flags.curve_every : (*job)->curve_step,
       .progress =
           [&](double fraction, const CurvePoint* latest) {
             console.Progress(NodeLoop::Now(), ProgressLine(fraction, latest));
           },
       .wall_seconds = CosimWallSeconds,
       .timeline = !flags.trace_path.empty()});
  console.EndProgress();
  if (!result.ok()) return SayConfigError(kSoapstone, result.status());
  SayNotes(kSoapstone, (*job)->notes);
  PrintTable(**job, flags, planned->get(), *result);
  const absl::Status written = WriteFiles(flags, *result);
  if (!written.ok()) return SayConfigError(kSoapstone, written);
  if (!result->diverged.empty()) {
    std::cerr << kSoapstone << ": " << result->diverged << "; "
              << DivergenceAdvice((*job)->config, (*job)->specs, (*job)->total_clocks, std::nullopt)
              << std::endl;
    return kExitNotFinite;
  }
  return EndOfSimulation(result->timing.violations, result->timing.violation);
}

}  // namespace soapstone::apps
