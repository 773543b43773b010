// RankChoice: which rank a process asks for, and who said so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace soapstone::apps {

struct RankChoice {
  int64_t rank = -1;   // -1: the scheduler hands one out
  std::string source;  // "--rank", "SLURM_PROCID", ... or "the scheduler"
};

// The flag where given, else the first of JOB_COMPLETION_INDEX, SLURM_PROCID and RANK that is set.
// `environment` returns a variable's value or null, as getenv does. Error: InvalidArgument that
// names the source when its value is no rank.
absl::StatusOr<RankChoice> ChooseRank(const std::string& flag,
                                      const std::function<const char*(const char*)>& environment);

}  // namespace soapstone::apps
