#include "models/safetensors_writer.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::models {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kAlignment = 8;  // of the data's first byte, as the format's own writer does

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

// What is written of a tensor, and how many bytes.
std::pair<const void*, uint64_t> ValuesOf(const NamedTensor& tensor) {
  if (!tensor.keys.empty()) return {tensor.keys.data(), tensor.keys.size() * sizeof(uint64_t)};
  return {tensor.values.data(), tensor.values.size() * sizeof(float)};
}

absl::StatusOr<std::string> MakeHeader(
    absl::Span<const NamedTensor> tensors,
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  nlohmann::ordered_json header;
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  uint64_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    uint64_t elements = 1;
    for (int64_t d : tensor.shape) elements *= static_cast<uint64_t>(d);
    if (elements != tensor.values.size() + tensor.keys.size()) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has ",
                                                     tensor.values.size() + tensor.keys.size(),
                                                     " values, not ", elements));
    }
    const uint64_t bytes = ValuesOf(tensor).second;
    header[tensor.name] = {{"dtype", tensor.keys.empty() ? "F32" : "U64"},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  return text;
}

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

bool Put(std::FILE* file, const void* data, size_t size) {
  return size == 0 || std::fwrite(data, size, 1, file) == 1;
}

}  // namespace

absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const std::vector<std::pair<std::string, std::string>>& metadata) {
  SOAP_ASSIGN_OR_RETURN(const std::string header, MakeHeader(tensors, metadata));
  const std::string temporary = absl::StrCat(path, ".tmp.", getpid());
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(temporary.c_str(), "wb"));
  if (file == nullptr) return CannotWrite(temporary);
  const uint64_t header_bytes = header.size();
  bool good = Put(file.get(), &header_bytes, sizeof(header_bytes)) &&
              Put(file.get(), header.data(), header.size());
  for (const NamedTensor& tensor : tensors) {
    const auto [values, bytes] = ValuesOf(tensor);
    good = good && Put(file.get(), values, bytes);
  }
  good = good && std::fflush(file.get()) == 0 && fsync(fileno(file.get())) == 0;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0) return absl::OkStatus();
  absl::Status status = CannotWrite(path);
  std::remove(temporary.c_str());
  return status;
}

absl::Status CheckWritable(const std::string& path) {
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory"));
  }
  if (access(directory.c_str(), W_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write to ", directory.string(), ": ", std::strerror(errno)));
}

}  // namespace soapstone::models
