// CurvePoint: how good a model was at one moment of its training.
#pragma once

#include <cstdint>

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

}  // namespace soapstone::experiment
