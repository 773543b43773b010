// Files of measured costs (scheduler/planner/cost/measured_cost.h). Input: the text, in which MODEL
// stands for the hash of the model that it is of. What was taken prices every operator.
#include "absl/strings/str_replace.h"
#include "scheduler/planner/cost/measured_cost.h"
#include "strategy/strategy.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/planned_model.h"

namespace soapstone::fuzz {
namespace {

void Check(absl::string_view input) {
  const planner::OpGraph& graph = PlannedGraph();
  const std::string text = absl::StrReplaceAll(input, {{"MODEL", graph.model_sha256}});
  const absl::StatusOr<wire::CostTable> table = planner::ParseCostTable(text, "costs");
  if (!table.ok()) return CheckError(table.status(), "costs:");
  const auto costs = planner::MeasuredCost::Make(*table, "costs", graph.model, graph.model_sha256,
                                                 PlannedMachine().kinds());
  if (!costs.ok()) return CheckError(costs.status(), "costs:");
  const planner::Strategy strategy = planner::SingleDevice(graph, 0);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    const planner::PartCost cost =
        (*costs)->CostOf(graph.ops[i], planner::PartBlock(graph.ops[i], strategy.ops[i], 0), 0);
    CHECK_GE(cost.forward_ns, 0);
    CHECK_GE(cost.backward_ns, 0);
  }
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
