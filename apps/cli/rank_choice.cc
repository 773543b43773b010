#include "apps/cli/rank_choice.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "apps/cli/environment_flags.h"

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

absl::StatusOr<RankChoice> OrdinalOf(const std::string& hostname) {
  size_t begin = hostname.size();
  while (begin > 0 && absl::ascii_isdigit(static_cast<unsigned char>(hostname[begin - 1]))) --begin;
  if (begin == hostname.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--rank=hostname: \"", hostname, "\" does not end with a number, as a StatefulSet's pod"));
  }
  return Parse(absl::StrCat("hostname ", hostname), hostname.substr(begin));
}

absl::StatusOr<RankChoice> FromLauncher(const Environment& environment) {
  for (const char* name : kRankVariables) {
    const char* value = environment(name);
    if (value != nullptr && *value != '\0') return Parse(name, value);
  }
  return RankChoice{};
}

// Who gave a flag: the command line, or the variable of its name.
std::string SourceOf(const char* flag, const std::string& value, const Environment& environment) {
  const std::string variable = EnvironmentName(flag);
  const char* const set = environment(variable.c_str());
  return set != nullptr && value == set ? variable : absl::StrCat("--", flag);
}

}  // namespace

absl::StatusOr<RankChoice> ChooseRank(const std::string& flag, const std::string& hostname,
                                      const Environment& environment) {
  if (flag == "hostname") return OrdinalOf(hostname);
  if (!flag.empty()) return Parse(SourceOf("rank", flag, environment), flag);
  absl::StatusOr<RankChoice> choice = FromLauncher(environment);
  if (choice.ok() && choice->rank < 0) choice->source = "the scheduler";
  return choice;
}

absl::Status CheckRank(const RankChoice& choice, const std::string& role, uint32_t count) {
  if (choice.rank < int64_t{count}) return absl::OkStatus();
  const std::string what =
      absl::StrCat(choice.source, "=", choice.rank, ": the job has ", count, " ", role, "s");
  const bool by_launcher = choice.source == "JOB_COMPLETION_INDEX" ||
                           choice.source == "SLURM_PROCID" || choice.source == "RANK";
  if (!by_launcher) return absl::InvalidArgumentError(what);
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   "; unset it or set SOAPSTONE_RANK, or let `soapstone node` take it as a "
                   "number over all roles"));
}

absl::StatusOr<RankChoice> ChooseIndex(const std::string& flag, const Environment& environment) {
  if (!flag.empty()) return Parse(SourceOf("index", flag, environment), flag);
  return FromLauncher(environment);
}

}  // namespace soapstone::apps
