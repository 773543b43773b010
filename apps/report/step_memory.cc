#include "apps/report/step_memory.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "apps/report/report.h"

namespace soapstone::apps {
namespace {

using models::NodeKind;

// Of one memory: bytes, and the nodes between which it is in use.
struct Storage {
  uint64_t bytes = 0;
  uint32_t first = UINT32_MAX, last = 0;
};

std::vector<Storage> StoragesOf(const models::StepGraph& step) {
  std::vector<Storage> storages(step.values.size());
  for (const models::Value& value : step.values) {
    Storage& storage = storages[value.storage];
    storage.bytes = std::max<uint64_t>(storage.bytes, value.bytes);
    storage.first = std::min(storage.first, value.first);
    storage.last = std::max(storage.last, value.last);
  }
  return storages;
}

uint32_t BusiestNode(const std::vector<Storage>& storages, size_t nodes) {
  std::vector<int64_t> change(nodes + 1);
  for (const Storage& storage : storages) {
    if (storage.bytes == 0) continue;
    change[storage.first] += static_cast<int64_t>(storage.bytes);
    change[storage.last + 1] -= static_cast<int64_t>(storage.bytes);
  }
  int64_t live = 0, most = -1;
  uint32_t busiest = 0;
  for (uint32_t node = 0; node < nodes; ++node) {
    live += change[node];
    if (live > most) {
      most = live;
      busiest = node;
    }
  }
  return busiest;
}

}  // namespace

StepMemory StepMemoryOf(const models::Graph& graph, int64_t samples,
                        const models::MemoryPlan& plan) {
  StepMemory memory = {.activation_bytes = plan.bytes};
  for (const ParamSpec& param : graph.params()) {
    memory.parameter_bytes += param.elements() * sizeof(float);
  }
  memory.gradient_bytes = memory.parameter_bytes;
  for (models::TensorId input : graph.inputs()) {
    memory.batch_bytes += static_cast<uint64_t>(graph.tensor(input).spec(samples).bytes());
  }
  return memory;
}

LivePeak LivePeakOf(const models::Graph& graph, const models::StepGraph& step, size_t count) {
  const std::vector<Storage> storages = StoragesOf(step);
  const uint32_t busiest = BusiestNode(storages, step.nodes.size());
  const models::Node& node = step.nodes[busiest];
  LivePeak peak = {.at = absl::StrCat(graph.ops()[node.op].name,
                                      node.kind == NodeKind::kForward ? " forward" : " backward",
                                      node.again ? " again" : "")};
  for (size_t i = 0; i < storages.size(); ++i) {
    const Storage& storage = storages[i];
    if (storage.bytes == 0 || storage.first > busiest || storage.last < busiest) continue;
    peak.bytes += storage.bytes;
    peak.largest.push_back({step.values[i].name, storage.bytes});
  }
  std::stable_sort(peak.largest.begin(), peak.largest.end(),
                   [](const LiveValue& a, const LiveValue& b) { return a.bytes > b.bytes; });
  if (peak.largest.size() > count) peak.largest.resize(count);
  return peak;
}

absl::Status CheckFits(const std::string& what, uint64_t needed, uint64_t available) {
  if (needed <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " needs ", Bytes(needed), " of memory, and ", Bytes(available), " are available: ",
      Bytes(needed - available), " too little; take a smaller batch, or recompute"));
}

}  // namespace soapstone::apps
