// What a model's operators take on this machine, as a file of costs (wire/config/costs.proto), in a
// few seconds: what `soapstone train --strategy=auto` plans with. `soapstone profile --costs`
// measures longer, and says more.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

struct ModelCosts {
  std::string model;  // its name
  int threads = 1;    // of a worker
  int64_t batch = 1;  // of a step, of all workers
  uint32_t workers = 1;
};

// Steps of the whole batch, of a worker's share, of half of that and of one sample, those that the
// machine has memory for and that do not take long; three seconds or so, more where one sample
// takes more. Writes the file. Returns what a worker's share takes, about. Errors: not even one
// sample can be measured; the file cannot be written.
absl::StatusOr<Nanos> MeasureModelCosts(const models::Graph& graph, const ModelCosts& of,
                                        const std::string& path);

}  // namespace soapstone::apps
