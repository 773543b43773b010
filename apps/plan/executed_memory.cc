#include "apps/plan/executed_memory.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "models/runtime/section_runner.h"
#include "strategy/lowering.h"
#include "strategy/pieces.h"
#include "strategy/window.h"

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

// By seat: of the ranges that it keeps of what a ring synchronizes.
absl::StatusOr<std::vector<int64_t>> BytesOfRanges(const planner::OpGraph& graph,
                                                   const planner::Strategy& strategy,
                                                   uint32_t seats) {
  SOAP_ASSIGN_OR_RETURN(const planner::Pieces pieces, planner::PiecesOf(graph, strategy));
  std::vector<int64_t> bytes(seats, 0);
  for (const planner::Piece& piece : pieces.pieces) {
    const std::vector<uint32_t>& holders = pieces.sets[piece.set];
    const auto count = static_cast<int64_t>(holders.size());
    const int64_t elements = models::ElementsOf(piece.block);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t range = elements * (i + 1) / count - elements * i / count;
      bytes[holders[i]] += range * static_cast<int64_t>(sizeof(float));
    }
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> ExecutedMemory(const planner::OpGraph& graph,
                                                    const planner::Strategy& strategy,
                                                    const ExecutedMemoryOptions& options) {
  planner::Order order =
      options.order.empty()
          ? planner::CanonicalOrder(graph, strategy, options.devices, options.in_flight)
          : options.order;
  SOAP_ASSIGN_OR_RETURN(planner::TeamProgram program,
                        planner::Lower(graph, strategy, order, planner::Purpose::kMeasure));
  const std::vector<uint32_t> leads =
      planner::LeadsOf(program.messages, options.devices, strategy.staleness + 1);
  if (strategy.staleness > 0) {
    order = planner::ForwardFirst(std::move(order), leads);
    SOAP_ASSIGN_OR_RETURN(program,
                          planner::Lower(graph, strategy, order, planner::Purpose::kMeasure));
  }
  const bool on_servers = !planner::KeptByHolders(strategy.synchronization);
  std::optional<std::vector<int64_t>> ranges;
  if (options.rings_by_ranges && strategy.synchronization == planner::Synchronization::kRing) {
    SOAP_ASSIGN_OR_RETURN(ranges, BytesOfRanges(graph, strategy, options.devices));
  }
  const std::shared_ptr<compute::Backend> backend = compute::MakeCpuBackend({});
  const auto kernels = std::make_shared<models::KernelCache>();
  std::vector<int64_t> bytes;
  for (uint32_t k = 0; k < program.seats.size(); ++k) {
    planner::SeatProgram& seat = program.seats[k];
    int64_t parameters = 0;
    for (const models::ParamBlock& block : seat.section.param_blocks) {
      parameters += compute::TensorSpec{.shape = block.tensor.shape()}.bytes();
    }
    const int64_t stepped = on_servers ? 0 : ranges.has_value() ? (*ranges)[k] : parameters;
    const int64_t batch = BytesOfBatch(seat.section);
    SOAP_ASSIGN_OR_RETURN(const models::MemoryPlan plan,
                          models::SectionRunner::Plan(std::move(seat.section),
                                                      {.backend = backend, .kernels = kernels}));
    bytes.push_back((1 + int64_t{leads[k]}) * (static_cast<int64_t>(plan.bytes) + batch) +
                    (2 + int64_t{leads[k]}) * parameters +
                    static_cast<int64_t>(options.optimizer_floats * static_cast<double>(stepped)));
  }
  return bytes;
}

}  // namespace soapstone::apps
