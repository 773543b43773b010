#include "experiment/grids.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "compute/optimizer.h"

namespace soapstone::experiment {
namespace {

// Settings but for the rate, as text, and the rate.
struct Family {
  std::string rest;
  double rate = 0;
};
Family FamilyOf(const Settings& settings) {
  absl::StatusOr<compute::OptimizerSpec> optimizer = compute::ParseOptimizer(settings.optimizer);
  if (!optimizer.ok()) return {.rest = absl::StrCat(settings.optimizer, " ", settings.schedule)};
  const double rate = optimizer->lr;
  optimizer->lr = 1;
  return {.rest = absl::StrCat(optimizer->ToString(), " ", settings.schedule), .rate = rate};
}

// Rates further apart than ten times, and what a decimal's rounding adds, have others between them.
constexpr double kNeighbourMax = 10 * (1 + 1e-6);
// Closer ones are one rate tried twice: what is beside it says nothing of what is further on.
constexpr double kNeighbourMin = 1.25 * (1 - 1e-6);

bool AreNeighbours(double smaller, double greater) {
  return greater >= kNeighbourMin * smaller && greater <= kNeighbourMax * smaller;
}

}  // namespace

bool AtEdge(const Grid& grid, size_t candidate) {
  if (grid.candidates.size() == 1) return false;
  const Family chosen = FamilyOf(grid.candidates[candidate]);
  bool smaller = false, greater = false;
  for (const Settings& settings : grid.candidates) {
    const Family other = FamilyOf(settings);
    if (other.rest != chosen.rest) continue;
    smaller = smaller || AreNeighbours(other.rate, chosen.rate);
    greater = greater || AreNeighbours(chosen.rate, other.rate);
  }
  return !smaller || !greater;
}

absl::StatusOr<std::vector<Settings>> CandidatesOf(const Tuning& tuning,
                                                   const wire::Training& training) {
  std::vector<Settings> candidates;
  for (const double rate : tuning.learning_rates()) {
    if (!(std::isfinite(rate) && rate > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tuning.learning_rates: ", rate, " is not above 0"));
    }
    SOAP_ASSIGN_OR_RETURN(Spec optimizer,
                          Spec::Parse(training.optimizer().empty() ? "sgd" : training.optimizer()));
    optimizer.arguments["lr"] = absl::StrCat(rate);
    candidates.push_back({optimizer.ToString(), training.schedule()});
  }
  for (const Candidate& candidate : tuning.candidates()) {
    candidates.push_back(
        {candidate.optimizer().empty() ? training.optimizer() : candidate.optimizer(),
         candidate.schedule().empty() ? training.schedule() : candidate.schedule()});
  }
  if (candidates.empty()) candidates.push_back({training.optimizer(), training.schedule()});
  for (const Settings& settings : candidates) {
    if (std::count(candidates.begin(), candidates.end(), settings) == 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("tuning: ", settings.optimizer, " is tried twice"));
  }
  return candidates;
}

bool SameGrid(const Grid& a, const Grid& b) {
  return a.seeds == b.seeds && a.candidates.size() == b.candidates.size() &&
         std::is_permutation(a.candidates.begin(), a.candidates.end(), b.candidates.begin());
}

}  // namespace soapstone::experiment
