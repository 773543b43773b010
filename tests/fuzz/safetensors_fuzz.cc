// safetensors files (models/formats/safetensors_reader.h, models/formats/weights.h). Input: the
// file.
#include "models/formats/safetensors_reader.h"
#include "models/formats/weights.h"
#include "models/zoo/zoo.h"
#include "tests/fuzz/fuzz_input.h"

namespace soapstone::fuzz {
namespace {

void ReadAll(std::string_view bytes) {
  MemoryFile file;
  const std::string& path = file.With(bytes);
  const absl::StatusOr<std::vector<models::StoredTensor>> tensors =
      models::ReadSafetensorsHeader(path);
  if (!tensors.ok()) return CheckError(tensors.status(), path);
  for (const models::StoredTensor& tensor : *tensors) {
    CHECK_LE(tensor.begin, tensor.end);
    CHECK_LE(tensor.end, bytes.size());
    const absl::StatusOr<std::vector<float>> values = models::ReadFloats(path, tensor);
    if (!values.ok()) CheckError(values.status(), path);
  }
  static const auto* graph = new models::Graph(
      *models::BuildModel("softmax", models::ModelInput{.image = {1, 1, 4}, .classes = 2}));
  const auto weights = models::LoadWeights(path, *graph);
  if (!weights.ok()) CheckError(weights.status(), path);
}

}  // namespace
}  // namespace soapstone::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  soapstone::fuzz::ReadAll({reinterpret_cast<const char*>(data), size});
  return 0;
}
