// Costs from a measurement (wire/config/costs.proto, `soapstone profile --costs`): exact where the
// shape was measured, else the roofline, corrected by what the nearest measured shape took beside
// its own.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/cost/part_work.h"
#include "wire/config/costs.pb.h"

namespace soapstone::planner {

inline constexpr uint32_t kCostVersion = 1;  // of files of costs

// `file` stands for the text in errors. Errors: InvalidArgument, "file: what": not such a text, an
// unknown version.
absl::StatusOr<wire::CostTable> ParseCostTable(const std::string& text, const std::string& file);

// With r_k(·) the roofline (roofline_cost.h) of kind k, r_m(·) that of the machine that was
// measured and t_m what was measured, a part p takes
//   t(p) = r_k(p) · t_m(q) / r_m(q)
// where q is the measured operator that equals p or, if none does, the nearest of the same name:
//   least |ln flops(p)/flops(q)| + |ln bytes(p)/bytes(q)|, the first in the table among equals.
// Forward and backward each for itself. Of a name that was not measured: t(p) = r_k(p).
class MeasuredCost : public CostModel {
 public:
  // `file` names the table in errors. Errors: it is of another model than model_sha256 (of the
  // graph that is planned, `model` by name), or it has no roofline or no operators, or numbers
  // that no measurement gives.
  static absl::StatusOr<std::unique_ptr<MeasuredCost>> Make(const wire::CostTable& table,
                                                            const std::string& file,
                                                            const std::string& model,
                                                            const std::string& model_sha256,
                                                            std::vector<DeviceKind> kinds);

  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t kind) const override;
  std::string sha256() const override { return sha256_; }

 private:
  struct Entry {
    std::string op;
    std::vector<std::vector<int64_t>> inputs;
    double flops = 0, bytes = 0;       // forward
    double forward = 1, backward = 1;  // t_m / r_m
  };
  MeasuredCost() = default;
  // Null: nothing of that name was measured.
  const Entry* Find(const PartWork& work) const;

  std::vector<DeviceKind> kinds_;
  std::map<std::string, std::vector<Entry>, std::less<>> entries_;  // by the operator's name
  std::string sha256_;
};

}  // namespace soapstone::planner
