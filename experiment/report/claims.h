// Claims judged: which of those that an experiment states its runs bear out. A claim is printed if
// no rule of honesty.h withholds it, and supported if the whole interval of the ratio says so and
// chance hardly would, counted over all claims of the file. Who calls: the report, `soapstone
// experiment`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiment/report/honesty.h"
#include "experiment/results.h"

namespace soapstone::experiment {

enum class Verdict : uint8_t {
  kSupported,    // interval and p say so
  kUnsupported,  // they do not
  kWithheld,     // a rule fails: no number is printed
};
// "supported", "not supported", "not printed".
const char* VerdictText(Verdict verdict);

struct JudgedClaim {
  std::string text;  // "ssp:s=4 needs less time to the target than bsp, under transient"
  Verdict verdict = Verdict::kWithheld;
  std::string evidence;          // ratio, interval, p, accuracies; empty when withheld
  std::vector<Finding> reasons;  // failing rules; of a printed claim: marks
  double p = 1;                  // SignFlipP of what the pairs' ratios are beyond the claimed one
  double corrected_p = 1;        // Holm, over all claims; withheld ones count as 1
};

// What the file lacks so that no claim will be printed, whatever its runs show, with the rule of
// each: "async (rule 12)". Empty also where there is no claim.
std::vector<std::string> MissingForClaims(const Experiment& experiment);

// By claim of the experiment.
std::vector<JudgedClaim> JudgeClaims(const Results& results);

// The ratio and its interval for people: "2.00", "1.90 to 2.10". What is not known is not called 0:
// "above 1.50" where some of `than` did not reach the target, "not known" where neither side did.
struct RatioText {
  std::string ratio, range;
};
RatioText TextOf(const RatioEstimate& ratio, int digits);

}  // namespace soapstone::experiment
