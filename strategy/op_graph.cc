#include "strategy/op_graph.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/graph/graph_text.h"
#include "models/graph/step_graph.h"

namespace soapstone::planner {
namespace {

using models::DimUse;
using models::OpShapes;
using models::PartitionRule;
using models::Range;
using models::TensorId;
using models::TensorUse;

// Axis of a tensor, with the batch; the batch's stands for none.
using Axis = size_t;
constexpr Axis kNoAxis = 0;

bool IsLstm(const compute::Operator& op) { return std::holds_alternative<compute::Lstm>(op); }
bool IsLoss(const compute::Operator& op) {
  return std::holds_alternative<compute::SoftmaxCrossEntropy>(op);
}
bool IsAttention(const compute::Operator& op) {
  return std::holds_alternative<compute::MultiHeadAttention>(op) ||
         std::holds_alternative<compute::AdditiveAttention>(op);
}

bool IsAlong(const DimUse& use, int dim) { return use == DimUse{.dim = dim}; }

// The axis of a tensor that lies along a dimension, element by element.
Axis AxisAlong(const TensorUse& use, int dim) {
  for (Axis axis = 1; axis < use.size(); ++axis) {
    if (IsAlong(use[axis], dim)) return axis;
  }
  return kNoAxis;
}

bool Mentions(const TensorUse& use, int dim) {
  return std::any_of(use.begin(), use.end(), [dim](const DimUse& u) { return u.dim == dim; });
}

// Every tensor lies along the dimension on one axis, with all of its extent, or has nothing to do
// with it.
bool LiesAlong(const std::vector<TensorUse>& uses, const std::vector<compute::TensorSpec>& tensors,
               int dim, int64_t extent) {
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!Mentions(uses[i], dim)) continue;
    const Axis axis = AxisAlong(uses[i], dim);
    if (axis == kNoAxis || tensors[i].shape[axis] != extent) return false;
  }
  return true;
}

// Whether steps along the dimension are computed one by one, by the same parameters. What a rule
// lets parts do each for itself, and besides: an lstm, which hands its state on; dropout, whose
// choice does not change the work; the loss, a mean over steps.
bool WorksStepByStep(const compute::Operator& what, const OpShapes& shapes,
                     const PartitionRule& rule, int dim) {
  const models::IterationDim& steps = rule.dims[static_cast<size_t>(dim)];
  const bool alone =
      steps.kind == models::DimKind::kAttribute && steps.splittable && !steps.exchanges_statistics;
  const bool known = IsLstm(what) || IsLoss(what) || std::holds_alternative<compute::Dropout>(what);
  if (!alone && !known) return false;
  for (const TensorUse& param : rule.params) {
    if (Mentions(param, dim)) return false;
  }
  if (!LiesAlong(rule.inputs, shapes.inputs, dim, steps.extent) ||
      !LiesAlong(rule.outputs, shapes.outputs, dim, steps.extent)) {
    return false;
  }
  if (IsLstm(what) || IsLoss(what)) return true;
  return std::all_of(rule.outputs.begin(), rule.outputs.end(),
                     [dim](const TensorUse& output) { return Mentions(output, dim); });
}

// Which axis of each tensor is time: of what embeddings, lstms and attention read, and of what is
// computed from that with as many steps.
class TimeAxes {
 public:
  explicit TimeAxes(const models::Graph& graph) : axes_(graph.tensors().size(), kNoAxis) {
    for (const models::Op& op : graph.ops()) {
      for (const TensorId in : op.inputs) {
        const size_t rank = 1 + graph.tensor(in).shape.size();
        const bool tokens = std::holds_alternative<compute::Embedding>(op.what) && rank == 2;
        const bool steps = (IsLstm(op.what) || IsAttention(op.what)) && rank == 3;
        if (tokens || steps) axes_[models::Index(in)] = 1;
      }
    }
  }
  // Operators in order.
  void Pass(const models::Op& op, const OpShapes& shapes, const PartitionRule& rule) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Axis axis = of(op.inputs[i]);
      if (axis == kNoAxis) continue;
      const int dim = rule.inputs[i][axis].dim;
      if (dim < 0 || !IsAlong(rule.inputs[i][axis], dim)) continue;
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        const Axis to = AxisAlong(rule.outputs[o], dim);
        if (to == kNoAxis || shapes.outputs[o].shape[to] != shapes.inputs[i].shape[axis]) continue;
        axes_[models::Index(op.outputs[o])] = to;
      }
    }
  }
  // The dimension along which the operator can be cut into chunks.
  std::optional<int> Dimension(const models::Op& op, const OpShapes& shapes,
                               const PartitionRule& rule) const {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Axis axis = of(op.inputs[i]);
      if (axis == kNoAxis) continue;
      const int dim = rule.inputs[i][axis].dim;
      if (dim >= 0 && WorksStepByStep(op.what, shapes, rule, dim)) return dim;
    }
    return std::nullopt;
  }

 private:
  Axis of(TensorId tensor) const { return axes_[models::Index(tensor)]; }
  std::vector<Axis> axes_;
};

