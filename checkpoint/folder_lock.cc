#include "checkpoint/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace soapstone::checkpoint {

FolderLock::~FolderLock() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<FolderLock> FolderLock::Take(const std::string& folder) {
  FolderLock lock;
  lock.fd_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock.fd_ >= 0 && flock(lock.fd_, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, ": a job that is running writes its checkpoints there"));
  }
  return absl::InvalidArgumentError(absl::StrCat(folder, ": ", std::strerror(errno)));
}

}  // namespace soapstone::checkpoint
