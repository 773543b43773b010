#include "checkpoint/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::checkpoint {
namespace {

namespace fs = std::filesystem;

absl::Status ErrorOf(const std::string& path, int error) {
  const std::string line = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(line);
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(line);
  return absl::UnavailableError(line);
}

// A file or folder that is open.
class Handle {
 public:
  explicit Handle(int fd) : fd_(fd) {}
  ~Handle() {
    if (fd_ >= 0) close(fd_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

class RealFile : public Disk::File {
 public:
  RealFile(std::string path, int fd) : path_(std::move(path)), file_(fd) {}

  absl::Status Append(const void* data, size_t bytes) override {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = write(file_.fd(), at, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrorOf(path_, errno);
      at += written;
      bytes -= static_cast<size_t>(written);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    return fsync(file_.fd()) == 0 ? absl::OkStatus() : ErrorOf(path_, errno);
  }

 private:
  std::string path_;
  Handle file_;
};

class System : public Disk {
 public:
  absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path) override {
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return ErrorOf(path, errno);
    return std::make_unique<RealFile>(path, fd);
  }

  absl::Status MakeFolder(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    return error ? ErrorOf(path, error.value()) : absl::OkStatus();
  }

  absl::Status SyncFolder(const std::string& path) override {
    const Handle folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.fd() < 0 || fsync(folder.fd()) != 0) return ErrorOf(path, errno);
    return absl::OkStatus();
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrorOf(from, errno);
  }

  absl::Status Remove(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    return error ? ErrorOf(path, error.value()) : absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      names.push_back(at->path().filename().string());
    }
    if (error) return ErrorOf(folder, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }

  absl::StatusOr<uint64_t> SizeOf(const std::string& path) override {
    std::error_code error;
    const uint64_t bytes = fs::file_size(path, error);
    if (error) return ErrorOf(path, error.value());
    return bytes;
  }

  absl::Status Read(const std::string& path, uint64_t offset, void* data, size_t bytes) override {
    const Handle file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd() < 0) return ErrorOf(path, errno);
    char* at = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t got = pread(file.fd(), at, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ErrorOf(path, errno);
      if (got == 0) {
        return absl::OutOfRangeError(absl::StrCat(path, ": it ends at byte ", offset));
      }
      at += got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Disk> RealDisk() { return std::make_unique<System>(); }

absl::StatusOr<std::string> ReadAll(Disk* disk, const std::string& path, uint64_t bytes_max) {
  SOAP_ASSIGN_OR_RETURN(const uint64_t bytes, disk->SizeOf(path));
  if (bytes > bytes_max) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, ": has ", bytes, " bytes; at most ", bytes_max, " are read"));
  }
  std::string text(bytes, '\0');
  SOAP_RETURN_IF_ERROR(disk->Read(path, 0, text.data(), text.size()));
  return text;
}

}  // namespace soapstone::checkpoint
