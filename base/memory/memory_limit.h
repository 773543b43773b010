// How much memory this process may have at all, and how much of it is free: queues and tables that
// are bounded by bytes take their bounds from here, so that they hold on a machine, and in a
// container, of any size. Linux.
#pragma once

#include <cstdint>
#include <string>

namespace soapstone {

// Bytes: the least of what the machine has and of the limits of the process' control group and
// those above it (cgroup v2 memory.max, v1 memory.limit_in_bytes). Read once. 4 GiB where nothing
// tells.
uint64_t MemoryLimit();

// Bytes that can be taken without swapping: the least of what the machine has free and of what
// those groups leave, in which pages of files count as free.
// UINT64_MAX where nothing tells.
uint64_t AvailableMemory();

// The same of a tree of files as /proc and /sys are, for tests: `root` stands for "/".
uint64_t MemoryLimitUnder(const std::string& root);
uint64_t AvailableMemoryUnder(const std::string& root);

}  // namespace soapstone
