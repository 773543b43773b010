#include "apps/cli/model_listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/named_model.h"
#include "apps/report/folded_rows.h"
#include "apps/report/report.h"
#include "base/status_macros.h"
#include "compute/op_text.h"
#include "models/graph/graph_text.h"
#include "models/tables/sparse_model.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

using Json = nlohmann::json;

constexpr size_t kLargestShown = 8;
constexpr int kListingIndent = 1;

std::string Gigaflops(int64_t flops) {
  return absl::StrFormat("%.*f", flops < 100'000'000 ? 4 : 2, static_cast<double>(flops) / 1e9);
}

std::string SizeColumns(const ModelSize& size) {
  return absl::StrFormat("%12s %9s %11s", WithCommas(size.parameters),
                         Gigaflops(size.flops_per_sample), Bytes(size.memory.total()));
}

Json MemoryJson(const StepMemory& memory) {
  return {{"parameters", memory.parameter_bytes}, {"gradients", memory.gradient_bytes},
          {"batch", memory.batch_bytes},          {"activations", memory.activation_bytes},
          {"optimizer", memory.optimizer_bytes},  {"total", memory.total()}};
}

Json SizeJson(const ModelSize& size) {
  return {{"model", size.model},
          {"operators", size.operators},
          {"parameters", size.parameters},
          {"flops_per_sample", size.flops_per_sample},
          {"memory_bytes", MemoryJson(size.memory)}};
}

char LetterOf(models::DimKind kind) {
  switch (kind) {
    case models::DimKind::kSample:
      return 'S';
    case models::DimKind::kAttribute:
      return 'A';
    case models::DimKind::kParameter:
      return 'P';
    case models::DimKind::kReduction:
      return 'R';
  }
  return '?';
}

uint64_t ParametersOf(const models::Graph& graph, const models::Op& op) {
  uint64_t elements = 0;
  for (ParamId id : op.params) elements += graph.param(id).elements();
  return elements;
}

StepMemory MemoryOf(const models::Graph& graph, const ListedStep& step,
                    const models::MemoryPlan& plan) {
  StepMemory memory = StepMemoryOf(graph, step.batch, plan);
  memory.optimizer_bytes = step.optimizer_floats * memory.parameter_bytes;
  return memory;
}

void AddPlan(const char* title, const StepMemory& memory, const LivePeak& peak, std::string* text) {
  absl::StrAppendFormat(
      text, "%-24s %s: parameters %s, gradients %s, batch %s, activations %s%s\n", title,
      Bytes(memory.total()), Bytes(memory.parameter_bytes), Bytes(memory.gradient_bytes),
      Bytes(memory.batch_bytes), Bytes(memory.activation_bytes),
      memory.optimizer_bytes == 0 ? ""
                                  : absl::StrCat(", optimizer ", Bytes(memory.optimizer_bytes)));
  absl::StrAppendFormat(text, "  most at %s: %s\n", peak.at, Bytes(peak.bytes));
  for (const LiveValue& value : peak.largest) {
    absl::StrAppendFormat(text, "  %12s  %s\n", Bytes(value.bytes), value.name);
  }
}

Json PeakJson(const LivePeak& peak) {
  Json largest = Json::array();
  for (const LiveValue& value : peak.largest) {
    largest.push_back({{"name", value.name}, {"bytes", value.bytes}});
  }
  return {{"at", peak.at}, {"bytes", peak.bytes}, {"largest", std::move(largest)}};
}

Json SparseJson() {
  Json models = Json::array();
  for (const models::SparseModelEntry& entry : models::SparseModels()) {
    models.push_back({{"model", entry.name},
                      {"usage", entry.usage},
                      {"data", entry.data},
                      {"tables", entry.tables}});
    const absl::StatusOr<models::Graph> graph = models::GraphOfSparseModel(entry.name);
    if (!graph.ok()) continue;
    models.back()["parameters"] = graph->parameter_count();
    models.back()["flops_per_sample"] = graph->flops_per_sample();
  }
  return models;
}

std::string Millions(int64_t number, int digits) {
  return absl::StrFormat("%.*f", digits, static_cast<double>(number) / 1e6);
}

// The columns behind the name.
std::string OperatorColumns(const std::string& kind, const std::string& output,
                            const std::string& parameters, const std::string& mflops,
                            const std::string& mb, const std::string& splits) {
  return absl::StrFormat("%-21s %-16s %11s %9s %9s  %s", kind, output, parameters, mflops, mb,
                         splits);
}

