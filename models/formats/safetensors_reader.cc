#include "models/formats/safetensors_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/formats/half_float.h"

namespace soapstone::models {
namespace {

constexpr uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit
constexpr size_t kTensorNameMax = 200;             // in messages
constexpr size_t kRankMax = 64;

// A file's text, fit for a message of one line.
std::string Shown(const std::string& text) {
  return absl::Utf8SafeCHexEscape(text.substr(0, kTensorNameMax));
}

template <class... Args>
absl::Status BadFile(const std::string& path, const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", args...));
}

// Bytes of an element; 0 for types that are unknown, which have any.
uint64_t ElementBytes(const std::string& type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  if (type == "I8" || type == "U8" || type == "BOOL") return 1;
  return 0;
}

// A list of integers of 63 bits; false if it is none.
bool TakeNumbers(const nlohmann::json& list, std::vector<int64_t>* out) {
  if (!list.is_array()) return false;
  for (const nlohmann::json& item : list) {
    if (!item.is_number_unsigned() || item.get<uint64_t>() > uint64_t{INT64_MAX}) return false;
    out->push_back(static_cast<int64_t>(item.get<uint64_t>()));
  }
  return true;
}

// Takes one entry of the header, with offsets among `data_bytes` bytes of data.
absl::Status TakeEntry(const std::string& path, const nlohmann::json& entry, uint64_t data_bytes,
                       StoredTensor* tensor) {
  const std::string name = Shown(tensor->name);
  std::vector<int64_t> offsets;
  const bool whole = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                     entry.contains("shape") && TakeNumbers(entry["shape"], &tensor->shape) &&
                     entry.contains("data_offsets") &&
                     TakeNumbers(entry["data_offsets"], &offsets) && offsets.size() == 2;
  if (!whole) {
    return BadFile(path, "tensor '", name, "' lacks its dtype, shape and two data_offsets");
  }
  if (tensor->shape.size() > kRankMax) {
    return BadFile(path, "tensor '", name, "' has ", tensor->shape.size(), " dimensions; at most ",
                   kRankMax, " can be");
  }
  tensor->type = entry["dtype"].get<std::string>();
  tensor->begin = static_cast<uint64_t>(offsets[0]);
  tensor->end = static_cast<uint64_t>(offsets[1]);
  if (tensor->begin > tensor->end || tensor->end > data_bytes) {
    return BadFile(path, "tensor '", name, "' lies in bytes ", tensor->begin, " to ", tensor->end,
                   " of the data, of which the file has ", data_bytes, ": was it cut short?");
  }
  uint64_t elements = 1;
  for (int64_t d : tensor->shape) {
    if (d > 0 && elements > (uint64_t{1} << 48) / static_cast<uint64_t>(d)) elements = UINT64_MAX;
    if (elements != UINT64_MAX) elements *= static_cast<uint64_t>(d);
  }
  const uint64_t item = ElementBytes(tensor->type);
  if (item == 0 ||
      (elements <= uint64_t{1} << 48 && elements * item == tensor->end - tensor->begin)) {
    return absl::OkStatus();
  }
  return BadFile(path, "tensor '", name, "' of shape [", absl::StrJoin(tensor->shape, ", "),
                 "] and ", tensor->type, " has ", tensor->end - tensor->begin, " bytes");
}

absl::Status CheckPlaces(const std::string& path, const std::vector<StoredTensor>& tensors,
                         uint64_t data_bytes) {
  uint64_t at = 0;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != at) {
      return BadFile(path, "tensor '", Shown(tensor.name), "' begins at byte ", tensor.begin,
                     " of the data, ", tensor.begin < at ? "inside" : "behind",
                     " the end of the one before, ", at);
    }
    at = tensor.end;
  }
  if (at == data_bytes) return absl::OkStatus();
  return BadFile(path, "its tensors end at byte ", at, " of the data, of which it has ",
                 data_bytes);
}

