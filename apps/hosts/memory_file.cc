#include "apps/hosts/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {

absl::StatusOr<std::unique_ptr<MemoryFile>> MemoryFile::Make(const std::string& text) {
  const auto failed = [] {
    return absl::InternalError(absl::StrCat("no memory for a file: ", std::strerror(errno)));
  };
  const int fd = memfd_create("soapstone", MFD_CLOEXEC);
  if (fd < 0) return failed();
  std::unique_ptr<MemoryFile> file(new MemoryFile(fd));
  if (fchmod(fd, S_IRUSR | S_IWUSR) != 0) return failed();
  for (size_t written = 0; written < text.size();) {
    const ssize_t n = write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno != EINTR) return failed();
    if (n > 0) written += static_cast<size_t>(n);
  }
  return file;
}

MemoryFile::~MemoryFile() { close(fd_); }

std::string MemoryFile::path() const { return absl::StrCat("/proc/self/fd/", fd_); }

}  // namespace soapstone::apps
