// Costs without a measurement: the roofline of each kind of device (Williams et al. 2009).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scheduler/planner/cost/cost_model.h"
#include "scheduler/planner/cost/part_work.h"

namespace soapstone::planner {

// What of a device's rate of large products an operator's arithmetic reaches, by the operator's
// name; 1 for those that are not listed.
using Efficiencies = std::vector<std::pair<std::string, double>>;

// Measured by `soapstone profile` at batch 8 on a core of an AMD EPYC with oneDNN, forward and
// backward: convolutions of resnet50 1.02 and 0.89 of their roofline, linears of rnnlm:hidden=512
// 0.86 and 0.98, its lstms 0.64 and 0.82.
Efficiencies UsualEfficiencies();

// t = kernels · launch + max(flops / (e·F), bytes / B)
// in nanoseconds, forward or backward; F and B the kind's rates, e the operator's efficiency. A
// part of half the work takes more than half the time: launches stay, and so do the bytes of what
// parts do not share out. 0 for an operator that only gives memory another name.
PartCost RooflineOf(const PartWork& work, const DeviceKind& kind, double efficiency);

class RooflineCost : public CostModel {
 public:
  // efficiencies: in (0, 1].
  RooflineCost(std::vector<DeviceKind> kinds, Efficiencies efficiencies)
      : kinds_(std::move(kinds)), efficiencies_(std::move(efficiencies)) {}

  PartCost CostOf(const PlanOp& op, const models::Block& part, uint32_t kind) const override;
  std::string sha256() const override;

 private:
  const std::vector<DeviceKind> kinds_;
  const Efficiencies efficiencies_;
};

double EfficiencyOf(const Efficiencies& efficiencies, std::string_view name);

}  // namespace soapstone::planner