absl::StatusOr<std::string> ReadHeaderText(const std::string& path, uint64_t* data_bytes) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  uint64_t header_bytes = 0;
  if (size < sizeof(header_bytes) ||
      !file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes))) {
    return BadFile(path, "no safetensors file: it has ", size, " bytes");
  }
  if (header_bytes > kHeaderBytesMax || header_bytes > size - sizeof(header_bytes)) {
    return BadFile(path, "no safetensors file, or cut short: it says that its header has ",
                   header_bytes, " bytes; the file has ", size);
  }
  std::string text(header_bytes, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(header_bytes))) {
    return BadFile(path, "cannot be read: ", std::strerror(errno));
  }
  *data_bytes = size - sizeof(header_bytes) - header_bytes;
  return text;
}

absl::StatusOr<nlohmann::json> HeaderOf(const std::string& path, const std::string& text) {
  nlohmann::json header = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (header.is_object()) return header;
  return BadFile(path, "no safetensors file: its header is no JSON object");
}

// The bytes of a tensor.
absl::Status ReadBytes(const std::string& path, const StoredTensor& tensor, void* to) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(tensor.begin));
  const auto bytes = static_cast<std::streamsize>(tensor.end - tensor.begin);
  if (file && file.read(static_cast<char*>(to), bytes)) return absl::OkStatus();
  return BadFile(path, "tensor '", Shown(tensor.name), "' cannot be read: ", std::strerror(errno));
}

}  // namespace

absl::StatusOr<std::vector<StoredTensor>> ReadSafetensorsHeader(const std::string& path) {
  uint64_t data_bytes = 0;
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(path, &data_bytes));
  SOAP_ASSIGN_OR_RETURN(const nlohmann::json header, HeaderOf(path, text));
  std::vector<StoredTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    StoredTensor tensor = {.name = name};
    SOAP_RETURN_IF_ERROR(TakeEntry(path, entry, data_bytes, &tensor));
    tensors.push_back(std::move(tensor));
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  SOAP_RETURN_IF_ERROR(CheckPlaces(path, tensors, data_bytes));
  const uint64_t data = sizeof(uint64_t) + text.size();
  for (StoredTensor& tensor : tensors) {
    tensor.begin += data;
    tensor.end += data;
  }
  return tensors;
}

absl::StatusOr<std::map<std::string, std::string>> ReadSafetensorsMetadata(
    const std::string& path) {
  uint64_t data_bytes = 0;
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(path, &data_bytes));
  SOAP_ASSIGN_OR_RETURN(const nlohmann::json header, HeaderOf(path, text));
  std::map<std::string, std::string> metadata;
  const auto said = header.find("__metadata__");
  if (said == header.end() || !said->is_object()) return metadata;
  for (const auto& [name, value] : said->items()) {
    if (value.is_string()) metadata[name] = value.get<std::string>();
  }
  return metadata;
}

bool IsFloatType(const std::string& type) {
  return type == "F32" || type == "F16" || type == "BF16";
}

absl::StatusOr<std::vector<float>> ReadFloats(const std::string& path, const StoredTensor& tensor) {
  if (!IsFloatType(tensor.type)) {
    return BadFile(path, "tensor '", Shown(tensor.name), "' is ", Shown(tensor.type),
                   "; F32, F16 and BF16 can be read");
  }
  const uint64_t bytes = tensor.end - tensor.begin;
  std::vector<float> values(bytes / ElementBytes(tensor.type));
  std::vector<uint16_t> halves(tensor.type == "F32" ? 0 : values.size());
  void* to = values.data();
  if (!halves.empty()) to = halves.data();
  SOAP_RETURN_IF_ERROR(ReadBytes(path, tensor, to));
  const bool brain = tensor.type == "BF16";
  for (size_t i = 0; i < halves.size(); ++i) {
    values[i] = brain ? FloatOfBfloat16(halves[i]) : FloatOfHalf(halves[i]);
  }
  return values;
}

absl::StatusOr<std::vector<uint64_t>> ReadKeys(const std::string& path,
                                               const StoredTensor& tensor) {
  if (tensor.type != "U64") {
    return BadFile(path, "tensor '", Shown(tensor.name), "' is ", Shown(tensor.type),
                   "; keys are U64");
  }
  std::vector<uint64_t> keys((tensor.end - tensor.begin) / sizeof(uint64_t));
  SOAP_RETURN_IF_ERROR(ReadBytes(path, tensor, keys.data()));
  return keys;
}

}  // namespace soapstone::models
