// MemoryFile: a text as a file without a place on any disk, for processes that this one starts.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace soapstone::apps {

// Invariants: only its owner may open it, and it is gone with the last process that has it.
class MemoryFile {
 public:
  // Error: Internal, the system gives none.
  static absl::StatusOr<std::unique_ptr<MemoryFile>> Make(const std::string& text);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }
  std::string path() const;  // as a process opens it that has inherited fd()

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace soapstone::apps
