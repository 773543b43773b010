#include "apps/profile/cost_table.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "compute/op_text.h"
#include "models/graph/graph_text.h"
#include "scheduler/planner/cost/measured_cost.h"
#include "wire/config/text_config.h"

namespace soapstone::apps {
namespace {

// Times of operators alike.
struct Alike {
  const models::Op* op = nullptr;
  models::OpShapes shapes;
  std::vector<Nanos> forward, backward;
  std::vector<std::string> names;
  size_t steps = 0;
};

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.compare(0, 10, "model name") == 0 && colon != line.npos) return line.substr(colon + 2);
  }
  return "";
}

std::string KeyOf(const models::Op& op, const models::OpShapes& shapes) {
  std::string key = compute::TextOf(op.what);
  for (const compute::TensorSpec& input : shapes.inputs) {
    // Padded, so that the order is that of the numbers.
    absl::StrAppend(&key, " ", absl::StrJoin(input.shape, ",", [](std::string* out, int64_t side) {
      absl::StrAppend(out, absl::Dec(side, absl::kZeroPad12));
    }));
  }
  return key;
}

uint64_t MedianNs(std::vector<Nanos> times) {
  std::sort(times.begin(), times.end());
  return static_cast<uint64_t>(times[times.size() / 2]);
}

void AddShapes(const std::vector<compute::TensorSpec>& specs,
               google::protobuf::RepeatedPtrField<wire::TensorShape>* to) {
  for (const compute::TensorSpec& spec : specs) {
    wire::TensorShape* shape = to->Add();
    for (const int64_t side : spec.shape) shape->add_dims(side);
  }
}

void Fill(const Alike& alike, wire::OperatorCost* cost) {
  const models::OpCost work = models::CostOf(alike.op->what, alike.shapes);
  cost->set_op(compute::TextOf(alike.op->what));
  AddShapes(alike.shapes.inputs, cost->mutable_inputs());
  AddShapes(alike.shapes.outputs, cost->mutable_outputs());
  cost->set_forward_ns(MedianNs(alike.forward));
  cost->set_backward_ns(MedianNs(alike.backward));
  cost->set_forward_flops(static_cast<uint64_t>(work.forward_flops));
  cost->set_backward_flops(static_cast<uint64_t>(work.backward_flops));
  cost->set_forward_bytes(static_cast<uint64_t>(work.forward_bytes));
  cost->set_backward_bytes(static_cast<uint64_t>(work.backward_bytes));
  for (const ParamSpec& param : alike.shapes.params) {
    cost->set_parameters(cost->parameters() + param.elements());
  }
  cost->set_repeats(static_cast<uint32_t>(alike.steps));
  for (const std::string& name : alike.names) cost->add_names(name);
}

}  // namespace

wire::CostTable MakeCostTable(const models::Graph& graph, const CostOrigin& origin,
                              const std::vector<StepProfile>& profiles) {
  std::map<std::string, Alike> all;
  for (const StepProfile& profile : profiles) {
    for (size_t k = 0; k < graph.ops().size(); ++k) {
      const models::Op& op = graph.ops()[k];
      models::OpShapes shapes = graph.ShapesOf(op, profile.samples);
      Alike& alike = all[KeyOf(op, shapes)];
      alike.op = &op;
      alike.shapes = std::move(shapes);
      alike.forward.push_back(profile.forward[k]);
      alike.backward.push_back(profile.backward[k]);
      alike.names.push_back(op.name);
      alike.steps += profile.steps;
    }
  }
  wire::CostTable table;
  table.set_version(planner::kCostVersion);
  table.set_model(origin.model);
  table.set_model_sha256(models::HashOf(graph));
  table.set_processor(ProcessorName());
  table.set_backend("cpu");
  table.set_threads(static_cast<uint32_t>(origin.threads));
  table.set_precision(origin.precision);
  table.set_flops_per_second(static_cast<uint64_t>(std::llround(origin.roofline.gflops * 1e9)));
  table.set_bytes_per_second(static_cast<uint64_t>(std::llround(origin.roofline.gbps * 1e9)));
  for (const auto& [key, alike] : all) Fill(alike, table.add_operators());
  return table;
}

absl::Status WriteCostTable(const std::string& path, const wire::CostTable& table) {
  return WriteWholeFile(
      path,
      absl::StrCat(
          "# Operators of one model, measured by `soapstone profile --costs` (docs/models.md).\n",
          wire::TextOf(table)));
}

absl::StatusOr<wire::CostTable> ReadCostTable(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(), absl::StrCat("cost table ", text.status().message()));
  }
  return planner::ParseCostTable(*text, path);
}

}  // namespace soapstone::apps
