#include "compute/cpu/formats.h"

#include "glog/logging.h"

namespace soapstone::compute {
namespace {

DnnlDesc RowMajor(const std::vector<int64_t>& shape, dnnl::memory::data_type type) {
  dnnl::memory::dims strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return DnnlDesc(shape, type, strides);
}

}  // namespace

DnnlDesc PlainDesc(const TensorSpec& spec) {
  return RowMajor(spec.shape, spec.type == DataType::kInt32 ? dnnl::memory::data_type::s32
                                                            : dnnl::memory::data_type::f32);
}
DnnlDesc PlainDesc(const std::vector<int64_t>& shape) {
  return RowMajor(shape, dnnl::memory::data_type::f32);
}
DnnlDesc AnyDesc(const std::vector<int64_t>& shape, dnnl::memory::data_type type) {
  return DnnlDesc(shape, type, DnnlTag::any);
}

DnnlDesc DescOf(const Format& format) {
  if (format.plain()) return PlainDesc(format.spec);
  return *static_cast<const DnnlDesc*>(format.layout.get());
}

Format FormatOf(const TensorSpec& spec, const DnnlDesc& desc) {
  if (desc == PlainDesc(spec)) return PlainFormat(spec);
  return {.spec = spec, .bytes = desc.get_size(), .layout = std::make_shared<DnnlDesc>(desc)};
}

PlainInput::PlainInput(const Format& format, const CpuContext& context, Arena* scratch) {
  if (format.plain()) return;
  reorder_.emplace(context, DescOf(format), PlainDesc(format.spec), scratch);
  offset_ = scratch->Take(static_cast<size_t>(format.spec.bytes()));
}

const void* PlainInput::Bring(const void* tensor, void* scratch) {
  if (!reorder_) return tensor;
  void* plain = At<void>(scratch, offset_);
  reorder_->Run(tensor, plain, scratch);
  return plain;
}

PlainOutput::PlainOutput(const Format& format, const CpuContext& context, Arena* scratch) {
  if (format.plain()) return;
  reorder_.emplace(context, PlainDesc(format.spec), DescOf(format), scratch);
  offset_ = scratch->Take(static_cast<size_t>(format.spec.bytes()));
}

void PlainOutput::Finish(void* tensor, void* scratch) {
  if (reorder_) reorder_->Run(At<void>(scratch, offset_), tensor, scratch);
}

}  // namespace soapstone::compute
