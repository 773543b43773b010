// Formats of the CPU backend: Format::layout holds a dnnl::memory::desc where a tensor is not
// plain. A blocked tensor's padding (channels up to a multiple of 16) holds zeros: whoever writes a
// tensor or the gradient of one writes them too, as oneDNN's primitives do.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "compute/cpu/context.h"
#include "compute/cpu/primitive.h"
#include "compute/kernel.h"
#include "dnnl.hpp"

namespace soapstone::compute {

using DnnlDesc = dnnl::memory::desc;
using DnnlTag = dnnl::memory::format_tag;

// Row-major.
DnnlDesc PlainDesc(const TensorSpec& spec);
DnnlDesc PlainDesc(const std::vector<int64_t>& shape);  // f32
// Of the layout that oneDNN likes best.
DnnlDesc AnyDesc(const std::vector<int64_t>& shape,
                 dnnl::memory::data_type type = dnnl::memory::data_type::f32);

DnnlDesc DescOf(const Format& format);
// A plain format where `desc` is row-major.
Format FormatOf(const TensorSpec& spec, const DnnlDesc& desc);

// An input as plain memory, for kernels that understand nothing else: itself, or reordered into a
// part of the scratch memory.
class PlainInput {
 public:
  PlainInput(const Format& format, const CpuContext& context, Arena* scratch);
  template <typename T = float>
  const T* Get(const void* tensor, void* scratch) {
    return static_cast<const T*>(Bring(tensor, scratch));
  }

 private:
  const void* Bring(const void* tensor, void* scratch);
  std::optional<DnnlReorder> reorder_;
  size_t offset_ = 0;
};

// Likewise what is written (an input's gradient): work in Get(), then Finish().
class PlainOutput {
 public:
  PlainOutput(const Format& format, const CpuContext& context, Arena* scratch);
  template <typename T = float>
  T* Get(void* tensor, void* scratch) {
    return reorder_ ? At<T>(scratch, offset_) : static_cast<T*>(tensor);
  }
  void Finish(void* tensor, void* scratch);

 private:
  std::optional<DnnlReorder> reorder_;
  size_t offset_ = 0;
};

}  // namespace soapstone::compute
