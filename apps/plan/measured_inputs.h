// What a plan of a job on this machine is made with besides its model: a machine file and a file of
// costs, measured in a process of its own and kept for as long as the job may be planned anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "apps/profile/scratch_folder.h"
#include "cluster/job.h"

namespace soapstone::apps {

// A job's sizes, of a team of it where it has several.
struct InputsProbe {
  std::string model;
  std::shared_ptr<const models::Graph> graph;
  std::string machine_path;  // given; empty: this machine is measured
  int threads = 1;           // of a worker
  uint32_t servers = 1;
  uint32_t teams = 1;
  uint32_t devices = 1;  // of a team
  int64_t batch = 1;     // of a team
};
InputsProbe ProbeOf(const wire::JobConfig& config, const Job& job);

// Paths; costs: empty where not even one sample can be measured.
struct PlanInputs {
  std::string machine;
  std::string costs;
};

// Of --machine: it has devices for a team of the job. Error: InvalidArgument, one line.
absl::Status CheckMachineFile(const std::string& path, const wire::JobConfig& config);

// Measures into `folder`, some seconds. All teams share this machine, of whose devices one team is
// planned for. Error: of MeasureMachine.
absl::Status MeasureInputs(const InputsProbe& probe, const std::string& folder);
// What was measured into `folder`.
PlanInputs InputsIn(const std::string& folder, const std::string& machine_given);

// Keeps such files until it is gone.
class MeasuredInputs {
 public:
  // Copies what was measured into `folder`. Error: InvalidArgument, it cannot be kept.
  absl::Status KeepFrom(const std::string& folder, const std::string& machine_given);
  // None: machine is empty.
  const PlanInputs& files() const { return files_; }

 private:
  std::unique_ptr<ScratchFolder> folder_;
  PlanInputs files_;
};

}  // namespace soapstone::apps
