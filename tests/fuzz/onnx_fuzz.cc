// ONNX files (models/formats/onnx/read_onnx.h). Input: the file. What was read is a graph whose
// parameters have as many values as their shapes say.
#include "models/formats/onnx/read_onnx.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<soapstone::models::OnnxModel> model =
      soapstone::models::OnnxFromBytes({reinterpret_cast<const char*>(data), size}, "model.onnx");
  if (!model.ok()) {
    soapstone::fuzz::CheckError(model.status(), "model.onnx: ");
    return 0;
  }
  CHECK_EQ(model->values.size(), model->graph.params().size());
  for (size_t i = 0; i < model->values.size(); ++i) {
    CHECK_EQ(model->values[i].size(), model->graph.params()[i].elements());
  }
  CHECK_GE(model->graph.flops_per_sample(), 0);
  return 0;
}
