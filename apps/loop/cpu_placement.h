// Where a process runs and takes its memory: flags --cpus, --numa_node and --pin_shards of the
// daemons. Called before the process has threads; those inherit it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace soapstone::apps {

struct CpuPlacement {
  std::string cpus;              // "0-3,8", as the kernel writes lists of them; empty: any
  std::optional<int> numa_node;  // its processors, unless `cpus` says which; memory from it while
                                 // it has some
  bool pin_shards = false;       // each shard's thread to one of them
};

// Numbers of a list such as "0-3,8", ascending. Error: InvalidArgument, not such a list.
absl::StatusOr<std::vector<int>> ParseCpuList(const std::string& text);

// Places the calling thread and those it will start. Error: InvalidArgument for a list or a node
// that this machine does not have, or may not use.
absl::Status Place(const CpuPlacement& placement);

// The CPU for the `index`-th of several threads: those the calling thread may use, in turn.
int CpuInTurn(size_t index);
// Keeps the calling thread, and those it will start, on `cpu`. False: it may not be used.
bool StayOn(int cpu);

}  // namespace soapstone::apps
