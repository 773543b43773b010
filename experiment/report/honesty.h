// The honesty checklist as checks over the experiment and its finished runs. After T. Hoefler,
// "Twelve ways to fool the masses when reporting performance of deep learning workloads", 2018, and
// T. Hoefler and R. Belli, "Scientific benchmarking of parallel computing systems", SC 2015.
// Who calls: claims.h and the report, which print no claim whose evidence is missing, and say which
// rule withholds it. docs/experiments.md lists the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiment/results.h"

namespace soapstone::experiment {

inline constexpr int kRules = 20;

enum class Standing : uint8_t {
  kHolds,
  kMarked,  // claims are printed, and this beside them
  kFails,   // claims are withheld
};

struct Finding {
  int rule = 0;  // 1 to kRules
  Standing standing = Standing::kHolds;
  std::string why;
};

// The rule as a sentence.
const char* RuleText(int rule);

// What is looked at: empty fields stand for all.
struct Scope {
  std::optional<size_t> subject;
  std::optional<uint32_t> workers;
  std::vector<size_t> policies;  // whose numbers are compared; baselines are sought among all
  // What is said of them, whose sides must be worth comparing. Empty: the experiment's claims.
  std::vector<ResolvedClaim> comparisons;
};

// One finding for each rule, in order.
std::vector<Finding> CheckRules(const Results& results, const Scope& scope);

}  // namespace soapstone::experiment
