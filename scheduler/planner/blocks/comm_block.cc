#include "scheduler/planner/blocks/comm_block.h"

namespace soapstone::planner {

void BlockMemory::Reset(size_t bytes) {
  used_ = 0;
  if (bytes <= size_) return;
  memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
  size_ = bytes;
}

void OpenTasks::Clear() {
  tasks.clear();
  joins.clear();
  flows.clear();
  uses.clear();
  done.clear();
}

size_t OpenTasks::bytes() const {
  return BlockMemory::BytesFor(tasks) + BlockMemory::BytesFor(joins) +
         BlockMemory::BytesFor(flows) + BlockMemory::BytesFor(uses) + BlockMemory::BytesFor(done);
}

CommTasks OpenTasks::PackInto(BlockMemory* memory) const {
  CommTasks packed;
  packed.tasks = memory->Add(tasks);
  packed.flows = memory->Add(flows);
  packed.uses = memory->Add(uses);
  packed.done = memory->Add(done);
  packed.joins = memory->Add(joins);
  return packed;
}

void ListByPart(uint32_t parts, absl::Span<const std::pair<uint32_t, uint32_t>> items,
                std::vector<uint32_t>* all) {
  std::vector<uint32_t>& a = *all;
  a.assign(parts + 1 + items.size(), 0);
  for (const auto& [part, item] : items) ++a[part + 1];
  a[0] = parts + 1;
  for (uint32_t p = 0; p < parts; ++p) a[p + 1] += a[p];
  for (const auto& [part, item] : items) a[a[part]++] = item;
  for (uint32_t p = parts; p > 0; --p) a[p] = a[p - 1];
  a[0] = parts + 1;
}

}  // namespace soapstone::planner
