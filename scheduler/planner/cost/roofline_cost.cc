#include "scheduler/planner/cost/roofline_cost.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"

namespace soapstone::planner {
namespace {

Nanos HalfOf(int64_t kernels, int64_t flops, int64_t bytes, const DeviceKind& kind,
             double efficiency) {
  if (flops == 0 && bytes == 0) return 0;
  const double products = static_cast<double>(flops) / (efficiency * kind.flops_per_second);
  const double memory = static_cast<double>(bytes) / kind.bytes_per_second;
  return kernels * kind.launch_ns +
         static_cast<Nanos>(std::llround(std::max(products, memory) * 1e9));
}

}  // namespace

Efficiencies UsualEfficiencies() { return {{"conv2d", 0.95}, {"linear", 0.92}, {"lstm", 0.73}}; }

PartCost RooflineOf(const PartWork& work, const DeviceKind& kind, double efficiency) {
  return {.forward_ns = HalfOf(work.forward_kernels, work.cost.forward_flops,
                               work.cost.forward_bytes, kind, efficiency),
          .backward_ns = HalfOf(work.backward_kernels, work.cost.backward_flops,
                                work.cost.backward_bytes, kind, efficiency)};
}

double EfficiencyOf(const Efficiencies& efficiencies, std::string_view name) {
  for (const auto& [of, efficiency] : efficiencies) {
    if (of == name) return efficiency;
  }
  return 1;
}

PartCost RooflineCost::CostOf(const PlanOp& op, const models::Block& part, uint32_t kind) const {
  const PartWork work = WorkOf(op, part);
  return RooflineOf(work, kinds_[kind], EfficiencyOf(efficiencies_, work.name));
}

std::string RooflineCost::sha256() const {
  std::string text = "roofline 1\n";
  for (const DeviceKind& kind : kinds_) {
    absl::StrAppendFormat(&text, "%s %a %a %d\n", kind.name, kind.flops_per_second,
                          kind.bytes_per_second, kind.launch_ns);
  }
  for (const auto& [name, efficiency] : efficiencies_) {
    absl::StrAppendFormat(&text, "%s %a\n", name, efficiency);
  }
  Sha256 sha;
  sha.Update(text.data(), text.size());
  return sha.HexDigest();
}

}  // namespace soapstone::planner