// Who writes a tensor: its pieces along `axis`, or the whole as one.
struct TimePiece {
  uint32_t op = 0, output = 0;
  Range steps;  // of the axis
};
struct Written {
  Axis axis = kNoAxis;
  std::vector<TimePiece> pieces;
};

class Builder {
 public:
  Builder(const models::Graph& graph, const OpGraphOptions& options)
      : graph_(graph),
        options_(options),
        times_(graph),
        wanted_(models::GradientsWanted(graph, {})) {
    plan_.model = graph.name();
    plan_.model_sha256 = models::HashOf(graph);
    plan_.batch = options.batch;
    plan_.time_chunk = options.time_chunk;
    plan_.micro_batches = options.micro_batches;
    plan_.groups.resize(graph.ops().size());
    for (const ParamSpec& param : graph.params()) {
      plan_.params.push_back(
          {.name = param.name, .shape = param.shape, .trained = param.average_rate == 0});
    }
  }

  absl::StatusOr<OpGraph> Build() && {
    for (int64_t i = 0; i < options_.micro_batches; ++i) {
      micro_batch_ = static_cast<uint32_t>(i);
      first_sample_ = i * options_.batch / options_.micro_batches;
      samples_ = (i + 1) * options_.batch / options_.micro_batches - first_sample_;
      written_.assign(graph_.tensors().size(), {});
      SOAP_RETURN_IF_ERROR(AddMicroBatch());
    }
    return std::move(plan_);
  }

 private:
  absl::Status AddMicroBatch() {
    for (uint32_t k = 0; k < graph_.ops().size(); ++k) {
      const models::Op& op = graph_.ops()[k];
      SOAP_ASSIGN_OR_RETURN(const OpShapes shapes, WholeShapes(op));
      const PartitionRule rule = models::PartitionOf(op.what, shapes);
      const std::optional<int> dim = times_.Dimension(op, shapes, rule);
      const int64_t steps = dim.has_value() ? rule.dims[static_cast<size_t>(*dim)].extent : 0;
      if (options_.time_chunk > 0 && steps > options_.time_chunk) {
        SOAP_RETURN_IF_ERROR(AddChunks(k, shapes, rule, *dim));
      } else {
        AddWhole(k, shapes, rule);
      }
      times_.Pass(op, shapes, rule);
    }
    return absl::OkStatus();
  }

  // With all samples of the micro-batch.
  absl::StatusOr<OpShapes> WholeShapes(const models::Op& op) const {
    std::vector<compute::TensorSpec> inputs;
    for (const TensorId in : op.inputs) inputs.push_back(graph_.tensor(in).spec(samples_));
    return Infer(op, op.what, inputs);
  }

  absl::StatusOr<OpShapes> Infer(const models::Op& op, const compute::Operator& what,
                                 const std::vector<compute::TensorSpec>& inputs) const {
    absl::StatusOr<OpShapes> shapes = models::InferShapes(what, inputs);
    if (shapes.ok()) return shapes;
    return absl::InvalidArgumentError(absl::StrCat(graph_.name(), " with batch ", options_.batch,
                                                   ": ", op.name, ": ", shapes.status().message()));
  }