std::vector<TableRow> OperatorRows(const models::Graph& graph) {
  std::vector<TableRow> rows;
  for (const models::Op& op : graph.ops()) {
    rows.push_back(
        {op.name, OperatorColumns(std::string(compute::NameOf(op.what)),
                                  ShapeText(graph.tensor(op.outputs[0]).shape),
                                  WithCommas(ParametersOf(graph, op)),
                                  Millions(op.cost.forward_flops + op.cost.backward_flops, 2),
                                  Millions(op.cost.forward_bytes + op.cost.backward_bytes, 3),
                                  SplitsOf(graph, op))});
  }
  return rows;
}

}  // namespace

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

std::string SplitsOf(const models::Graph& graph, const models::Op& op) {
  std::vector<std::string> dims;
  for (const models::IterationDim& dim : models::PartitionOf(op.what, graph.ShapesOf(op, 2)).dims) {
    if (!dim.splittable || dim.extent < 2) continue;
    dims.push_back(absl::StrCat(dim.name, ":", std::string(1, LetterOf(dim.kind))));
  }
  return absl::StrJoin(dims, " ");
}

absl::StatusOr<ModelSize> SizeOf(const std::string& model, const ListedStep& step) {
  SOAP_ASSIGN_OR_RETURN(models::Graph graph, GraphOf(model));
  SOAP_ASSIGN_OR_RETURN(const models::StepPlan plan,
                        models::GraphRunner::PlanStep(graph, {}, step.batch));
  return ModelSize{.model = model,
                   .operators = graph.ops().size(),
                   .parameters = graph.parameter_count(),
                   .flops_per_sample = graph.flops_per_sample(),
                   .memory = MemoryOf(graph, step, plan.memory)};
}

