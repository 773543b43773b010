// FolderLock: one run at a time writes checkpoints into a folder. The lock dies with its process,
// however that ends. Between machines as the file system has it.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace soapstone::checkpoint {

class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

  // Errors: FailedPrecondition where another process has it; InvalidArgument where it cannot be
  // had.
  static absl::StatusOr<FolderLock> Take(const std::string& folder);

 private:
  int fd_ = -1;
};

}  // namespace soapstone::checkpoint
