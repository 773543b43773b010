// Files that are no data: devices, pipes, sockets, links.
#pragma once

#include <sys/stat.h>

#include <string>

namespace soapstone {

// There is something at `path` that a file written elsewhere must not take the place of: for root
// /dev/null would be a file of data from then on, and /dev/stdout, a link, nobody's output any
// more.
inline bool IsSpecialFile(const std::string& path) {
  struct stat there = {};
  return lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

}  // namespace soapstone
