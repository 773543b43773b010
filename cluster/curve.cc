#include "cluster/curve.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace soapstone::experiment {

std::optional<double> SpentUntil(const std::vector<CurvePoint>& curve, double accuracy,
                                 absl::FunctionRef<double(const CurvePoint&)> spent) {
  const auto hit = std::search_n(
      curve.begin(), curve.end(),
      static_cast<long>(std::clamp<size_t>(curve.size(), 1, kHoldPoints)), accuracy,
      [](const CurvePoint& point, double wanted) { return point.test_accuracy >= wanted; });
  if (hit == curve.end()) return std::nullopt;
  if (hit == curve.begin()) return spent(*hit);
  const CurvePoint& before = *(hit - 1);
  const double share =
      (accuracy - before.test_accuracy) / (hit->test_accuracy - before.test_accuracy);
  return spent(before) + share * (spent(*hit) - spent(before));
}

std::optional<double> TimeToAccuracy(const std::vector<CurvePoint>& curve, double accuracy) {
  return SpentUntil(curve, accuracy, [](const CurvePoint& point) { return point.time_s; });
}

std::string CurveCsv(const std::vector<CurvePoint>& curve) {
  std::string csv = "time_s,samples,train_loss,test_loss,test_accuracy,bytes\n";
  for (const CurvePoint& point : curve) {
    absl::StrAppendFormat(&csv, "%.9f,%d,%.6g,%.6g,%.6f,%d\n", point.time_s, point.samples,
                          point.train_loss, point.test_loss, point.test_accuracy, point.bytes);
  }
  return csv;
}

}  // namespace soapstone::experiment
