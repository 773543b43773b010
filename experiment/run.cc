#include "experiment/run.h"

#include <algorithm>
#include <cmath>

namespace soapstone::experiment {
namespace {

constexpr double kStandardErrors = 3;

}  // namespace

bool IsFinite(const RunOutcome& outcome) {
  return std::isfinite(outcome.test_accuracy) && std::isfinite(outcome.train_loss) &&
         std::all_of(outcome.curve.begin(), outcome.curve.end(), [](const CurvePoint& point) {
           return std::isfinite(point.train_loss) && std::isfinite(point.test_loss) &&
                  std::isfinite(point.test_accuracy);
         });
}

double GuessingAccuracy(const Provenance& provenance) {
  const double share = provenance.chance;
  if (share <= 0 || provenance.test_samples == 0) return 0;
  const double error =
      std::sqrt(share * (1 - share) / static_cast<double>(provenance.test_samples));
  return share + kStandardErrors * error;
}

}  // namespace soapstone::experiment
