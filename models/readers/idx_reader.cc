#include "models/readers/idx_reader.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::models {
namespace {

constexpr uint8_t kUnsignedByte = 0x08;
constexpr size_t kMagicBytes = 4;
constexpr size_t kDimBytes = 4;

uint32_t BigEndian32(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

}  // namespace

absl::StatusOr<IdxTensor> ReadIdx(const std::string& path) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(path));
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  if (text.size() < kMagicBytes || bytes[0] != 0 || bytes[1] != 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not an IDX file (bad magic number)"));
  }
  if (bytes[2] != kUnsignedByte) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": IDX of type ", int{bytes[2]}, "; only unsigned bytes (8) are read"));
  }
  const size_t header = kMagicBytes + bytes[3] * kDimBytes;
  if (bytes[3] == 0 || text.size() < header) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": IDX header is cut off"));
  }
  const uint64_t available = text.size() - header;
  IdxTensor tensor;
  uint64_t values = 1;
  bool fits = true;
  for (size_t d = 0; d < bytes[3]; ++d) {
    const uint64_t dim = BigEndian32(bytes + kMagicBytes + d * kDimBytes);
    tensor.dims.push_back(static_cast<int64_t>(dim));
    // Checked before multiplying: `values` stays at most `available`, so this does not overflow.
    fits = fits && (dim == 0 || values <= available / dim);
    if (fits) values *= dim;
  }
  if (!fits || values != available) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": IDX header says ", absl::StrJoin(tensor.dims, "×"),
                     " bytes, but the file has ", available, " after it"));
  }
  tensor.values.assign(bytes + header, bytes + text.size());
  return tensor;
}

}  // namespace soapstone::models
