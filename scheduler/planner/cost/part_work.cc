#include "scheduler/planner/cost/part_work.h"

#include <cmath>
#include <utility>
#include <variant>

#include "compute/op_text.h"
#include "models/ops/cost_terms.h"
#include "models/ops/part.h"

namespace soapstone::planner {
namespace {

using models::Block;
using models::OpShapes;

std::vector<int64_t> SizesOf(const models::TensorUse& use, const std::vector<int64_t>& shape,
                             const Block& part) {
  std::vector<int64_t> sizes;
  const Block block = models::BlockOf(use, shape, part);
  for (size_t i = 0; i < block.size(); ++i) sizes.push_back(block[i].size() * use[i].repeats);
  return sizes;
}

// The blocks as if they were whole tensors.
OpShapes BlocksOf(const PlanOp& op, const Block& part) {
  OpShapes blocks = op.shapes;
  for (size_t i = 0; i < blocks.inputs.size(); ++i) {
    blocks.inputs[i].shape = SizesOf(op.rule.inputs[i], op.shapes.inputs[i].shape, part);
  }
  for (size_t i = 0; i < blocks.params.size(); ++i) {
    blocks.params[i].shape = SizesOf(op.rule.params[i], op.shapes.params[i].shape, part);
  }
  for (size_t i = 0; i < blocks.outputs.size(); ++i) {
    blocks.outputs[i].shape = SizesOf(op.rule.outputs[i], op.shapes.outputs[i].shape, part);
  }
  return blocks;
}

double ShareOf(const PlanOp& op, const Block& part) {
  double share = 1;
  for (size_t d = 0; d < part.size(); ++d) {
    share *= static_cast<double>(part[d].size()) / static_cast<double>(op.rule.dims[d].extent);
  }
  return share;
}

// False: no operator does the part's work alone.
bool FillFromOperator(const PlanOp& op, const Block& part, PartWork* work, OpShapes* shapes) {
  const absl::StatusOr<models::PartOperator> made = models::PartOf(op.what, op.shapes, part);
  if (!made.ok()) return false;
  std::vector<compute::TensorSpec> inputs;
  for (const models::PartTensor& in : made->inputs) {
    inputs.push_back({.type = op.shapes.inputs[in.source].type, .shape = in.shape()});
  }
  absl::StatusOr<OpShapes> inferred = models::InferShapes(made->op, inputs);
  if (!inferred.ok()) return false;
  *shapes = *std::move(inferred);
  work->op = compute::TextOf(made->op);
  work->cost = models::CostOf(made->op, *shapes);
  return true;
}

void FillFromShare(const PlanOp& op, const Block& part, PartWork* work, OpShapes* shapes) {
  *shapes = BlocksOf(op, part);
  const models::OpCost whole = models::CostOf(op.what, op.shapes);
  const double share = ShareOf(op, part);
  const auto flops = [share](int64_t all) {
    return static_cast<int64_t>(std::llround(share * static_cast<double>(all)));
  };
  work->cost = {.forward_flops = flops(whole.forward_flops),
                .backward_flops = flops(whole.backward_flops),
                .forward_bytes = models::ForwardBytes(*shapes),
                .backward_bytes = models::BackwardBytes(*shapes, {.inputs = true})};
}

}  // namespace

int64_t BytesReadAgain(int64_t steps, int64_t weights) { return (steps - 1) * 4 * weights; }

PartWork WorkOf(const PlanOp& op, const Block& part) {
  PartWork work = {.name = std::string(compute::NameOf(op.what))};
  OpShapes shapes;
  if (!FillFromOperator(op, part, &work, &shapes)) FillFromShare(op, part, &work, &shapes);
  if (std::holds_alternative<compute::Lstm>(op.what)) {
    const int64_t steps = shapes.inputs[0].shape[1];
    const int64_t again = BytesReadAgain(steps, static_cast<int64_t>(shapes.params[1].elements()));
    work.cost.forward_bytes += again;
    work.cost.backward_bytes += again;
    work.forward_kernels = work.backward_kernels = steps;
  }
  if (!shapes.params.empty()) ++work.backward_kernels;
  for (compute::TensorSpec& input : shapes.inputs) work.inputs.push_back(std::move(input.shape));
  return work;
}

}  // namespace soapstone::planner
