// How much memory this process may have at all, and what part of it a bound may be: queues and
// tables that are bounded by bytes take their bounds from here, so that they hold on a machine, and
// in a container, of any size. Linux.
#pragma once

#include <cstdint>
#include <string>

namespace soapstone {

// Bytes: the least of what the machine has and of the limits of the process' control group and
// those above it (cgroup v2 memory.max, v1 memory.limit_in_bytes). Read once. 4 GiB where nothing
// tells.
uint64_t MemoryLimit();

// The same of a tree of files as /proc and /sys are, for tests: `root` stands for "/".
uint64_t MemoryLimitUnder(const std::string& root);

}  // namespace soapstone
