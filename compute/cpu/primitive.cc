#include "compute/cpu/primitive.h"

#include "glog/logging.h"

namespace soapstone::compute {
namespace {

DnnlPrimitive MakeReorder(const CpuContext& context, const dnnl::memory::desc& from,
                          const dnnl::memory::desc& to, Arena* scratch) {
  const dnnl::reorder::primitive_desc desc(context.engine, from, context.engine, to, UserScratch());
  DnnlPrimitive primitive = DnnlPrimitive::Make<dnnl::reorder>(context, desc, scratch);
  primitive.Bind(DNNL_ARG_FROM, from);
  primitive.Bind(DNNL_ARG_TO, to);
  return primitive;
}

}  // namespace

dnnl::primitive_attr UserScratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

DnnlPrimitive::DnnlPrimitive(const CpuContext& context, dnnl::primitive primitive,
                             const dnnl::memory::desc& scratchpad, Arena* scratch)
    : context_(&context), primitive_(std::move(primitive)) {
  if (scratchpad.get_size() == 0) return;
  scratchpad_ = scratch->Take(scratchpad.get_size());
  Bind(DNNL_ARG_SCRATCHPAD, scratchpad);
}

void DnnlPrimitive::Bind(int arg, const dnnl::memory::desc& desc) {
  if (desc.is_zero()) return;
  arguments_[arg] = dnnl::memory(desc, context_->engine, DNNL_MEMORY_NONE);
}

void DnnlPrimitive::Set(int arg, const void* data) {
  const auto found = arguments_.find(arg);
  CHECK(found != arguments_.end()) << "argument " << arg;
  found->second.set_data_handle(const_cast<void*>(data));
}

void DnnlPrimitive::Run(std::initializer_list<Handle> handles, void* scratch) {
  for (const Handle& handle : handles) Set(handle.arg, handle.data);
  const auto own = arguments_.find(DNNL_ARG_SCRATCHPAD);
  if (own != arguments_.end()) own->second.set_data_handle(At<void>(scratch, scratchpad_));
  primitive_.execute(context_->stream, arguments_);
}

DnnlReorder::DnnlReorder(const CpuContext& context, const dnnl::memory::desc& from,
                         const dnnl::memory::desc& to, Arena* scratch)
    : primitive_(MakeReorder(context, from, to, scratch)) {}

void DnnlReorder::Run(const void* from, void* to, void* scratch) {
  primitive_.Run({{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, scratch);
}

}  // namespace soapstone::compute
