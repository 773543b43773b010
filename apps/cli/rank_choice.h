// RankChoice: which rank a process asks for, and who said so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone::apps {

// A variable's value, or null, as getenv.
using Environment = std::function<const char*(const char*)>;

// What launchers set for each process, a number over all roles or within one.
inline constexpr const char* kRankVariables[] = {"JOB_COMPLETION_INDEX", "SLURM_PROCID", "RANK"};

struct RankChoice {
  int64_t rank = -1;   // -1: the scheduler hands one out
  std::string source;  // "--rank", "SLURM_PROCID", ... or "the scheduler"
};

// The flag where given ("hostname": the number that ends `hostname`, as of a StatefulSet's pod),
// else the first of JOB_COMPLETION_INDEX, SLURM_PROCID and RANK that is set. Error: InvalidArgument
// that names the source when its value is no rank.
absl::StatusOr<RankChoice> ChooseRank(const std::string& flag, const std::string& hostname,
                                      const Environment& environment);

// Error: InvalidArgument, where the job has fewer processes of `role` than that; says what to do
// about the variable it is from. Launchers that count over all roles set such.
absl::Status CheckRank(const RankChoice& choice, const std::string& role, uint32_t count);

// The same variables, read as a number over all roles (`soapstone node`): --index, else
// JOB_COMPLETION_INDEX, SLURM_PROCID, RANK. rank -1: none is set.
absl::StatusOr<RankChoice> ChooseIndex(const std::string& flag, const Environment& environment);

}  // namespace soapstone::apps
