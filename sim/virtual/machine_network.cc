#include "sim/virtual/machine_network.h"

#include <algorithm>

namespace soapstone::sim {
namespace {

using wire::Address;
using wire::Role;

Nanos TimeFor(double bytes, double bytes_per_second) {
  return static_cast<Nanos>(bytes / bytes_per_second * static_cast<double>(kSecond));
}

}  // namespace

absl::Span<const uint32_t> MachineNetwork::PathOf(Address from, Address to) const {
  if (from.role == Role::kWorker && to.role == Role::kWorker) {
    return machine_->Path(from.index, to.index);
  }
  const bool pushes = from.role == Role::kWorker && to.role == Role::kShard;
  const bool answers = from.role == Role::kShard && to.role == Role::kWorker;
  if (!pushes && !answers) return {};
  const uint32_t worker = pushes ? from.index : to.index;
  const uint32_t host = HostOf(pushes ? to.index : from.index);
  if (shards_.owned) {
    if (host == worker) return {};
    return pushes ? machine_->Path(worker, host) : machine_->Path(host, worker);
  }
  return pushes ? machine_->PushPath(worker, host) : machine_->PullPath(host, worker);
}

Nanos MachineNetwork::Arrival(Nanos now, Address from, Address to, uint64_t payload,
                              double limit_mbps) {
  const absl::Span<const uint32_t> path = PathOf(from, to);
  Nanos before = 0, rest = 0, arrives = now;
  for (const uint32_t link : path) rest += machine_->links()[link].latency_ns;
  const auto bytes = static_cast<double>(payload);
  for (const uint32_t at : path) {
    const planner::Link& link = machine_->links()[at];
    Nanos busy = 0;
    if (payload > 0) {
      const double rate = limit_mbps > 0 ? std::min(link.bytes_per_second, limit_mbps * 1e6 / 8)
                                         : link.bytes_per_second;
      busy = std::max<Nanos>(1, link.message_ns + TimeFor(bytes, rate));
    }
    free_at_[at] = std::max(now + before, free_at_[at]) + busy;
    arrives = std::max(arrives, free_at_[at] + rest);
    before += link.latency_ns;
    rest -= link.latency_ns;
  }
  return arrives;
}

Nanos MachineNetwork::ServerTime(uint32_t shard, uint64_t pushed) const {
  const planner::ParameterServer& server = machine_->servers()[HostOf(shard)];
  return std::max<Nanos>(1, TimeFor(static_cast<double>(pushed), server.apply_bytes_per_second));
}

Nanos MachineNetwork::OwnerTime(uint32_t shard, uint64_t held, uint64_t received) const {
  const planner::DeviceKind& kind = machine_->kind_of(HostOf(shard));
  const auto bytes = static_cast<double>(3 * held + 2 * received);
  return std::max<Nanos>(1, kind.launch_ns + TimeFor(bytes, kind.bytes_per_second));
}

}  // namespace soapstone::sim
