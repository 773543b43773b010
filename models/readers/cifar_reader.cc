#include "models/readers/cifar_reader.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/readers/gzip_reader.h"

namespace soapstone::models {
namespace {

constexpr size_t kCifarImageBytes = kCifarChannels * kCifarSide * kCifarSide;

}  // namespace

absl::Status ReadCifar(const std::string& path, CifarKind kind, CifarImages* images) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadMaybeGzip(path));
  const size_t label_bytes = kind == CifarKind::k10 ? 1 : 2;
  const size_t record_bytes = label_bytes + kCifarImageBytes;
  const size_t records = text.size() / record_bytes;
  const size_t left = text.size() % record_bytes;
  if (left != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": record ", records + 1, " is cut off: it has ", left,
                     " bytes; records of CIFAR-", CifarClasses(kind), " have ", record_bytes));
  }
  if (records == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": no records"));
  const auto* record = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t r = 0; r < records; ++r, record += record_bytes) {
    const uint8_t label = record[label_bytes - 1];
    if (label >= CifarClasses(kind)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": record ", r + 1, ": label ", int{label}, " is not below ", CifarClasses(kind)));
    }
    images->labels.push_back(label);
    images->values.insert(images->values.end(), record + label_bytes, record + record_bytes);
  }
  return absl::OkStatus();
}

}  // namespace soapstone::models
