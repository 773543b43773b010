#include "scheduler/planner/timeline/loads.h"

#include <algorithm>

namespace soapstone::planner {

Loads::Loads(const ConnectionGraph* connections, const Machine& machine, uint32_t resources,
             Options options)
    : connections_(connections),
      options_(options),
      compute_(machine.devices().size(), 0),
      communication_(resources, 0),
      memory_(machine, connections->micro_batches(), options.memory_share) {}

void Loads::Clear(uint32_t staleness) {
  std::fill(compute_.begin(), compute_.end(), 0);
  std::fill(communication_.begin(), communication_.end(), 0);
  memory_.Clear();
  transfer_bytes_ = sync_bytes_ = 0;
  copies_ = 2 + options_.optimizer_floats + staleness;
}

void Loads::AddOp(uint32_t op, const OpState& state, int sign) {
  const uint32_t micro_batch = connections_->micro_batch_of(op);
  for (uint32_t part = 0; part < state.split->parts; ++part) {
    const uint32_t device = state.config.devices[part];
    compute_[device] += sign * (state.forward[part] + state.backward[part]);
    memory_.AddMemory(device, micro_batch, sign * state.split->output_bytes[part]);
  }
}

void Loads::AddEdge(uint32_t edge, const EdgeBlock& block, int sign) {
  const uint32_t micro_batch = connections_->micro_batch_of(connections_->edge(edge).to);
  for (const Load& load : block.loads) communication_[load.resource] += sign * load.busy;
  for (const auto& [device, bytes] : block.received) {
    memory_.AddMemory(device, micro_batch, sign * bytes);
  }
  transfer_bytes_ += sign * block.bytes;
}

void Loads::AddSync(const SyncBlock& sync, int sign) {
  for (const Load& load : sync.loads) communication_[load.resource] += sign * load.busy;
  for (const auto& [device, bytes] : sync.held) {
    memory_.AddParameters(device,
                          sign * static_cast<int64_t>(static_cast<double>(bytes) * copies_));
  }
  for (const auto& [device, bytes] : sync.kept_elsewhere) {
    memory_.AddParameters(device, -sign * static_cast<int64_t>(static_cast<double>(bytes) *
                                                               options_.optimizer_floats));
  }
  sync_bytes_ += sign * sync.bytes;
}

void Loads::FindFit() {
  fit_.in_flight = memory_.InFlight();
  fit_.overflow = std::max<int64_t>(0, transfer_bytes_ + sync_bytes_ - options_.moved_bytes_max) +
                  memory_.Excess(fit_.in_flight);
}

Nanos Loads::BusiestDevice() const { return *std::max_element(compute_.begin(), compute_.end()); }

Nanos Loads::BusiestQueue() const {
  Nanos busiest = 0;
  for (size_t r = 0; r < communication_.size(); ++r) busiest = std::max(busiest, BusyOf(r));
  return busiest;
}

bool Loads::Allow(Nanos cutoff) const {
  for (size_t r = 0; r < communication_.size(); ++r) {
    if (BusyOf(r) > cutoff) return false;
  }
  return true;
}

}  // namespace soapstone::planner
