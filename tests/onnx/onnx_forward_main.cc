// Runs an ONNX file's graph forward with the file's own weights: what tests compare with other
// programs' outputs.
//   onnx_forward MODEL INPUT SAMPLES OUTPUT
// INPUT: the samples' one field, raw f32 or i32. OUTPUT: the logits, raw f32. Standard output: a
// line a parameter, "name shape".
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "models/formats/onnx/read_onnx.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::models {
namespace {

absl::Status Forward(const std::string& path, const std::string& input_path, int64_t samples,
                     const std::string& output_path) {
  SOAP_ASSIGN_OR_RETURN(OnnxModel model, ReadOnnx(path));
  for (const ParamSpec& param : model.graph.params()) {
    std::cout << param.name << " " << absl::StrJoin(param.shape, ",") << "\n";
  }
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<GraphRunner> replica,
                        GraphRunner::Create(model.graph));
  for (uint32_t p = 0; p < model.values.size(); ++p) {
    std::copy(model.values[p].begin(), model.values[p].end(), replica->param(ParamId{p}).begin());
  }
  std::ifstream file(input_path, std::ios::binary);
  std::stringstream stream;
  stream << file.rdbuf();
  const std::string bytes = stream.str();
  const Graph& graph = replica->graph();
  const int64_t wanted = graph.tensor(graph.input()).elements() * samples * 4;
  if (static_cast<int64_t>(bytes.size()) != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(input_path, " has ", bytes.size(), " bytes, not ", wanted));
  }
  const std::vector<int32_t> labels(
      static_cast<size_t>(graph.tensor(graph.labels()).elements() * samples));
  SOAP_RETURN_IF_ERROR(replica->Begin(samples, {bytes.data(), labels.data()}, {.training = false}));
  for (size_t op = 0; op < graph.ops().size(); ++op) replica->ForwardOp(op);
  const std::vector<float> logits = replica->logits();
  std::ofstream out(output_path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()),
            static_cast<std::streamsize>(logits.size() * sizeof(float)));
  out.flush();
  return out ? absl::OkStatus()
             : absl::UnavailableError(absl::StrCat("cannot write ", output_path));
}

}  // namespace
}  // namespace soapstone::models

int main(int argc, char** argv) {
  int64_t samples = 0;
  if (argc != 5 || !absl::SimpleAtoi(argv[3], &samples) || samples < 1) {
    std::cerr << "onnx_forward MODEL INPUT SAMPLES OUTPUT\n";
    return 78;
  }
  const absl::Status status = soapstone::models::Forward(argv[1], argv[2], samples, argv[4]);
  if (status.ok()) return 0;
  std::cerr << status.message() << "\n";
  return 78;
}
