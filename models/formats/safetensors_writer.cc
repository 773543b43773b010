#include "models/formats/safetensors_writer.h"

#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::models {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr size_t kDataAlignment = 8;  // of the data's first byte, as the format's own writer does
constexpr uint64_t kSyncEvery = uint64_t{64} << 20;

std::string MakeHeader(const std::vector<TensorOutline>& tensors, const Metadata& metadata) {
  nlohmann::ordered_json header;
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  uint64_t offset = 0;
  for (const TensorOutline& tensor : tensors) {
    const uint64_t bytes = tensor.bytes();
    header[tensor.name] = {{"dtype", tensor.keys ? "U64" : "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  // What is no UTF-8 is no JSON: a word of a text, say.
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment, ' ');
  return text;
}

// What a link leads to: the link itself is not to be replaced.
std::string BehindLinks(std::string path) {
  constexpr int kLinksMax = 16;
  std::error_code error;
  for (int links = 0; links < kLinksMax && std::filesystem::is_symlink(path, error); ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = (std::filesystem::path(path).parent_path() / target).string();
  }
  return path;
}

bool Put(std::FILE* file, const void* data, size_t size) {
  return size == 0 || std::fwrite(data, size, 1, file) == 1;
}

bool PutHeader(std::FILE* file, const std::string& header) {
  const uint64_t header_bytes = header.size();
  return Put(file, &header_bytes, sizeof(header_bytes)) && Put(file, header.data(), header.size());
}

}  // namespace

uint64_t TensorOutline::bytes() const {
  uint64_t elements = 1;
  for (const int64_t d : shape) elements *= static_cast<uint64_t>(d);
  return elements * (keys ? sizeof(uint64_t) : sizeof(float));
}

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<TensorOutline> tensors)
    : path_(BehindLinks(std::move(path))),
      temporary_(absl::StrCat(path_, ".tmp.", getpid())),
      tensors_(std::move(tensors)),
      file_(std::fopen(temporary_.c_str(), "wb")) {
  for (const TensorOutline& tensor : tensors_) left_ += tensor.bytes();
}

SafetensorsWriter::~SafetensorsWriter() {
  if (file_ == nullptr) return;
  file_.reset();
  std::remove(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, std::vector<TensorOutline> tensors, const Metadata& metadata) {
  std::unique_ptr<SafetensorsWriter> writer(new SafetensorsWriter(path, std::move(tensors)));
  if (writer->file_ == nullptr) return writer->CannotWrite();
  const std::string header = MakeHeader(writer->tensors_, metadata);
  writer->header_bytes_ = header.size();
  if (!PutHeader(writer->file_.get(), header)) return writer->CannotWrite();
  return writer;
}

absl::Status SafetensorsWriter::CannotWrite() const {
  return absl::UnavailableError(absl::StrCat("cannot write ", path_, ": ", std::strerror(errno)));
}

absl::Status SafetensorsWriter::Sync() {
  unsynced_ = 0;
  const bool good = std::fflush(file_.get()) == 0 && fsync(fileno(file_.get())) == 0;
  return good ? absl::OkStatus() : CannotWrite();
}

absl::Status SafetensorsWriter::Append(const void* data, uint64_t bytes) {
  if (bytes > left_) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": ", bytes - left_, " bytes more than the tensors have"));
  }
  if (!Put(file_.get(), data, bytes)) return CannotWrite();
  left_ -= bytes;
  unsynced_ += bytes;
  return unsynced_ < kSyncEvery ? absl::OkStatus() : Sync();
}

absl::Status SafetensorsWriter::Finish(const Metadata& metadata) {
  const std::string header = MakeHeader(tensors_, metadata);
  if (left_ > 0 || header.size() != header_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(path_, ": ", left_, " bytes are missing, and ",
                                                   header.size(), " bytes of header are to be ",
                                                   header_bytes_));
  }
  if (std::fseek(file_.get(), 0, SEEK_SET) != 0 || !PutHeader(file_.get(), header)) {
    return CannotWrite();
  }
  SOAP_RETURN_IF_ERROR(Sync());
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) return CannotWrite();
  file_.reset();
  return absl::OkStatus();
}

absl::Status WriteSafetensors(const std::string& path, absl::Span<const NamedTensor> tensors,
                              const Metadata& metadata) {
  std::vector<TensorOutline> outlines;
  for (const NamedTensor& tensor : tensors) {
    uint64_t elements = 1;
    for (const int64_t d : tensor.shape) elements *= static_cast<uint64_t>(d);
    const uint64_t given = tensor.values.size() + tensor.keys.size();
    if (elements != given) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensor.name, " has ", given, " values, not ", elements));
    }
    outlines.push_back({tensor.name, tensor.shape, !tensor.keys.empty()});
  }
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                        SafetensorsWriter::Create(path, std::move(outlines), metadata));
  for (const NamedTensor& tensor : tensors) {
    SOAP_RETURN_IF_ERROR(writer->Append(tensor.keys.data(), tensor.keys.size() * sizeof(uint64_t)));
    SOAP_RETURN_IF_ERROR(
        writer->Append(tensor.values.data(), tensor.values.size() * sizeof(float)));
  }
  return writer->Finish(metadata);
}

absl::Status CheckWritable(const std::string& path) {
  std::filesystem::path directory = std::filesystem::path(path).parent_path();
  if (directory.empty()) directory = ".";
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory"));
  }
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no regular file; leave the flag out where nothing is to be kept"));
  }
  // Of a file "." is an error.
  if (access((directory / ".").c_str(), W_OK) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("cannot write to ", directory.string(), ": ", std::strerror(errno)));
}

}  // namespace soapstone::models
