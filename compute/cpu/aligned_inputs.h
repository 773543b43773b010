// Inputs of one shape brought into one format, for operators that go through them element by
// element: that of the first that is not plain, else plain.
#pragma once

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "compute/cpu/formats.h"

namespace soapstone::compute {

Format AlignedFormat(absl::Span<const Format> inputs);

// Reorders from the inputs' formats and, for gradients, back. Each direction has parts of its own
// in the scratch memory.
class AlignedInputs {
 public:
  AlignedInputs(absl::Span<const Format> inputs, const Format& aligned, const CpuContext& context,
                Arena* scratch);

  // The input, or its reordered form in scratch.
  const float* Get(size_t input, const void* tensor, void* scratch);
  bool is_aligned(size_t input) const { return !in_[input].has_value(); }
  // From the aligned format to the input's.
  void PutBack(size_t input, const void* aligned, void* tensor, void* scratch);

 private:
  std::vector<std::optional<DnnlReorder>> in_, back_;
  std::vector<size_t> offsets_;
};

}  // namespace soapstone::compute
