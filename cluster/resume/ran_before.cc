#include "cluster/resume/ran_before.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "checkpoint/disk.h"
#include "checkpoint/folder.h"
#include "cluster/job_config.h"

namespace soapstone::apps {
namespace {

wire::JobConfig JobOf(const wire::Checkpoint& before) {
  return ParseJobText(before.job(), "its job").value_or(wire::JobConfig());
}

}  // namespace

std::optional<wire::Checkpoint> RanBefore(const wire::JobConfig& config) {
  const std::string& folder = config.output().checkpoint_path();
  const std::string& resume = config.output().resume();
  if (folder.empty()) return std::nullopt;
  const std::unique_ptr<checkpoint::Disk> disk = checkpoint::RealDisk();
  std::vector<int64_t> clocks(1);
  if (resume == "auto") {
    clocks = checkpoint::ClocksIn(disk.get(), folder).value_or(std::vector<int64_t>());
  } else if (!absl::SimpleAtoi(resume, &clocks[0]) || clocks[0] == 0) {
    return std::nullopt;
  }
  for (auto clock = clocks.rbegin(); clock != clocks.rend(); ++clock) {
    absl::StatusOr<wire::Checkpoint> there = checkpoint::ReadManifest(disk.get(), folder, *clock);
    if (there.ok()) return *std::move(there);
  }
  return std::nullopt;
}

void TakeMicroBatches(const std::optional<wire::Checkpoint>& before, wire::JobConfig* config) {
  if (!before.has_value() || config->training().micro_batches() > 0) return;
  config->mutable_training()->set_micro_batches(JobOf(*before).training().micro_batches());
}

bool RunsAsBefore(const wire::Checkpoint& before, const wire::JobConfig& config) {
  const wire::Cluster there = JobOf(before).cluster();
  const wire::Cluster& here = config.cluster();
  return there.workers() == here.workers() &&
         std::max(1u, there.teams()) == std::max(1u, here.teams());
}

}  // namespace soapstone::apps
