#include "compute/cpu/aligned_inputs.h"

namespace soapstone::compute {

Format AlignedFormat(absl::Span<const Format> inputs) {
  for (const Format& format : inputs) {
    if (!format.plain()) return format;
  }
  return inputs[0];
}

AlignedInputs::AlignedInputs(absl::Span<const Format> inputs, const Format& aligned,
                             const CpuContext& context, Arena* scratch)
    : in_(inputs.size()), back_(inputs.size()), offsets_(inputs.size()) {
  const DnnlDesc to = DescOf(aligned);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const DnnlDesc from = DescOf(inputs[i]);
    if (from == to) continue;
    in_[i].emplace(context, from, to, scratch);
    back_[i].emplace(context, to, from, scratch);
    offsets_[i] = scratch->Take(aligned.bytes);
  }
}

const float* AlignedInputs::Get(size_t input, const void* tensor, void* scratch) {
  if (!in_[input]) return static_cast<const float*>(tensor);
  float* aligned = At<float>(scratch, offsets_[input]);
  in_[input]->Run(tensor, aligned, scratch);
  return aligned;
}

void AlignedInputs::PutBack(size_t input, const void* aligned, void* tensor, void* scratch) {
  back_[input]->Run(aligned, tensor, scratch);
}

}  // namespace soapstone::compute
