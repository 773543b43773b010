// oneDNN's primitives as kernels run them: made once, their memory objects too; each call binds
// them to the caller's memory. Their scratch memory is the caller's (scratchpad_mode::user).
#pragma once

#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "compute/cpu/context.h"
#include "dnnl.hpp"

namespace soapstone::compute {

// With scratchpad_mode::user, as all primitives here have.
dnnl::primitive_attr UserScratch();

class DnnlPrimitive {
 public:
  // `scratch` gets a part for the primitive's own.
  template <typename Primitive, typename PrimitiveDesc>
  static DnnlPrimitive Make(const CpuContext& context, const PrimitiveDesc& desc, Arena* scratch) {
    return DnnlPrimitive(context, Primitive(desc), desc.scratchpad_desc(), scratch);
  }
  DnnlPrimitive(const CpuContext& context, dnnl::primitive primitive,
                const dnnl::memory::desc& scratchpad, Arena* scratch);

  // Says that the primitive has the argument (DNNL_ARG_*). An empty description leaves it out.
  void Bind(int arg, const dnnl::memory::desc& desc);

  // oneDNN's handles are not const; it does not write what is an input of the primitive, but for
  // the zeros of its padding.
  struct Handle {
    int arg;
    const void* data;
  };
  void Run(std::initializer_list<Handle> handles, void* scratch);
  // Of one argument, before a Run that does not name it.
  void Set(int arg, const void* data);

 private:
  const CpuContext* context_;
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  size_t scratchpad_ = 0;  // offset
};

// From one layout to another of the same tensor.
class DnnlReorder {
 public:
  DnnlReorder(const CpuContext& context, const dnnl::memory::desc& from,
              const dnnl::memory::desc& to, Arena* scratch);
  void Run(const void* from, void* to, void* scratch);

 private:
  DnnlPrimitive primitive_;
};

}  // namespace soapstone::compute
