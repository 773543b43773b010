#include "apps/node/wire_limits.h"

#include <sys/resource.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/memory/memory_limit.h"
#include "cluster/replicas/replicas.h"

namespace soapstone::apps {
namespace {

constexpr uint64_t kFrameBytesMin = 64 << 10;
constexpr uint64_t kHeaderBytesMin = 1 << 20;   // a push of 65,536 slices, and the counts of reads
constexpr uint64_t kNodeHeaderBytes = 8 << 10;  // of a roster, with an endpoint of 4,096 bytes
constexpr uint64_t kVisitors = 256;             // and two a node, whose connections begin so
constexpr uint64_t kNodeUnprovenBytes = 64 << 10;  // of those a node
constexpr uint64_t kStrangersMin = 4;              // beside all members at once
constexpr uint64_t kVisitorDescriptorShare = 8;    // of what the process may open
constexpr uint64_t kLinkBytes = uint64_t{512} << 20;
constexpr uint64_t kLinkMemoryShare = 16;  // of what there is

// Where no descriptor is left, libzmq tries without pause to accept who waits.
uint64_t WithinDescriptors(uint64_t visitors, uint64_t nodes) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return visitors;
  const uint64_t share = limit.rlim_cur / kVisitorDescriptorShare;
  return std::min(visitors, std::max(nodes + kStrangersMin, share));
}

uint64_t LargestFrameBytes(const Job& job) {
  // Peers send each other whole vectors, and the two of an optimizer.
  uint64_t elements = job.specs.policy.decentralised() ? 2 * job.layout->elements() : 0;
  for (uint32_t shard = 0; shard < job.layout->shard_count(); ++shard) {
    for (const wire::Slice& slice : job.layout->slices(ShardId{shard})) {
      elements = std::max(elements, slice.elements());
    }
  }
  uint64_t bytes = elements * sizeof(float);
  if (job.team == nullptr) return bytes;
  for (const auto& [samples, program] : job.team->plan.steps) {
    for (const planner::BlockMessage& message : program.messages) {
      bytes = std::max(bytes, static_cast<uint64_t>(message.bytes));
    }
  }
  return bytes;
}

}  // namespace

uint64_t LinkBytesOf(const Job& job) {
  const uint64_t given = job.config.cluster().link_bytes();
  return given > 0 ? given : std::min(kLinkBytes, AvailableMemory() / kLinkMemoryShare);
}

void LimitToJob(const Job& job, transport::ZmqOptions* options) {
  const uint64_t nodes =
      uint64_t{ServerCount(job.config, job.specs.policy)} + job.config.cluster().workers();
  wire::FrameLimits& limits = options->frame_limits;
  limits.header_bytes_max =
      std::min<uint64_t>(limits.header_bytes_max, kHeaderBytesMin + nodes * kNodeHeaderBytes);
  if (job.layout->tables().empty()) {
    limits.frame_bytes_max =
        std::min(limits.frame_bytes_max, std::max(LargestFrameBytes(job), kFrameBytesMin));
  }
  const uint64_t visitors = kVisitors + 2 * nodes;
  options->door.connections_max = WithinDescriptors(visitors, nodes);
  options->door.total_bytes_max += kNodeUnprovenBytes * nodes;
  options->door.ends_max += nodes / 2;
  options->places = PlacesOf(job.config, job.specs.policy);
}

absl::Status CheckFrames(const Job& job, const transport::ZmqOptions& options) {
  const uint64_t largest = job.layout->tables().empty() ? LargestFrameBytes(job) : 0;
  const bool by_zmq_alone = options.keys != nullptr && !options.streams;
  if (!by_zmq_alone || largest <= transport::kSecuredFrameBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cluster.transport: zeromq, which with keys carries no frame of more than ",
                   transport::kSecuredFrameBytesMax, " bytes, and this job has some of ", largest,
                   "; set it to auto or sockets"));
}

}  // namespace soapstone::apps
