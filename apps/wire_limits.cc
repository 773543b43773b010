#include "apps/wire_limits.h"

#include <algorithm>

namespace soapstone::apps {
namespace {

constexpr uint64_t kFrameBytesMin = 64 << 10;
constexpr uint64_t kHeaderBytesMin = 1 << 20;   // a push of 65,536 slices, and the counts of reads
constexpr uint64_t kNodeHeaderBytes = 8 << 10;  // of a roster, with an endpoint of 4,096 bytes
constexpr uint64_t kVisitorsMin = 64;
constexpr uint64_t kVisitorBytes = 64 << 10;  // a greeting, a minute of Hellos, a heartbeat
constexpr uint64_t kVisitorsBytesMin = 1 << 20;
constexpr uint64_t kTableMessageBytes = 16 << 20;  // the rows of a batch

uint64_t LargestFrameBytes(const Job& job) {
  // Peers send each other whole vectors, and the two of an optimizer.
  uint64_t elements = job.specs.policy.decentralised() ? 2 * job.layout->elements() : 0;
  for (uint32_t shard = 0; shard < job.layout->shard_count(); ++shard) {
    for (const wire::Slice& slice : job.layout->slices(ShardId{shard})) {
      elements = std::max(elements, slice.elements());
    }
  }
  return elements * sizeof(float);
}

}  // namespace

void LimitToJob(const Job& job, transport::ZmqOptions* options) {
  const uint64_t nodes = uint64_t{job.config.cluster().servers()} + job.config.cluster().workers();
  wire::FrameLimits& limits = options->frame_limits;
  limits.header_bytes_max =
      std::min<uint64_t>(limits.header_bytes_max, kHeaderBytesMin + nodes * kNodeHeaderBytes);
  if (job.layout->tables().empty()) {
    limits.frame_bytes_max =
        std::min(limits.frame_bytes_max, std::max(LargestFrameBytes(job), kFrameBytesMin));
  }
  // The largest message: a shard's slices, or a peer's values with the optimizer's state.
  const uint64_t vectors = job.specs.policy.decentralised() ? 6 : 1;
  const uint64_t message = vectors * sizeof(float) * job.layout->elements() +
                           (job.layout->tables().empty() ? 0 : kTableMessageBytes);
  transport::DoorLimits& door = options->door;
  door.connections_max = kVisitorsMin + 2 * nodes;
  door.bytes_max = kVisitorBytes + message;
  door.total_bytes_max = kVisitorsBytesMin + nodes * door.bytes_max;
  door.returning_bytes_max = std::max<uint64_t>(door.bytes_max, limits.header_bytes_max + message);
}

}  // namespace soapstone::apps
