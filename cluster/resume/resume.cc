#include "cluster/resume/resume.h"

#include <optional>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "checkpoint/folder.h"
#include "cluster/resume/job_meaning.h"
#include "server/store/capture.h"

namespace soapstone::apps {
namespace {

absl::Status Resume(const absl::Status& why) {
  return absl::InvalidArgumentError(absl::StrCat("output.resume: ", why.message()));
}

absl::Status CheckMeaning(const Job& job, const wire::Checkpoint& checkpoint) {
  if (checkpoint.meaning() == absl::StrCat(absl::Hex(job.meaning, absl::kZeroPad16))) {
    return absl::OkStatus();
  }
  const absl::StatusOr<wire::JobConfig> there = ParseJobText(checkpoint.job(), "its job");
  std::string what = there.ok() ? DifferenceOf(*there, job.config) : "";
  if (what.empty()) what = "the data, or the model's file, are others";
  return absl::FailedPreconditionError(absl::StrCat("checkpoint ", checkpoint.clock(), " of ",
                                                    job.config.output().checkpoint_path(),
                                                    " is another job's: ", what));
}

// Whatever is in a folder of a job that starts anew would be in its way.
absl::Status CheckNone(const std::string& folder, const std::vector<int64_t>& clocks) {
  if (clocks.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder, " has checkpoints (", absl::StrJoin(clocks, ", "),
                   "): --resume=auto goes on from the newest; to start anew give another folder"));
}

}  // namespace

absl::Status CheckCheckpoints(const Job& job) {
  const wire::Output& output = job.config.output();
  const auto refuse = [](const char* field, auto&&... why) {
    return absl::InvalidArgumentError(absl::StrCat("output.", field, ": ", why...));
  };
  if (output.early_stop() > 0 && !output.keep_best()) {
    return refuse("early_stop", "of no best checkpoint: give --checkpoint and --keep_best too");
  }
  if (output.early_stop() > 0 && !output.curve_path().empty()) {
    return refuse("early_stop", "not yet with output.curve_path, which is of a run to its end");
  }
  if (output.keep_best() && output.checkpoint_path().empty()) {
    return refuse("keep_best", "of no folder: give --checkpoint too");
  }
  if (output.keep_best() && job.test_samples == 0) {
    return refuse("keep_best", "there are no held-out samples to evaluate checkpoints on");
  }
  if (output.checkpoint_path().empty()) {
    if (!output.resume().empty()) return refuse("resume", "of no folder: give --checkpoint too");
    if (output.checkpoint_every() == 0) return absl::OkStatus();
    return refuse("checkpoint_every", "of no folder: give --checkpoint too");
  }
  const consistency::PolicyTraits& policy = job.specs.policy;
  const auto* rule = std::get_if<consistency::CompensatedRule>(&policy.store);
  const bool measures = rule != nullptr && rule->mean_decay > 0;
  if (!policy.pushes_gradients() || policy.tree() || policy.backup() || measures) {
    return refuse("checkpoint_path", "not yet with ", policy.spec);
  }
  if (job.team != nullptr && !server::ChangesByRounds(policy)) {
    return refuse("checkpoint_path", "with a strategy it goes with bsp, not yet with ",
                  policy.spec);
  }
  return absl::OkStatus();
}

absl::StatusOr<Clock> ResumeClockOf(const Job& job, checkpoint::Disk* disk,
                                    std::vector<std::string>* notes) {
  const std::string& folder = job.config.output().checkpoint_path();
  const std::string& resume = job.config.output().resume();
  if (folder.empty()) return 0;
  Clock clock = 0;
  if (absl::SimpleAtoi(resume, &clock)) {
    if (clock >= 0 && clock < job.total_clocks) return clock;
    return Resume(absl::InvalidArgumentError(
        absl::StrCat(resume, " is not below the ", job.total_clocks, " clocks of the job")));
  }
  if (resume.empty() || resume == "never") {
    const absl::StatusOr<std::vector<int64_t>> clocks = checkpoint::ClocksIn(disk, folder);
    if (!clocks.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("output.checkpoint_path: ", clocks.status().message()));
    }
    const absl::Status none = CheckNone(folder, *clocks);
    return none.ok() ? absl::StatusOr<Clock>(0) : Resume(none);
  }
  if (resume != "auto") {
    return Resume(absl::InvalidArgumentError(
        absl::StrCat("\"", resume, "\" is neither auto nor never nor a clock")));
  }
  const absl::StatusOr<std::optional<wire::Checkpoint>> newest = checkpoint::Newest(
      disk, folder, [&](const wire::Checkpoint& there) { return CheckMeaning(job, there); }, notes);
  if (!newest.ok()) return Resume(newest.status());
  if (!newest->has_value()) {
    notes->push_back(absl::StrCat("no checkpoint in ", folder, ": training starts at clock 0"));
    return 0;
  }
  notes->push_back(absl::StrCat("resumed from checkpoint ", (*newest)->clock(), " (of ",
                                job.total_clocks, " clocks)"));
  return (*newest)->clock();
}

absl::StatusOr<wire::Checkpoint> ReadFirstCheckpoint(const Job& job, checkpoint::Disk* disk) {
  absl::StatusOr<wire::Checkpoint> first =
      checkpoint::ReadManifest(disk, job.config.output().checkpoint_path(), job.first_clock);
  if (!first.ok()) return Resume(first.status());
  const absl::Status same = CheckMeaning(job, *first);
  if (!same.ok()) return Resume(same);
  return first;
}

absl::Status VerifyFirstCheckpoint(const Job& job, checkpoint::Disk* disk) {
  SOAP_ASSIGN_OR_RETURN(const wire::Checkpoint first, ReadFirstCheckpoint(job, disk));
  const std::vector<std::string> faults =
      checkpoint::FaultsOf(disk, job.config.output().checkpoint_path(), first);
  return faults.empty() ? absl::OkStatus() : Resume(absl::DataLossError(faults[0]));
}

}  // namespace soapstone::apps
