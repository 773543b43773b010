// What the fuzz targets of this folder have in common: numbers taken off the front of an input, a
// file of memory for readers that take a path, and what every error has to be.
// A target is a file NAME_fuzz.cc with LLVMFuzzerTestOneInput: a program with libFuzzer in the fuzz
// preset, an entry of corpus_test.cc in the others. It must not keep anything from one input to the
// next, and ends the process where a promise of the parser is broken.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

// By libFuzzer, or by corpus_test.cc under another name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace soapstone::fuzz {

// Takes numbers and bytes off the front; zeros and nothing where there are no more.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  template <typename T>
  T Take() {
    T value = {};
    const std::string_view bytes = Bytes(sizeof(value));
    std::memcpy(&value, bytes.data(), bytes.size());
    return value;
  }
  std::string_view Bytes(size_t size) {
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view Rest() { return Bytes(rest_.size()); }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// A file that is memory alone, for readers that take a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("fuzz", MFD_CLOEXEC)) {
    CHECK_GE(fd_, 0);
    path_ = absl::StrCat("/proc/self/fd/", fd_);
  }
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // The path of the file, which now has these bytes.
  const std::string& With(std::string_view bytes) {
    CHECK_EQ(ftruncate(fd_, 0), 0);
    CHECK_EQ(pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return path_;
  }

 private:
  int fd_;
  std::string path_;
};

// An error is for a person at a terminal: it names the file first, and whatever stands in the file,
// it is one line of bounded length.
inline void CheckError(const absl::Status& status, std::string_view file) {
  constexpr size_t kErrorMax = 20'000;
  const absl::string_view text = status.message();
  CHECK(absl::StartsWith(text, absl::string_view(file.data(), file.size()))) << text;
  CHECK_LE(text.size(), kErrorMax) << text.substr(0, 200);
  const bool clean = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) < ' ' || c == '\x7f';
  });
  CHECK(clean) << "an error of several lines, or with control characters: " << text;
}

}  // namespace soapstone::fuzz
