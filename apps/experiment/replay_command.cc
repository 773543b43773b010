#include "apps/experiment/replay_command.h"

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/command_line.h"
#include "apps/cli/console.h"
#include "apps/cli/job_source.h"
#include "apps/loop/node_loop.h"
#include "apps/node/compute_backend.h"
#include "apps/node/scheduler_node.h"
#include "apps/report/report.h"
#include "base/exit_codes.h"
#include "base/status_macros.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "cluster/recording.h"
#include "experiment/cosim/job_replay.h"

namespace soapstone::apps {
namespace {

double ReplaySeconds(Nanos duration) {
  return static_cast<double>(duration) / static_cast<double>(kSecond);
}

absl::StatusOr<std::shared_ptr<const Job>> JobOf(const sim::Recording& recording,
                                                 const ReplayFlags& flags) {
  SOAP_ASSIGN_OR_RETURN(
      wire::JobConfig config,
      ParseJobText(recording.job_text, absl::StrCat(flags.dir, "/", sim::kRecordedJobFile)));
  FromFolder(flags.dir, &config);
  SOAP_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, &config));
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<const Job> job,
                        PrepareDenseJob(std::move(config), "a recording", Splits::kTaken));
  SOAP_RETURN_IF_ERROR(ChooseInstructionSet(job->config.cluster()));
  if (job->digest == recording.job_digest) return job;
  return absl::InvalidArgumentError(
      absl::StrFormat("%s: the job or its data are not those of the recording (digest %016x here, "
                      "%016x there): was the data changed?",
                      flags.dir, job->digest, recording.job_digest));
}

std::string ProgressLine(uint64_t done, uint64_t all, Nanos elapsed) {
  const double share = static_cast<double>(done) / static_cast<double>(all);
  const auto eta = static_cast<int64_t>(ReplaySeconds(elapsed) * (1 - share) / share);
  return absl::StrFormat("replaying %3.0f%%  event %s of %s  ETA %d:%02d", 100 * share,
                         WithCommas(done), WithCommas(all), eta / 60, eta % 60);
}

void ReplayRow(const char* name, const std::string& value) {
  std::cout << absl::StrFormat("  %-22s %s\n", name, value);
}

std::string RecordedRow(const sim::Recording& recording) {
  std::string text = absl::StrFormat("%s events of %d actors, %s", WithCommas(recording.events()),
                                     recording.actors.size(), Bytes(recording.bytes));
  for (const sim::RecordedActor& actor : recording.actors) {
    if (actor.state == sim::RecordingState::kOpen) {
      absl::StrAppend(&text, "; ", actor.file, " ends with a kill");
    } else if (actor.state == sim::RecordingState::kCutShort) {
      absl::StrAppend(&text, "; ", actor.file, " ends with a full disk");
    }
  }
  return text;
}

void PrintTable(const std::string& summary, const sim::Recording& recording,
                const sim::ReplayResult& result, Nanos elapsed) {
  std::cout << "\n" << summary << ", replayed\n";
  ReplayRow("recorded", RecordedRow(recording));
  ReplayRow("replayed",
            absl::StrFormat("%s events, %s of them messages, in %.2f s; the run took %.2f s",
                            WithCommas(result.events), WithCommas(result.messages),
                            ReplaySeconds(elapsed), ReplaySeconds(result.duration)));
  ReplayRow("sent and not handled", WithCommas(result.unread));
  if (result.evaluation.has_value() && result.evaluation->samples > 0) {
    ReplayRow("test accuracy",
              absl::StrFormat("%.4f", result.evaluation->correct /
                                          static_cast<double>(result.evaluation->samples)));
  }
  ReplayRow("sha256, recorded",
            recording.sha256.empty() ? "none: the run ended without saving" : recording.sha256);
  ReplayRow("sha256, replayed", result.sha256.empty() ? "none" : result.sha256);
}

int Verdict(const sim::Recording& recording, const sim::ReplayResult& result) {
  if (result.divergence.has_value()) {
    std::cerr << kSoapstone << ": the replay diverged: " << *result.divergence << "\n";
    return kExitReplayDiffers;
  }
  if (recording.sha256.empty() || result.sha256 == recording.sha256) return kExitOk;
  std::cerr << kSoapstone << ": the replay ended with other parameters than the run\n";
  return kExitReplayDiffers;
}

}  // namespace

int ReplayRecording(const ReplayFlags& flags) {
  const absl::StatusOr<sim::Recording> recording = sim::ReadRecording(flags.dir);
  if (!recording.ok()) return SayConfigError(kSoapstone, recording.status());
  const absl::StatusOr<std::shared_ptr<const Job>> job = JobOf(*recording, flags);
  if (!job.ok()) return SayConfigError(kSoapstone, job.status());
  Console console(&std::cout, StdoutConsole());
  const uint64_t all = recording->events();
  const Nanos began = NodeLoop::Now();
  const absl::StatusOr<sim::ReplayResult> result = experiment::ReplayJob(
      **job, CoordinatorOptionsOf(**job, recording->session), *recording, [&](uint64_t events) {
        const Nanos now = NodeLoop::Now();
        console.Progress(now, ProgressLine(events, all, now - began));
      });
  console.EndProgress();
  if (!result.ok()) return SayConfigError(kSoapstone, result.status());
  PrintTable((*job)->summary, *recording, *result, NodeLoop::Now() - began);
  return Verdict(*recording, *result);
}

}  // namespace soapstone::apps
