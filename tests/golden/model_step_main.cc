// model_step: one training step of a model of the zoo, with all that goes in and all that comes out
// in one safetensors file, for other implementations to compare with (torch_test.py). Everything is
// a function of the model, the number of samples and the seed.
#include <CLI/CLI.hpp>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "compute/init.h"
#include "compute/reference/backend.h"
#include "models/formats/safetensors_writer.h"
#include "models/runtime/graph_runner.h"
#include "models/zoo/zoo.h"

namespace soapstone::golden {
namespace {

using models::Graph;
using models::GraphRunner;
using models::Op;

struct Flags {
  std::string model, out, backend = "cpu";
  int64_t samples = 2;
  uint64_t seed = 1;
  int threads = 1;
  std::vector<int64_t> image;
  std::pair<std::string, double> gain = {"", 1};
  std::pair<std::string, double> shift = {"", 0};
};

// Values and ids of one input; both are written, 4 bytes an element to the step and ids as 8 bytes
// to the file.
struct Field {
  std::string name;
  std::vector<int64_t> shape;  // [N, ..]
  std::vector<float> values;
  std::vector<int32_t> ids;
  std::vector<uint64_t> keys;
};

// How many ids an input may take: the rows of the embedding that reads it, the classes of labels.
uint64_t IdsOf(const Graph& graph, models::TensorId input) {
  for (const Op& op : graph.ops()) {
    const auto* embedding = std::get_if<compute::Embedding>(&op.what);
    if (embedding != nullptr && op.inputs[0] == input) return embedding->rows;
  }
  return graph.classes();
}

// Normal values, ids uniform; of labels of many places a sample one in eight is absent (−1).
std::vector<Field> RandomFields(const Graph& graph, const Flags& flags) {
  std::vector<Field> fields;
  for (models::TensorId id : graph.inputs()) {
    const models::Tensor& tensor = graph.tensor(id);
    const CounterRandom random(flags.seed, RandomUse::kTest, fields.size());
    const uint64_t ids = IdsOf(graph, id);
    const bool absent = id == graph.labels() && !tensor.shape.empty();
    Field field = {.name = tensor.name, .shape = tensor.spec(flags.samples).shape};
    const auto n = static_cast<uint64_t>(flags.samples * tensor.elements());
    for (uint64_t i = 0; i < n; ++i) {
      if (tensor.type == compute::DataType::kFloat32) {
        field.values.push_back(static_cast<float>(random.Normal(i)));
        continue;
      }
      const bool none = absent && random.Below(n + i, 8) == 0;
      field.ids.push_back(none ? -1 : static_cast<int32_t>(random.Below(i, ids)));
      field.keys.push_back(static_cast<uint64_t>(static_cast<int64_t>(field.ids.back())));
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

// The model's own initial values, times the gain where the name begins as it says, plus the shift
// where it ends so. What would start at 0 or 1 is moved from it, so that what reads it wrongly is
// seen.
void SetParameters(const Flags& flags, GraphRunner* replica) {
  const std::vector<ParamSpec>& params = replica->graph().params();
  for (uint32_t p = 0; p < params.size(); ++p) {
    const absl::Span<float> values = replica->param(ParamId{p});
    compute::InitSlice(params[p], flags.seed, ParamId{p}, 0, values);
    if (params[p].name.rfind(flags.gain.first, 0) == 0) {
      for (float& value : values) value *= static_cast<float>(flags.gain.second);
    }
    if (absl::EndsWith(params[p].name, flags.shift.first)) {
      for (float& value : values) value += static_cast<float>(flags.shift.second);
    }
    if (params[p].init != InitKind::kZero && params[p].init != InitKind::kOne) continue;
    const CounterRandom random(flags.seed, RandomUse::kTest, 1000 + p);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += static_cast<float>(0.1 * random.Normal(i));
    }
  }
}

bool EndsInRelu(const compute::Operator& what) {
  return std::visit(
      [](const auto& op) {
        if constexpr (requires { op.relu; }) return op.relu;
        return false;
      },
      what);
}

// The tensors that tell how the step decided at each kink: a ReLU's output is positive where it let
// through, a maximum's input holds the chosen element.
std::vector<bool> Deciding(const Graph& graph) {
  std::vector<bool> deciding(graph.tensors().size());
  for (const Op& op : graph.ops()) {
    if (EndsInRelu(op.what)) deciding[Index(op.outputs[0])] = true;
    const auto* pool = std::get_if<compute::Pool>(&op.what);
    if (pool != nullptr && pool->kind == compute::PoolKind::kMax) {
      deciding[Index(op.inputs[0])] = true;
    }
  }
  return deciding;
}

struct StepResult {
  std::vector<std::vector<float>> gradients;  // by parameter
  std::vector<std::vector<float>> deciding;   // by tensor; empty but for those
  std::vector<float> logits, sums;            // sums: loss, hits
};

// All operators forward, then backward. result: its gradients have their sizes
absl::Status RunStep(const Flags& flags, const std::vector<Field>& fields, GraphRunner* replica,
                     StepResult* result) {
  std::vector<const void*> data;
  for (const Field& field : fields) {
    data.push_back(field.ids.empty() ? static_cast<const void*>(field.values.data())
                                     : field.ids.data());
  }
  SOAP_RETURN_IF_ERROR(replica->Begin(flags.samples, data));
  const std::vector<Op>& ops = replica->graph().ops();
  const std::vector<bool> deciding = Deciding(replica->graph());
  result->deciding.resize(deciding.size());
  for (size_t op = 0; op < ops.size(); ++op) {
    replica->ForwardOp(op);
    const size_t output = Index(ops[op].outputs[0]);
    if (deciding[output]) result->deciding[output] = replica->output();
  }
  result->logits = replica->logits();
  result->sums = {static_cast<float>(replica->loss_sum()), static_cast<float>(replica->correct())};
  for (size_t op = ops.size(); op-- > 0;) {
    std::vector<absl::Span<float>> to;
    for (ParamId p : ops[op].params) to.push_back(absl::MakeSpan(result->gradients[Index(p)]));
    replica->BackwardOp(op, to);
  }
  return absl::OkStatus();
}

absl::Status WriteStep(const Flags& flags) {
  SOAP_ASSIGN_OR_RETURN(Graph graph, models::BuildModel(flags.model, {.image = flags.image}));
  models::ReplicaOptions options;
  options.backend = flags.backend == "reference"
                        ? std::shared_ptr<compute::Backend>(compute::MakeReferenceBackend())
                        : compute::MakeCpuBackend({.threads = flags.threads});
  SOAP_ASSIGN_OR_RETURN(auto replica, GraphRunner::Create(std::move(graph), options));
  SetParameters(flags, replica.get());
  const std::vector<Field> fields = RandomFields(replica->graph(), flags);
  const std::vector<ParamSpec>& params = replica->graph().params();
  StepResult result;
  for (const ParamSpec& spec : params) result.gradients.emplace_back(spec.elements());
  SOAP_RETURN_IF_ERROR(RunStep(flags, fields, replica.get(), &result));

  std::vector<models::NamedTensor> tensors;
  for (const Field& f : fields) {
    if (f.ids.empty()) continue;
    tensors.push_back({.name = "input." + f.name, .shape = f.shape, .keys = f.keys});
  }
  for (const Field& f : fields) {
    if (!f.ids.empty()) continue;
    tensors.push_back({.name = "input." + f.name, .shape = f.shape, .values = f.values});
  }
  const models::Tensor& last = replica->graph().tensor(replica->graph().logits());
  const absl::Span<const float> sums = result.sums;
  tensors.push_back({"logits", last.spec(flags.samples).shape, result.logits});
  tensors.push_back({"loss", {1}, sums.subspan(0, 1)});
  tensors.push_back({"correct", {1}, sums.subspan(1, 1)});
  for (size_t p = 0; p < params.size(); ++p) {
    tensors.push_back({params[p].name, params[p].shape, replica->param(ParamId(p))});
    tensors.push_back({"grad." + params[p].name, params[p].shape, result.gradients[p]});
  }
  for (size_t t = 0; t < result.deciding.size(); ++t) {
    if (result.deciding[t].empty()) continue;
    const models::Tensor& tensor = replica->graph().tensors()[t];
    tensors.push_back(
        {"output." + tensor.name, tensor.spec(flags.samples).shape, result.deciding[t]});
  }
  return models::WriteSafetensors(flags.out, tensors,
                                  {{"model", flags.model}, {"backend", flags.backend}});
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("One training step of a model, written as safetensors");
  app.add_option("--model", flags.model, "As in a job: resnet50:tiny")->required();
  app.add_option("--out", flags.out, "The file to write")->required();
  app.add_option("--samples", flags.samples)->check(CLI::Range(1, 1 << 20));
  app.add_option("--seed", flags.seed, "Of parameters and inputs");
  app.add_option("--backend", flags.backend)->check(CLI::IsMember({"cpu", "reference"}));
  app.add_option("--threads", flags.threads)->check(CLI::Range(1, 1024));
  app.add_option("--image", flags.image, "C,H,W; default: the model's")
      ->delimiter(',')
      ->expected(3);
  app.add_option("--gain", flags.gain, "PREFIX,FACTOR: of initial values")->delimiter(',');
  app.add_option("--shift", flags.shift, "SUFFIX,TERM: to initial values")->delimiter(',');
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  const absl::Status status = WriteStep(flags);
  if (!status.ok()) std::cerr << "model_step: " << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace soapstone::golden

// NOLINTNEXTLINE(bugprone-exception-escape): CLI11's errors are caught, and others end the program.
int main(int argc, char** argv) { return soapstone::golden::Main(argc, argv); }
