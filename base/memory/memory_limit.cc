#include "base/memory/memory_limit.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"

namespace soapstone {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kWhereNothingTells = uint64_t{4} << 30;

uint64_t MachineMemory(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  const std::string key = "MemTotal:";
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return kUnknown;
}

// The number in a file; kUnknown: there is none, or it says "max".
uint64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : kUnknown;
}

// The least limit of `group` ("/a/b") and of those above it.
uint64_t LeastOf(const std::string& hierarchy, std::string group, const char* file) {
  uint64_t least = kUnknown;
  while (true) {
    if (group == "/") group.clear();
    least = std::min(least, LimitIn(absl::StrCat(hierarchy, group, "/", file)));
    if (group.empty()) return least;
    group.erase(group.rfind('/'));
  }
}

}  // namespace

uint64_t MemoryLimitUnder(const std::string& root) {
  uint64_t least = MachineMemory(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // "0::/group", and of version 1 "4:memory:/group".
    const size_t kind = line.find(':');
    const size_t path = kind == line.npos ? line.npos : line.find(':', kind + 1);
    if (path == line.npos || line.compare(path + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(kind + 1, path - kind - 1);
    const std::string group = line.substr(path + 1);
    if (controllers.empty()) {
      least = std::min(least, LeastOf(root + "/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers == "memory") {
      least =
          std::min(least, LeastOf(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return least == kUnknown ? kWhereNothingTells : least;
}

uint64_t MemoryLimit() {
  static const uint64_t limit = MemoryLimitUnder("");
  return limit;
}

}  // namespace soapstone
