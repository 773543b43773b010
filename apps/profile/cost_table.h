// The file of measured costs (wire/config/costs.proto): made from profiles, written, read back.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/profile/roofline.h"
#include "apps/profile/step_profile.h"
#include "models/graph/graph.h"
#include "wire/config/costs.pb.h"

namespace soapstone::apps {

// What was measured on.
struct CostOrigin {
  std::string model;
  int threads = 1;
  std::string precision = "float32";
  Roofline roofline;
};

// profiles: of the same graph, each of another batch size. Operators alike at one shape become one
// entry with the median of their times.
wire::CostTable MakeCostTable(const models::Graph& graph, const CostOrigin& origin,
                              const std::vector<StepProfile>& profiles);

// Whole, or what was there before.
absl::Status WriteCostTable(const std::string& path, const wire::CostTable& table);

// Error: the file, with the place of what is wrong in it; a version that is not known.
absl::StatusOr<wire::CostTable> ReadCostTable(const std::string& path);

}  // namespace soapstone::apps
