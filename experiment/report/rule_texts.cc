#include <glog/logging.h>

#include "experiment/report/honesty.h"

namespace soapstone::experiment {
namespace {

constexpr const char* kTexts[kRules] = {
    "Every speed-up carries the test accuracy of the same runs.",
    "Accuracy is of a held-out split, identified by its hash.",
    "All tuning runs are kept and counted.",
    "Both sides of a ratio ran on the same hardware, program and libraries.",
    "Times of kernels stand apart from end-to-end times.",
    "The input pipeline is part of the time.",
    "No operations per second without the time to a target; the data type is stated.",
    "One configuration for all columns of a table.",
    "Model and data are compared with a public reference.",
    "Runs end at a fixed number of samples or at a target, never at a fixed time.",
    "Weak or strong scaling is named, and the global batch is shown.",
    "The baselines are there (one worker, bsp, async, a static bound), tuned, and no straw men.",
    "Six seeds or more that nobody chose, enough for the number of claims; runs that differ.",
    "Every policy had the same tuning budget, and those of one exchange the same grid.",
    "The observed read lag stands beside the bound.",
    "Bytes are those on the wire, headers and indices included.",
    "No, transient and persistent stragglers are shown together, and have an effect.",
    "Time for encoding, and communication that is not hidden, are shown.",
    "Averaging policies show the accuracy of their replicas, not of the average only.",
    "Warm-up is part of the time.",
};

}  // namespace

const char* RuleText(int rule) {
  CHECK(rule >= 1 && rule <= kRules) << rule;
  return kTexts[rule - 1];
}

}  // namespace soapstone::experiment
