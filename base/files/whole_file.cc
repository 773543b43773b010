#include "base/files/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/files/special_file.h"

namespace soapstone {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 18;

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

absl::Status CheckIsFile(const std::string& path) {
  struct stat there = {};
  if (stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, S_ISDIR(there.st_mode) ? ": is a folder" : ": is no file"));
}

absl::StatusOr<std::string> ReadWholeFile(const std::string& path, size_t bytes_max) {
  const absl::Status is_file = CheckIsFile(path);
  if (!is_file.ok()) return is_file;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string text;
  int error = 0;
  for (ssize_t got = 1; got > 0 && text.size() <= bytes_max;) {
    const size_t had = text.size();
    text.resize(had + kChunkBytes);
    got = read(fd, text.data() + had, kChunkBytes);
    if (got < 0) error = errno;
    text.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) got = 1, error = 0;
  }
  close(fd);
  if (error != 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(error)));
  if (text.size() <= bytes_max) return text;
  return absl::ResourceExhaustedError(absl::StrCat(path, ": more than ", bytes_max, " bytes"));
}

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

}  // namespace soapstone
