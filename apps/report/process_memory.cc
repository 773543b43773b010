#include "apps/report/process_memory.h"

#include <malloc.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {
namespace {

constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

// The number of kB in the line "key:  123 kB" of a file.
uint64_t LineOf(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size() + 1, key + ":") != 0) continue;
    return std::strtoull(line.c_str() + key.size() + 1, nullptr, 10) * 1024;
  }
  return kUnknown;
}

// Resident memory that can be executed and is of no file: what oneDNN generates.
uint64_t GeneratedCode() {
  std::ifstream file("/proc/self/smaps");
  uint64_t bytes = 0;
  bool generated = false;
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, 4, "Rss:") == 0) {
      if (generated) bytes += std::strtoull(line.c_str() + 4, nullptr, 10) * 1024;
    } else if (!line.empty() && std::isupper(static_cast<unsigned char>(line[0])) == 0) {
      // A mapping: "7f00-7f08 rwxp 00000000 00:00 0 ", and the file's path, if any.
      const size_t rights = line.find(' ');
      generated = line.compare(rights + 3, 1, "x") == 0 && line.find('/') == line.npos &&
                  line.find('[') == line.npos;
    }
  }
  return bytes;
}

// A file with one number; kUnknown: there is none, or it says "max".
uint64_t NumberIn(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  return file >> number ? number : kUnknown;
}

// Of the control group that the process sees as its root (a container's), and of its own below it.
uint64_t GroupAvailable() {
  uint64_t least = kUnknown;
  std::ifstream groups("/proc/self/cgroup");
  std::string line, own;
  while (std::getline(groups, line)) {
    if (line.compare(0, 3, "0::") == 0) own = line.substr(3);
  }
  for (const std::string& group : {std::string(), own}) {
    const std::string dir = absl::StrCat("/sys/fs/cgroup", group);
    const uint64_t limit = NumberIn(dir + "/memory.max");
    const uint64_t used = NumberIn(dir + "/memory.current");
    if (limit == kUnknown || used == kUnknown) continue;
    // Pages of files count as used, but go when they are in the way.
    std::ifstream stat(dir + "/memory.stat");
    uint64_t pages = 0;
    std::string key;
    for (uint64_t value = 0; stat >> key >> value;) {
      if (key == "inactive_file") pages = value;
    }
    const uint64_t firm = used - std::min(used, pages);
    least = std::min(least, limit - std::min(limit, firm));
  }
  return least;
}

}  // namespace

ResidentMemory ReadResidentMemory() {
  const auto read = [](const char* key) {
    const uint64_t bytes = LineOf("/proc/self/status", key);
    return bytes == kUnknown ? 0 : bytes;
  };
  return {.now_bytes = read("VmRSS"),
          .code_bytes = read("RssFile") + GeneratedCode(),
          .peak_bytes = read("VmHWM")};
}

bool ResetPeakMemory() {
  malloc_trim(0);  // what was freed is not to hide what is taken
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

void ReturnLargeBlocks() { mallopt(M_MMAP_THRESHOLD, 1 << 20); }

uint64_t AvailableMemory() {
  return std::min(LineOf("/proc/meminfo", "MemAvailable"), GroupAvailable());
}

}  // namespace soapstone::apps
