#include "compute/cuda/strided_index.h"

#include "absl/strings/str_cat.h"

namespace soapstone::compute {

std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

void AddDimension(int64_t size, int64_t stride, StridedIndex* index) {
  index->size[index->dims] = size;
  index->stride[index->dims] = stride;
  ++index->dims;
}

absl::Status CheckDims(const KernelRequest& r) {
  if (r.inputs[0].spec.shape.size() <= kDimsMax) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(r.name, ": at most ", kDimsMax, " dimensions on a device; reshape it first"));
}

}  // namespace soapstone::compute
