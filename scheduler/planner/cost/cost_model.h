// What a part of an operator takes on a device: measured where the cost file has it, else by a
// roofline that measurements calibrate. Asked by the simulator's task graph, which keeps the
// answers.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "models/ops/partition.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

struct PartCost {
  Nanos forward_ns = 0;
  Nanos backward_ns = 0;
  friend bool operator==(const PartCost&, const PartCost&) = default;
};

// A function of its arguments alone. Threading: const methods from several threads at once.
class CostModel {
 public:
  virtual ~CostModel() = default;
  // part: a block of op.rule.dims. kind: into machine.kinds().
  virtual PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t kind) const = 0;
  // Of the costs: strategies name it. Two models with one hash answer alike.
  virtual std::string sha256() const = 0;
};

}  // namespace soapstone::planner
