#include "models/ops/part.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "glog/logging.h"
#include "models/ops/shape_checks.h"

namespace soapstone::models {
namespace {

PartTensor WholeBlock(size_t source, const Shape& shape) {
  PartTensor tensor = {.source = source};
  for (int64_t side : shape) tensor.block.push_back({0, side});
  tensor.before = tensor.after = Shape(shape.size(), 0);
  return tensor;
}

PartTensor PlainPart(size_t source, const TensorUse& use, const Shape& shape, const Block& part) {
  PartTensor tensor = WholeBlock(source, shape);
  tensor.block = BlockOf(use, shape, part);
  return tensor;
}

bool IsEmpty(const PartTensor& tensor) {
  return std::any_of(tensor.block.begin(), tensor.block.end(),
                     [](const Range& r) { return r.size() == 0; });
}

// What is to be changed of the part so far: the whole's operator on its plain blocks.
struct PartContext {
  const OpShapes& shapes;
  const PartitionRule& rule;
  const Block& part;
  PartOperator* out;

  bool IsWhole(size_t dim) const {
    return part[dim] == Range{.begin = 0, .end = rule.dims[dim].extent};
  }
};

// One axis of a part's window. The operator keeps of the padding what both sides have.
void PadAxis(const PartContext& c, size_t axis, int64_t* padding) {
  PartTensor& x = c.out->inputs[0];
  const int64_t side = c.shapes.inputs[0].shape[axis];
  if (c.IsWhole(axis)) {
    x.block[axis] = {0, side};
    return;
  }
  const Range reach = ReachOf(c.rule.inputs[0][axis], c.part[axis]);
  const int64_t before = std::clamp<int64_t>(-reach.begin, 0, reach.size());
  const int64_t after = std::clamp<int64_t>(reach.end - side, 0, reach.size());
  *padding = std::min(before, after);
  x.before[axis] = before - *padding;
  x.after[axis] = after - *padding;
}

// A sum over some of the inputs: the bias is added once, relu is of the sum.
template <class Product>
void AddUp(const PartContext& c, size_t reduction, Product* op) {
  if (c.IsWhole(reduction)) return;
  c.out->adds_up = true;
  if (op->bias && c.part[reduction].begin > 0) {
    op->bias = false;
    c.out->params.pop_back();
  }
  if (op->relu) c.out->after_sum = compute::Activation{compute::ActivationKind::kRelu};
  op->relu = false;
}

// What most operators' parts are: the same operator.
template <class Op>
absl::Status Localize(const PartContext& /*c*/, Op* /*op*/) {
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Linear* op) {
  const size_t o = c.rule.dims.size() - 2;
  op->outputs = c.part[o].size();
  AddUp(c, o + 1, op);
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Conv2d* op) {
  const int64_t group_outputs = op->channels / op->groups;
  op->channels = c.part[1].size();
  if (op->groups > 1) op->groups = op->channels / group_outputs;
  PadAxis(c, 2, &op->window.pad_h);
  PadAxis(c, 3, &op->window.pad_w);
  AddUp(c, 4, op);
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Pool* op) {
  PadAxis(c, 2, &op->window.pad_h);
  PadAxis(c, 3, &op->window.pad_w);
  if (op->kind == compute::PoolKind::kMax) {
    c.out->inputs[0].fill = -std::numeric_limits<float>::infinity();
  }
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::BatchNorm* /*op*/) {
  for (size_t i = 0; i < c.part.size(); ++i) {
    c.out->exchanges_statistics |= c.rule.dims[i].exchanges_statistics && !c.IsWhole(i);
  }
  return absl::OkStatus();
}

// Whose row it writes its caller says.
absl::Status Localize(const PartContext& c, compute::BatchMoments* op) {
  c.out->adds_up = op->rows > 1;
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Embedding* op) {
  const size_t v = c.rule.dims.size() - 1;
  op->dim = c.part[v - 1].size();
  if (c.IsWhole(v)) return absl::OkStatus();
  op->rows = c.part[v].size() + 1;
  c.out->rows = c.part[v];
  c.out->params[0].after[0] = 1;
  c.out->adds_up = true;
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Lstm* /*op*/) {
  constexpr size_t kHidden = 2;
  if (!c.IsWhole(kHidden)) {
    return absl::UnimplementedError(
        "some units of an lstm read what the others wrote: no operator");
  }
  for (size_t i = 0; i < c.shapes.params.size(); ++i) {  // the blocks are of one gate's section
    c.out->params[i] = WholeBlock(i, c.shapes.params[i].shape);
  }
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::MultiHeadAttention* op) {
  op->heads = c.part[2].size() / c.rule.dims[2].unit;
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::PairwiseDot* /*op*/) {
  constexpr size_t kProducts = 2;
  c.out->adds_up = !c.IsWhole(kProducts);
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Concat* /*op*/) {
  std::vector<PartTensor>& inputs = c.out->inputs;
  inputs.erase(std::remove_if(inputs.begin(), inputs.end(), IsEmpty), inputs.end());
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Split* op) {
  std::vector<PartTensor>& outputs = c.out->outputs;
  outputs.erase(std::remove_if(outputs.begin(), outputs.end(), IsEmpty), outputs.end());
  op->sizes.clear();
  for (const PartTensor& output : outputs) {
    op->sizes.push_back(output.block[static_cast<size_t>(op->axis)].size());
  }
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Reshape* op) {
  const Shape y = c.out->outputs[0].shape();
  op->shape.assign(y.begin() + 1, y.end());
  return absl::OkStatus();
}

absl::Status Localize(const PartContext& c, compute::Reduce* op) {
  for (int64_t axis : op->axes) {
    const auto i = static_cast<size_t>(axis);
    if (c.IsWhole(i)) continue;
    c.out->adds_up = true;
    if (op->kind == compute::ReduceKind::kMean) {
      c.out->output_scale *=
          static_cast<double>(c.part[i].size()) / static_cast<double>(c.rule.dims[i].extent);
    }
  }
  return absl::OkStatus();
}

void CheckPart(const PartitionRule& rule, const Block& part) {
  CHECK_EQ(part.size(), rule.dims.size());
  for (size_t i = 0; i < part.size(); ++i) {
    const IterationDim& dim = rule.dims[i];
    CHECK(0 <= part[i].begin && part[i].begin < part[i].end && part[i].end <= dim.extent);
    CHECK_EQ(part[i].begin % dim.unit, 0);
    CHECK(part[i].end % dim.unit == 0 || part[i].end == dim.extent);
    CHECK(dim.splittable || part[i].size() == dim.extent) << dim.name;
  }
}

// Calls visit(offset in the whole, offset in the part, elements) for each row of the block.
template <class Visit>
void ForEachRow(const PartTensor& tensor, const Shape& shape, const Visit& visit) {
  CHECK_EQ(shape.size(), tensor.block.size());
  if (IsEmpty(tensor)) return;
  if (shape.empty()) return visit(0, 0, 1);
  const Shape part_shape = tensor.shape();
  const size_t last = shape.size() - 1;
  Shape index(shape.size(), 0);  // within the block
  while (true) {
    int64_t in_whole = 0;
    int64_t in_part = 0;
    for (size_t i = 0; i <= last; ++i) {
      in_whole = in_whole * shape[i] + tensor.block[i].begin + index[i];
      in_part = in_part * part_shape[i] + tensor.before[i] + index[i];
    }
    visit(static_cast<size_t>(in_whole), static_cast<size_t>(in_part),
          static_cast<size_t>(tensor.block[last].size()));
    size_t i = last;
    while (i > 0 && ++index[i - 1] == tensor.block[i - 1].size()) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace

Shape PartTensor::shape() const {
  Shape shape;
  for (size_t i = 0; i < block.size(); ++i) {
    shape.push_back(before[i] + block[i].size() + after[i]);
  }
  return shape;
}

absl::StatusOr<PartOperator> PartOf(const compute::Operator& op, const OpShapes& shapes,
                                    const Block& part) {
  const PartitionRule rule = PartitionOf(op, shapes);
  CheckPart(rule, part);
  PartOperator out = {.op = op};
  for (size_t i = 0; i < shapes.inputs.size(); ++i) {
    out.inputs.push_back(PlainPart(i, rule.inputs[i], shapes.inputs[i].shape, part));
  }
  for (size_t i = 0; i < shapes.params.size(); ++i) {
    out.params.push_back(PlainPart(i, rule.params[i], shapes.params[i].shape, part));
  }
  for (size_t i = 0; i < shapes.outputs.size(); ++i) {
    out.outputs.push_back(PlainPart(i, rule.outputs[i], shapes.outputs[i].shape, part));
  }
  const PartContext context = {shapes, rule, part, &out};
  absl::Status status = std::visit([&](auto& o) { return Localize(context, &o); }, out.op);
  if (!status.ok()) return status;
  return out;
}

void ShiftIds(const Range& rows, absl::Span<int32_t> ids) {
  for (int32_t& id : ids) {
    const bool inside = rows.begin <= id && id < rows.end;
    id = static_cast<int32_t>(inside ? id - rows.begin : rows.size());
  }
}

void ExtractPart(const PartTensor& tensor, const Shape& shape, absl::Span<const float> whole,
                 absl::Span<float> part) {
  std::fill(part.begin(), part.end(), tensor.fill);
  ForEachRow(tensor, shape, [&](size_t in_whole, size_t in_part, size_t n) {
    CHECK(in_whole + n <= whole.size() && in_part + n <= part.size());
    std::memcpy(part.data() + in_part, whole.data() + in_whole, n * sizeof(float));
  });
}

void AddPart(const PartTensor& tensor, const Shape& shape, absl::Span<const float> part,
             absl::Span<float> whole) {
  ForEachRow(tensor, shape, [&](size_t in_whole, size_t in_part, size_t n) {
    CHECK(in_whole + n <= whole.size() && in_part + n <= part.size());
    for (size_t i = 0; i < n; ++i) whole[in_whole + i] += part[in_part + i];
  });
}

}  // namespace soapstone::models
