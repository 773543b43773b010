// Files that are no data: devices, pipes, sockets.
#pragma once

#include <sys/stat.h>

#include <string>

namespace soapstone {

// There is something at `path`, or behind a link there, that a file written elsewhere must not take
// the place of: for root /dev/null would be a file of data from then on.
inline bool IsSpecialFile(const std::string& path) {
  struct stat there = {};
  return stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

}  // namespace soapstone