  uint32_t AddOp(uint32_t model_op, PlanOp op) {
    const auto id = static_cast<uint32_t>(plan_.ops.size());
    op.model_op = op.group = model_op;
    op.micro_batch = micro_batch_;
    op.first_sample = first_sample_;
    if (options_.micro_batches > 1) absl::StrAppend(&op.name, "#", micro_batch_);
    plan_.groups[model_op].push_back(id);
    for (const ParamId param : graph_.ops()[model_op].params) {
      op.params.push_back(Index(param));
      plan_.params[Index(param)].ops.push_back(id);
    }
    plan_.ops.push_back(std::move(op));
    return id;
  }

  void AddWhole(uint32_t k, const OpShapes& shapes, const PartitionRule& rule) {
    const models::Op& op = graph_.ops()[k];
    const uint32_t id =
        AddOp(k, {.name = op.name, .what = op.what, .shapes = shapes, .rule = rule});
    for (uint32_t i = 0; i < op.inputs.size(); ++i) Read(op.inputs[i], kNoAxis, {}, id, i);
    for (uint32_t o = 0; o < op.outputs.size(); ++o) {
      written_[models::Index(op.outputs[o])] = {.pieces = {{.op = id, .output = o}}};
    }
  }

  // Chunks in the order of time; of a reversed lstm from the end.
  absl::Status AddChunks(uint32_t k, const OpShapes& shapes, const PartitionRule& rule, int dim) {
    const models::Op& op = graph_.ops()[k];
    const auto* lstm = std::get_if<compute::Lstm>(&op.what);
    const int64_t steps = rule.dims[static_cast<size_t>(dim)].extent;
    const int64_t chunks = (steps + options_.time_chunk - 1) / options_.time_chunk;
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      written_[models::Index(op.outputs[o])].axis = AxisAlong(rule.outputs[o], dim);
    }
    std::optional<uint32_t> before;
    for (int64_t i = 0; i < chunks; ++i) {
      const int64_t chunk = lstm != nullptr && lstm->reverse ? chunks - 1 - i : i;
      const int64_t begin = chunk * options_.time_chunk;
      const Range range = {begin, std::min(begin + options_.time_chunk, steps)};
      SOAP_ASSIGN_OR_RETURN(PlanOp part, ChunkOf(op, shapes, rule, dim, range));
      part.name = absl::StrCat(op.name, "@", chunk);
      const uint32_t id = AddOp(k, std::move(part));
      ReadChunk(op, rule, dim, range, id);
      if (lstm != nullptr) ReadState(op, before, id);
      WriteChunk(op, range, id, i + 1 == chunks);
      before = id;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<PlanOp> ChunkOf(const models::Op& op, const OpShapes& shapes,
                                 const PartitionRule& rule, int dim, const Range& range) const {
    PlanOp part = {.what = op.what};
    std::vector<compute::TensorSpec> inputs = shapes.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Axis axis = AxisAlong(rule.inputs[i], dim);
      if (axis != kNoAxis) inputs[i].shape[axis] = range.size();
    }
    if (auto* lstm = std::get_if<compute::Lstm>(&part.what)) {
      inputs.resize(3, {.shape = {samples_, lstm->hidden}});
      lstm->state = true;
    }
    if (auto* reshape = std::get_if<compute::Reshape>(&part.what)) {
      reshape->shape[AxisAlong(rule.outputs[0], dim) - 1] = range.size();
    }
    SOAP_ASSIGN_OR_RETURN(part.shapes, Infer(op, part.what, inputs));
    part.rule = models::PartitionOf(part.what, part.shapes);
    return part;
  }

  void ReadChunk(const models::Op& op, const PartitionRule& rule, int dim, const Range& range,
                 uint32_t to) {
    for (uint32_t i = 0; i < op.inputs.size(); ++i) {
      if (IsLstm(op.what) && i > 0) continue;
      Read(op.inputs[i], AxisAlong(rule.inputs[i], dim), range, to, i);
    }
  }

  // h and c: of the chunk before; of the first, what the model gives, or zeros.
  void ReadState(const models::Op& op, std::optional<uint32_t> before, uint32_t to) {
    for (uint32_t i = 1; i <= 2; ++i) {
      if (before.has_value()) {
        AddEdge({.from = *before, .to = to, .output = i, .input = i, .offset = {0, 0}});
      } else if (i < op.inputs.size()) {
        Read(op.inputs[i], kNoAxis, {}, to, i);
      }
    }
  }

