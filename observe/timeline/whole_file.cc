#include "observe/timeline/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/special_file.h"

namespace soapstone::timeline {
namespace {

absl::Status Cannot(const std::string& path, int error) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write ", path, ": ", std::strerror(error)));
}

// 0, or what went wrong.
int WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : ENOSPC;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
}

absl::Status WriteInto(const std::string& path, std::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Cannot(path, errno);
  const int error = WriteAll(fd, text);
  close(fd);
  return error == 0 ? absl::OkStatus() : Cannot(path, error);
}

}  // namespace

absl::Status WriteWholeFile(const std::string& path, std::string_view text) {
  if (IsSpecialFile(path)) return WriteInto(path, text);
  const std::string folder = (std::filesystem::path(path).parent_path() / "").string();
  const std::string beside = absl::StrCat(path, ".part.", getpid());
  int fd = open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
  const bool nameless = fd >= 0;
  if (!nameless) fd = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return Cannot(path, errno);
  int error = WriteAll(fd, text);
  if (error == 0 && nameless) {
    unlink(beside.c_str());  // of a process of this number that was killed
    const std::string self = absl::StrCat("/proc/self/fd/", fd);
    if (linkat(AT_FDCWD, self.c_str(), AT_FDCWD, beside.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      error = errno;
    }
  }
  close(fd);
  if (error == 0 && std::rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(beside.c_str());
  return Cannot(path, error);
}

}  // namespace soapstone::timeline
