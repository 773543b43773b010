// KernelQueue: what the kernel holds of a TCP connection's bytes, and how much it may. Included by
// transport/*.cc only. Who calls: StreamChannel, which must not know socket options.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.h"

namespace soapstone::transport {

bool IsTcpConnection(int fd);

// Bytes that were written to `fd` and have not reached the other kernel. Empty: the
// system does not say.
std::optional<uint64_t> OutstandingBytes(int fd);

struct TcpPath {
  Nanos round_trip_min = 0;  // the shortest that TCP has seen of late; 0: none yet
  uint32_t segment_bytes = 0;
};
// All 0 where the kernel does not say.
TcpPath PathOf(int fd);

struct KernelQueueLimits {
  uint64_t outstanding_bytes = 0;  // 0: as many as the kernel likes
  uint32_t unsent_bytes = 0;       // of them, not sent once
};
// False: the system does not allow for so many outstanding bytes (net.core.wmem_max), or cannot
// take a bound back (before Linux 5.14). They are left to the kernel then: less would cost
// throughput.
bool SetKernelQueue(int fd, const KernelQueueLimits& limits);

// A TCP connection whose two ends are on this machine is taken off congestion control that paces
// (bbr, on many hosts): there is no link whose rate has to be found, and the timers cost half of
// the throughput. Others stay as the system has them. False: it stays as it was.
bool DontPaceWithinMachine(int fd);

}  // namespace soapstone::transport
