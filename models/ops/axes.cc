#include "models/ops/axes.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::models {

std::string AxisName(size_t axis, size_t rank) {
  const char* const images[] = {"n", "c", "h", "w"};
  const char* const sequences[] = {"n", "t", "d"};
  const char* const vectors[] = {"n", "d"};
  if (rank == 4) return images[axis];
  if (rank == 3) return sequences[axis];
  if (rank <= 2) return vectors[axis];
  return axis == 0 ? "n" : absl::StrCat("d", axis);
}

std::vector<IterationDim> DimsOf(const std::vector<int64_t>& shape) {
  std::vector<IterationDim> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    dims.push_back({.name = AxisName(i, shape.size()),
                    .kind = i == 0 ? DimKind::kSample : DimKind::kAttribute,
                    .extent = shape[i]});
  }
  return dims;
}

void Rename(IterationDim* dim, std::string name, DimKind kind) {
  dim->name = std::move(name);
  dim->kind = kind;
}

TensorUse AlongEach(size_t rank) {
  TensorUse use;
  for (size_t i = 0; i < rank; ++i) use.push_back(Along(static_cast<int>(i)));
  return use;
}

std::vector<TensorUse> Pieces(const std::vector<compute::TensorSpec>& tensors, int64_t axis) {
  std::vector<TensorUse> uses;
  int64_t before = 0;
  for (const compute::TensorSpec& tensor : tensors) {
    uses.push_back(AlongEach(tensor.shape.size()));
    uses.back()[static_cast<size_t>(axis)].offset = -before;
    before += tensor.shape[static_cast<size_t>(axis)];
  }
  return uses;
}

PartitionRule ElementwiseRule(const std::vector<int64_t>& shape, size_t inputs) {
  PartitionRule rule = {.dims = DimsOf(shape)};
  rule.inputs.assign(inputs, AlongEach(shape.size()));
  rule.outputs = {AlongEach(shape.size())};
  return rule;
}

}  // namespace soapstone::models
