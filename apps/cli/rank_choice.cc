#include "apps/cli/rank_choice.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

constexpr uint32_t kNodesMax = 100'000;  // as wire/frame.h

absl::StatusOr<RankChoice> Parse(const std::string& source, const std::string& text) {
  uint32_t rank = 0;
  const bool is_number = absl::SimpleAtoi(text, &rank);
  if (is_number && rank < kNodesMax) return RankChoice{.rank = rank, .source = source};
  return absl::InvalidArgumentError(
      absl::StrCat(source, "=", text, ": a rank is a whole number from 0",
                   is_number ? absl::StrCat(", and below ", kNodesMax) : ""));
}

}  // namespace

absl::StatusOr<RankChoice> ChooseRank(const std::string& flag,
                                      const std::function<const char*(const char*)>& environment) {
  if (!flag.empty()) return Parse("--rank", flag);
  for (const char* name : {"JOB_COMPLETION_INDEX", "SLURM_PROCID", "RANK"}) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return Parse(name, value);
  }
  return RankChoice{.source = "the scheduler"};
}

}  // namespace soapstone::apps
