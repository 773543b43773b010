#include "models/formats/onnx/read_onnx.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/sha256.h"
#include "base/status_macros.h"
#include "models/formats/onnx/importer.h"
#include "models/formats/onnx/onnx_file.h"

namespace soapstone::models {
namespace {

constexpr uint64_t kFileBytesMax = (uint64_t{1} << 31) - 1;  // protobuf's own limit

absl::StatusOr<OnnxModel> Import(absl::string_view bytes, const std::string& name) {
  SOAP_ASSIGN_OR_RETURN(const OnnxFile file, ParseOnnx(bytes));
  if (file.opset == 0 || (file.nodes.empty() && file.outputs.empty())) {
    return Refuse("no ONNX file, or a part of one: it names no ",
                  file.opset == 0 ? "operator set" : "operators");
  }
  Importer importer(file, name);
  SOAP_RETURN_IF_ERROR(importer.Run());
  SOAP_ASSIGN_OR_RETURN(Graph graph, importer.Build());
  Sha256 digest;
  digest.Update(bytes.data(), bytes.size());
  return OnnxModel{std::move(graph), importer.TakeValues(), digest.HexDigest()};
}

}  // namespace

absl::StatusOr<OnnxModel> OnnxFromBytes(absl::string_view bytes, const std::string& name) {
  absl::StatusOr<OnnxModel> model = Import(bytes, "onnx");
  if (model.ok()) return model;
  return absl::Status(model.status().code(), absl::StrCat(name, ": ", model.status().message()));
}

absl::StatusOr<OnnxModel> ReadOnnx(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return absl::NotFoundError(absl::StrCat(path, ": ", error.message()));
  if (size > kFileBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", size, " bytes; an ONNX file has at most ", kFileBytesMax));
  }
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file || !file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  return OnnxFromBytes(bytes, path);
}

}  // namespace soapstone::models
