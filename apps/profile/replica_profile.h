// `soapstone profile --replicas=K`: whether several replicas of a model at once, on one device or
// processor, get more samples through than one, and what memory each takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/profile/profile_flags.h"
#include "apps/report/step_memory.h"
#include "compute/cuda/cuda_backend.h"

namespace soapstone::apps {

struct ReplicaProfile {
  std::string model, device;
  size_t replicas = 1;
  int threads = 1;  // of each; of a processor
  int64_t batch = 1;
  double alone = 0, together = 0;  // samples a second, of one replica and of all
  StepMemory planned;              // of each
  // What all took, of the device's memory or resident, with libraries that set themselves up.
  uint64_t taken_bytes = 0;
  uint64_t workspace_bytes = 0;  // of all, where it is limited: then it is divided
  std::optional<compute::WorkspaceDivision> division;
};

// Runs one replica for flags.seconds, then all for as long; each at least 3 steps. Errors: no such
// model or device; too little memory for all of them.
absl::StatusOr<ReplicaProfile> MeasureReplicas(const ProfileFlags& flags);

std::string ReplicaText(const ReplicaProfile& profile);
std::string ReplicaJson(const ReplicaProfile& profile);

}  // namespace soapstone::apps
