#include "models/readers/gzip_reader.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/files/whole_file.h"

namespace soapstone::models {
namespace {

constexpr size_t kChunkBytes = size_t{1}
                               << 16;  // of the heap: a block of its own is dear for a small file

struct GzClose {
  void operator()(gzFile file) const { gzclose_r(file); }
};

}  // namespace

absl::StatusOr<std::string> ReadMaybeGzip(const std::string& path, size_t bytes_max) {
  const absl::Status is_file = CheckIsFile(path);
  if (!is_file.ok()) return is_file;
  errno = 0;
  const std::unique_ptr<gzFile_s, GzClose> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return errno == 0 ? absl::ResourceExhaustedError(absl::StrCat(path, ": out of memory"))
                      : absl::ErrnoToStatus(errno, path);
  }
  std::string bytes;
  const auto chunk = std::make_unique_for_overwrite<char[]>(kChunkBytes);
  while (true) {
    const int got = gzread(file.get(), chunk.get(), static_cast<unsigned>(kChunkBytes));
    int code = Z_OK;
    const char* message = gzerror(file.get(), &code);
    if (code == Z_ERRNO) return absl::ErrnoToStatus(errno, path);
    if (code == Z_BUF_ERROR) return absl::DataLossError(absl::StrCat(path, ": gzip is cut off"));
    if (got < 0 || code < 0) {
      return absl::DataLossError(absl::StrCat(path, ": gzip is corrupt: ", message));
    }
    if (got == 0) return bytes;
    if (static_cast<size_t>(got) > bytes_max - bytes.size()) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": more than ", bytes_max, " bytes unpacked"));
    }
    bytes.append(chunk.get(), static_cast<size_t>(got));
  }
}

}  // namespace soapstone::models