absl::StatusOr<std::vector<ZooLine>> ListZoo(
    const ListedStep& step, const std::function<void(const std::string&, double)>& progress) {
  std::vector<ZooLine> lines;
  const std::vector<models::ZooEntry> zoo = models::Zoo();
  for (const models::ZooEntry& entry : zoo) {
    if (progress) progress(entry.name, static_cast<double>(lines.size()) / zoo.size());
    ZooLine line = {.description = entry.description};
    SOAP_ASSIGN_OR_RETURN(line.full, SizeOf(entry.name, step));
    SOAP_ASSIGN_OR_RETURN(line.tiny, SizeOf(entry.name + ":tiny", step));
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string ZooTable(const std::vector<ZooLine>& lines, int64_t batch) {
  std::string text = absl::StrFormat(
      "GFLOPs: forward and backward, of a sample. Memory: of a step of %d samples.\n\n"
      "%-15s %12s %9s %11s   %-34s\n%-15s %12s %9s %11s   %12s %9s %11s\n",
      batch, "", "", "full size", "", "             :tiny", "model", "parameters", "GFLOPs",
      "memory", "parameters", "GFLOPs", "memory");
  for (const ZooLine& line : lines) {
    absl::StrAppendFormat(&text, "%-15s %s   %s\n", line.full.model, SizeColumns(line.full),
                          SizeColumns(line.tiny));
  }
  text += "\n";
  for (const ZooLine& line : lines) {
    absl::StrAppendFormat(&text, "%-15s %s\n", line.full.model, line.description);
  }
  text += "\nOver tables of rows, whose number the data decide (docs/tables.md):\n";
  for (const models::SparseModelEntry& entry : models::SparseModels()) {
    absl::StrAppendFormat(&text, "%s\n  data     %s\n  tables   %s\n", entry.usage, entry.data,
                          entry.tables);
    const absl::StatusOr<models::Graph> graph = models::GraphOfSparseModel(entry.name);
    if (!graph.ok()) continue;
    absl::StrAppendFormat(&text, "  tensors  %s parameters, %s GFLOPs\n",
                          WithCommas(graph->parameter_count()),
                          Gigaflops(graph->flops_per_sample()));
  }
  return text;
}

std::string ZooJson(const std::vector<ZooLine>& lines, int64_t batch) {
  Json models = Json::array();
  for (const ZooLine& line : lines) {
    models.push_back({{"model", line.full.model},
                      {"description", line.description},
                      {"full", SizeJson(line.full)},
                      {"tiny", SizeJson(line.tiny)}});
  }
  const Json object = {
      {"version", 1}, {"batch", batch}, {"models", models}, {"sparse_models", SparseJson()}};
  return object.dump(kListingIndent) + "\n";
}

absl::StatusOr<ModelDetail> DetailOf(const std::string& model, const ListedStep& step) {
  SOAP_ASSIGN_OR_RETURN(models::Graph graph, GraphOf(model));
  SOAP_ASSIGN_OR_RETURN(const models::StepPlan plan,
                        models::GraphRunner::PlanStep(graph, {}, step.batch));
  SOAP_ASSIGN_OR_RETURN(const models::StepPlan again,
                        models::GraphRunner::PlanStep(graph, {.recompute = true}, step.batch));
  ModelDetail detail = {.model = model,
                        .batch = step.batch,
                        .memory = MemoryOf(graph, step, plan.memory),
                        .recomputed = MemoryOf(graph, step, again.memory),
                        .live_bytes = plan.memory.live_bytes_max,
                        .peak = LivePeakOf(graph, plan.step, kLargestShown),
                        .recomputed_peak = LivePeakOf(graph, again.step, kLargestShown)};
  detail.graph = std::move(graph);
  return detail;
}

std::string DetailTable(const ModelDetail& detail) {
  const models::Graph& graph = detail.graph;
  std::string text = absl::StrFormat(
      "%s: %d operators, %s parameters, %s GFLOPs a sample forward and backward\n", detail.model,
      graph.ops().size(), WithCommas(graph.parameter_count()), Gigaflops(graph.flops_per_sample()));
  for (models::TensorId id : graph.inputs()) {
    const models::Tensor& tensor = graph.tensor(id);
    absl::StrAppendFormat(&text, "input %s %s %s\n", tensor.name, ShapeText(tensor.shape),
                          tensor.type == models::DataType::kInt32 ? "int32" : "float32");
  }
  const std::vector<TableRow> rows = FoldRows(OperatorRows(graph));
  size_t widest = 8;
  for (const TableRow& row : rows) widest = std::max(widest, WidthOf(row.name));
  const std::string head =
      OperatorColumns("kind", "output", "parameters", "MFLOPs", "MB", "splits");
  absl::StrAppend(&text, "\n", TextOfRows({{"operator", head}}, widest), TextOfRows(rows, widest));
  text +=
      "Output, MFLOPs and MB (moved, the parameters once): of a sample, forward and backward. "
      "Splits: S sample, A attribute, P parameter, R reduction.\n\n";
  AddPlan(absl::StrFormat("A step of %d samples", detail.batch).c_str(), detail.memory, detail.peak,
          &text);
  AddPlan("With --recompute", detail.recomputed, detail.recomputed_peak, &text);
  return text;
}

std::string DetailJson(const ModelDetail& detail) {
  const models::Graph& graph = detail.graph;
  Json ops = Json::array(), inputs = Json::array();
  for (const models::Op& op : graph.ops()) {
    Json outputs = Json::array();
    for (models::TensorId out : op.outputs) outputs.push_back(graph.tensor(out).shape);
    ops.push_back({{"name", op.name},
                   {"kind", std::string(compute::NameOf(op.what))},
                   {"text", compute::TextOf(op.what)},
                   {"outputs", std::move(outputs)},
                   {"parameters", ParametersOf(graph, op)},
                   {"forward_flops", op.cost.forward_flops},
                   {"backward_flops", op.cost.backward_flops},
                   {"forward_bytes", op.cost.forward_bytes},
                   {"backward_bytes", op.cost.backward_bytes},
                   {"splits", SplitsOf(graph, op)}});
  }
  for (models::TensorId id : graph.inputs()) {
    const models::Tensor& tensor = graph.tensor(id);
    inputs.push_back({{"name", tensor.name},
                      {"shape", tensor.shape},
                      {"type", tensor.type == models::DataType::kInt32 ? "int32" : "float32"}});
  }
  const Json object = {{"version", 1},
                       {"model", detail.model},
                       {"sha256", models::HashOf(graph)},
                       {"batch", detail.batch},
                       {"parameters", graph.parameter_count()},
                       {"flops_per_sample", graph.flops_per_sample()},
                       {"inputs", std::move(inputs)},
                       {"operators", std::move(ops)},
                       {"memory_bytes", MemoryJson(detail.memory)},
                       {"live_bytes_max", detail.live_bytes},
                       {"peak", PeakJson(detail.peak)},
                       {"recompute_memory_bytes", MemoryJson(detail.recomputed)},
                       {"recompute_peak", PeakJson(detail.recomputed_peak)}};
  return object.dump(kListingIndent) + "\n";
}

}  // namespace soapstone::apps
