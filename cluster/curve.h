// The learning curve of a run: how good the model was when. Real runs and co-simulation measure it
// at the same points (server/store/snapshot.h): each time that the updates of so many more samples
// are in the stores, and at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

namespace soapstone::experiment {

// The parameters on the shards (the centre, under averaging policies) at one moment.
struct CurvePoint {
  double time_s = 0;      // since the start barrier; virtual in co-simulation
  uint64_t samples = 0;   // trained on, by all workers
  double train_loss = 0;  // mean over the samples trained on since the point before
  double test_loss = 0;   // on the held-out data
  double test_accuracy = 0;
  uint64_t bytes = 0;  // sent so far, headers included
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// Points in a row, of an accuracy that is reached: held-out samples are few, and a noisy curve
// crosses every line once.
inline constexpr size_t kHoldPoints = 3;

// What had been spent when the accuracy was reached: linear between the first of kHoldPoints points
// in a row that are at or above it, and the one before. Empty: there are none; of a curve of fewer
// points, unless all are. `spent` is a point's.
std::optional<double> SpentUntil(const std::vector<CurvePoint>& curve, double accuracy,
                                 absl::FunctionRef<double(const CurvePoint&)> spent);
std::optional<double> TimeToAccuracy(const std::vector<CurvePoint>& curve, double accuracy);

// Columns as CurvePoint, one line a point.
std::string CurveCsv(const std::vector<CurvePoint>& curve);

}  // namespace soapstone::experiment
