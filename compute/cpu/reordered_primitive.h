// A primitive whose tensors may lie otherwise in the caller's memory than it wants them: weights,
// which are plain there, and what a neighbour has left in another layout.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "compute/cpu/formats.h"
#include "compute/cpu/primitive.h"

namespace soapstone::compute {

class RelaidPrimitive {
 public:
  RelaidPrimitive(const CpuContext& context, DnnlPrimitive primitive)
      : context_(&context), primitive_(std::move(primitive)) {}

  // Of DNNL_ARG_`arg`: `given` is the caller's layout, `wanted` the primitive's. Where they differ
  // `scratch` gets room for another.
  void Input(int arg, const DnnlDesc& given, const DnnlDesc& wanted, Arena* scratch) {
    Tell(arg, given, wanted, true, scratch);
  }
  void Output(int arg, const DnnlDesc& given, const DnnlDesc& wanted, Arena* scratch) {
    Tell(arg, given, wanted, false, scratch);
  }

  void Run(std::initializer_list<DnnlPrimitive::Handle> handles, void* scratch);

 private:
  struct Tensor {
    int arg;
    bool is_input;
    std::optional<DnnlReorder> reorder;
    size_t offset;  // in scratch, with `reorder`
  };
  void Tell(int arg, const DnnlDesc& given, const DnnlDesc& wanted, bool is_input, Arena* scratch);

  const CpuContext* context_;
  DnnlPrimitive primitive_;
  std::vector<Tensor> tensors_;
};

}  // namespace soapstone::compute
