#include "apps/report/process_memory.h"

#include <malloc.h>

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>

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

void ReturnLargeBlocks() {
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

}  // namespace soapstone::apps
