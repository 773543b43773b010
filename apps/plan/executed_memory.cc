#include "apps/plan/executed_memory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "models/runtime/section_runner.h"
#include "strategy/lowering.h"

namespace soapstone::apps {
namespace {

// Of the boxes of the batch that the section's parts read, each once.
int64_t BytesOfBatch(const models::Section& section) {
  std::vector<std::pair<uint32_t, models::Move>> read;
  int64_t bytes = 0;
  for (uint32_t p = 0; p < section.own_parts; ++p) {
    for (const models::PartInput& input : section.parts[p].inputs) {
      if (input.from.kind != models::Assembly::Kind::kField) continue;
      models::Move move = input.from.move;
      move.to.clear();
      const std::pair<uint32_t, models::Move> box = {input.from.field, std::move(move)};
      if (std::find(read.begin(), read.end(), box) != read.end()) continue;
      bytes += box.second.elements() * static_cast<int64_t>(sizeof(float));
      read.push_back(box);
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ExecutedMemory(const planner::OpGraph& graph,
                                                    const planner::Strategy& strategy,
                                                    const ExecutedMemoryOptions& options) {
  const planner::Order order =
      options.order.empty()
          ? planner::CanonicalOrder(graph, strategy, options.devices, options.in_flight)
          : options.order;
  SOAP_ASSIGN_OR_RETURN(planner::TeamProgram program,
                        planner::Lower(graph, strategy, order, planner::Purpose::kMeasure));
  const bool on_servers = strategy.synchronization == planner::Synchronization::kServers;
  const double copies = 2 + strategy.staleness + (on_servers ? 0 : options.optimizer_floats);
  const std::shared_ptr<compute::Backend> backend = compute::MakeCpuBackend({});
  const auto kernels = std::make_shared<models::KernelCache>();
  std::vector<int64_t> bytes;
  for (planner::SeatProgram& seat : program.seats) {
    int64_t parameters = 0;
    for (const models::ParamBlock& block : seat.section.param_blocks) {
      parameters += compute::TensorSpec{.shape = block.tensor.shape()}.bytes();
    }
    const int64_t batch = BytesOfBatch(seat.section);
    SOAP_ASSIGN_OR_RETURN(const models::MemoryPlan plan,
                          models::SectionRunner::Plan(std::move(seat.section),
                                                      {.backend = backend, .kernels = kernels}));
    bytes.push_back(static_cast<int64_t>(plan.bytes) + batch +
                    static_cast<int64_t>(copies * static_cast<double>(parameters)));
  }
  return bytes;
}

}  // namespace soapstone::apps