  void WriteChunk(const models::Op& op, const Range& range, uint32_t id, bool last) {
    for (uint32_t o = 0; o < op.outputs.size(); ++o) {
      Written& tensor = written_[models::Index(op.outputs[o])];
      // The state after all steps is the last chunk's; of the loss each chunk has its own.
      if (tensor.axis == kNoAxis && !last) continue;
      tensor.pieces.push_back(
          {.op = id, .output = o, .steps = tensor.axis == kNoAxis ? Range{} : range});
    }
  }

  // Input `input` of `to` is the tensor, or if axis is not kNoAxis its steps `range`.
  void Read(TensorId tensor, Axis axis, const Range& range, uint32_t to, uint32_t input) {
    const Written& from = written_[models::Index(tensor)];  // no pieces: a batch's
    const std::vector<int64_t>& shape = plan_.ops[to].shapes.inputs[input].shape;
    if (from.pieces.empty()) {
      const auto field = std::find(graph_.inputs().begin(), graph_.inputs().end(), tensor);
      std::vector<int64_t> offset(shape.size(), 0);
      offset[0] = -first_sample_;
      if (axis != kNoAxis) offset[axis] = -range.begin;
      plan_.ops[to].feeds.push_back(
          {.field = static_cast<uint32_t>(field - graph_.inputs().begin()),
           .input = input,
           .offset = std::move(offset)});
    }
    for (const TimePiece& piece : from.pieces) {
      std::vector<int64_t> offset(shape.size(), 0);
      if (axis != kNoAxis) offset[axis] -= range.begin;
      if (from.axis != kNoAxis) offset[from.axis] += piece.steps.begin;
      if (axis != kNoAxis && axis == from.axis &&
          (piece.steps.end <= range.begin || piece.steps.begin >= range.end)) {
        continue;
      }
      AddEdge({.from = piece.op,
               .to = to,
               .output = piece.output,
               .input = input,
               .offset = std::move(offset),
               .gradient = wanted_[models::Index(tensor)]});
    }
  }

  void AddEdge(PlanEdge edge) {
    const auto id = static_cast<uint32_t>(plan_.edges.size());
    plan_.ops[edge.from].out.push_back(id);
    plan_.ops[edge.to].in.push_back(id);
    plan_.edges.push_back(std::move(edge));
  }

  const models::Graph& graph_;
  const OpGraphOptions options_;
  TimeAxes times_;
  const std::vector<bool> wanted_;          // by tensor: its gradient
  uint32_t micro_batch_ = 0;                // that is being added
  int64_t first_sample_ = 0, samples_ = 0;  // in it
  std::vector<Written> written_;            // by tensor, in it
  OpGraph plan_;
};

}  // namespace

std::string NameOfGroup(const OpGraph& graph, uint32_t group) {
  const std::vector<uint32_t>& ops = graph.groups[group];
  std::string name = graph.ops[ops.front()].name;
  if (graph.micro_batches > 1) name = name.substr(0, name.rfind('#'));
  if (static_cast<int64_t>(ops.size()) == graph.micro_batches) return name;
  return name.substr(0, name.rfind('@'));
}

bool HasParams(const OpGraph& graph, uint32_t group) {
  return std::any_of(graph.groups[group].begin(), graph.groups[group].end(),
                     [&](uint32_t op) { return !graph.ops[op].params.empty(); });
}

absl::StatusOr<OpGraph> MakeOpGraph(const models::Graph& graph, const OpGraphOptions& options) {
  if (options.batch < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the batch must be at least 1, not ", options.batch));
  }
  if (options.time_chunk < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a chunk of time cannot have ", options.time_chunk, " steps; 0: whole"));
  }
  if (options.micro_batches < 1 || options.micro_batches > options.batch) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", options.batch,
                                                   " cannot be cut into ", options.micro_batches,
                                                   " micro-batches"));
  }
  return Builder(graph, options).Build();
}

}  // namespace soapstone::planner
