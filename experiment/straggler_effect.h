// What a straggler model did to the runs that were measured, whatever its name: from the factors
// that their workers, clocks and seeds met. Who calls: results.h, for rule 17 of honesty.h.
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "base/ids.h"

namespace soapstone::experiment {

// With f(w, c) the factor of worker w at clock c, F_w its mean over a run, and both means over the
// runs of all seeds:
//   lasting  of the second half of a run, v being the worker that was slowest in the first:
//            F_v / the mean of the other workers' F_w.  1 where nobody stays slow
//   passing  the mean over the clocks of max_w f(w, c) / F_w: what a barrier waits for beyond what
//            the workers are slow for good
struct StragglerEffect {
  double lasting = 1;
  double passing = 1;
  friend bool operator==(const StragglerEffect&, const StragglerEffect&) = default;
};

// What is less is no straggler: a worker that stays slow, a wait above that of the calmest model.
// With "none", what makes a barrier wait for so long is one.
inline constexpr double kLastingMin = 1.2;
inline constexpr double kPassingMin = 1.1;
inline constexpr double kCalmMax = 2;

// REQUIRES: `model` parses; workers and clocks at least 1. Of long runs the first clocks count.
StragglerEffect EffectOf(const std::string& model, absl::Span<const uint64_t> seeds,
                         uint32_t workers, Clock clocks);

}  // namespace soapstone::experiment
