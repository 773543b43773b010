#include "base/memory/memory_limit.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"

namespace soapstone {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kWhereNothingTells = uint64_t{4} << 30;

// Names of a control group's files, and the keys in its memory.stat of pages of files, which go
// when they are in the way, also those that were read twice.
struct GroupFiles {
  const char* limit;
  const char* used;
  const char* inactive_pages;
  const char* active_pages;
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                  "total_inactive_file", "total_active_file"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file", "active_file"};

struct Group {
  std::string dir;
  GroupFiles files;
};

// The bytes in the line "key:  123 kB" of /proc/meminfo.
uint64_t MachineMemory(const std::string& root, const std::string& key) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size(), key) != 0) continue;
    return std::strtoull(line.c_str() + key.size(), nullptr, 10) * 1024;
  }
  return kUnknown;
}

// The number in a file; kUnknown: there is none, or it says "max".
uint64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : kUnknown;
}

// `group` ("/a/b") and those above it.
void AddWithThoseAbove(const std::string& hierarchy, std::string group, const GroupFiles& files,
                       std::vector<Group>* groups) {
  while (true) {
    if (group == "/") group.clear();
    groups->push_back({absl::StrCat(hierarchy, group), files});
    if (group.empty()) return;
    group.erase(group.rfind('/'));
  }
}

std::vector<Group> GroupsUnder(const std::string& root) {
  std::vector<Group> groups;
  std::ifstream lines(root + "/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    // "0::/group", and of version 1 "4:memory:/group".
    const size_t kind = line.find(':');
    const size_t path = kind == line.npos ? line.npos : line.find(':', kind + 1);
    if (path == line.npos || line.compare(path + 1, 1, "/") != 0) continue;
    const std::string controllers = line.substr(kind + 1, path - kind - 1);
    const std::string group = line.substr(path + 1);
    if (controllers.empty()) {
      AddWithThoseAbove(root + "/sys/fs/cgroup", group, kVersion2, &groups);
    } else if (controllers == "memory") {
      AddWithThoseAbove(root + "/sys/fs/cgroup/memory", group, kVersion1, &groups);
    }
  }
  return groups;
}

uint64_t LimitOf(const Group& group) {
  return NumberIn(absl::StrCat(group.dir, "/", group.files.limit));
}

uint64_t AvailableIn(const Group& group) {
  const uint64_t limit = LimitOf(group);
  const uint64_t used = NumberIn(absl::StrCat(group.dir, "/", group.files.used));
  if (limit == kUnknown || used == kUnknown) return kUnknown;
  std::ifstream stat(group.dir + "/memory.stat");
  uint64_t pages = 0;
  std::string key;
  for (uint64_t value = 0; stat >> key >> value;) {
    if (key == group.files.inactive_pages || key == group.files.active_pages) pages += value;
  }
  const uint64_t firm = used - std::min(used, pages);
  return limit - std::min(limit, firm);
}

}  // namespace

uint64_t MemoryLimitUnder(const std::string& root) {
  uint64_t least = MachineMemory(root, "MemTotal:");
  for (const Group& group : GroupsUnder(root)) least = std::min(least, LimitOf(group));
  return least == kUnknown ? kWhereNothingTells : least;
}

uint64_t AvailableMemoryUnder(const std::string& root) {
  uint64_t least = MachineMemory(root, "MemAvailable:");
  for (const Group& group : GroupsUnder(root)) least = std::min(least, AvailableIn(group));
  return least;
}

uint64_t MemoryLimit() {
  static const uint64_t limit = MemoryLimitUnder("");
  return limit;
}

uint64_t AvailableMemory() { return AvailableMemoryUnder(""); }

}  // namespace soapstone
