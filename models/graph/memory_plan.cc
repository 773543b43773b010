#include "models/graph/memory_plan.h"

#include <algorithm>

#include "models/graph/occupied_memory.h"

namespace soapstone::models {
namespace {

constexpr size_t kAlignment = 64;

// All values of one memory: alive from the first that is written to the last that is read.
struct Storage {
  size_t bytes = 0;
  uint32_t first = UINT32_MAX, last = 0;
  size_t offset = 0;
};

std::vector<Storage> StoragesOf(const std::vector<Value>& values) {
  std::vector<Storage> storages(values.size());
  for (const Value& value : values) {
    Storage& s = storages[value.storage];
    s.bytes = std::max(s.bytes, (value.bytes + kAlignment - 1) / kAlignment * kAlignment);
    s.first = std::min(s.first, value.first);
    s.last = std::max(s.last, value.last);
  }
  return storages;
}

size_t LiveBytesMax(const std::vector<Storage>& storages, size_t nodes) {
  std::vector<int64_t> change(nodes + 2);
  for (const Storage& s : storages) {
    if (s.bytes == 0) continue;
    change[s.first] += static_cast<int64_t>(s.bytes);
    change[s.last + 1] -= static_cast<int64_t>(s.bytes);
  }
  int64_t live = 0;
  int64_t most = 0;
  for (int64_t c : change) most = std::max(most, live += c);
  return static_cast<size_t>(most);
}

}  // namespace

MemoryPlan PlanMemory(const StepGraph& step) { return PlanMemory(step.values, step.nodes.size()); }

MemoryPlan PlanMemory(const std::vector<Value>& values, size_t nodes) {
  std::vector<Storage> storages = StoragesOf(values);
  std::vector<size_t> order;
  for (size_t i = 0; i < storages.size(); ++i) {
    if (storages[i].bytes > 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return storages[a].bytes != storages[b].bytes ? storages[a].bytes > storages[b].bytes : a < b;
  });
  MemoryPlan plan;
  OccupiedMemory occupied(static_cast<uint32_t>(nodes) + 1);
  for (size_t i : order) {
    Storage& s = storages[i];
    s.offset = occupied.LowestFree(s.first, s.last, s.bytes);
    occupied.Take(s.first, s.last, s.offset, s.offset + s.bytes);
    plan.bytes = std::max(plan.bytes, s.offset + s.bytes);
  }
  for (const Value& value : values) plan.offsets.push_back(storages[value.storage].offset);
  plan.live_bytes_max = LiveBytesMax(storages, nodes);
  return plan;
}

size_t LiveBytesMax(const StepGraph& step) {
  return LiveBytesMax(StoragesOf(step.values), step.nodes.size());
}

}  // namespace soapstone::models
