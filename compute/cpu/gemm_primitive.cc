#include "compute/cpu/gemm_primitive.h"

#include <algorithm>

namespace soapstone::compute {
namespace {

DnnlDesc FactorDesc(int64_t rows, int64_t columns, const FactorLayout& layout) {
  const dnnl::memory::dims strides = layout.transposed ? dnnl::memory::dims{1, layout.stride}
                                                       : dnnl::memory::dims{layout.stride, 1};
  return DnnlDesc({rows, columns}, dnnl::memory::data_type::f32, strides);
}

}  // namespace

dnnl::memory::data_type FactorType(const CpuContext& context, int64_t rows, int64_t inputs,
                                   int64_t outputs) {
  const bool worth = rows >= kRowsWorthRounding && std::min(inputs, outputs) >= kSideWorthRounding;
  return worth ? context.factor_type() : dnnl::memory::data_type::f32;
}

Product::Product(dnnl::memory::data_type type, const GemmShape& shape, const FactorLayout& a,
                 const FactorLayout& b, const CpuContext& context, Arena* scratch)
    : shape_(shape), a_(a), b_(b) {
  if (type == dnnl::memory::data_type::f32) return;
  const DnnlDesc y = PlainDesc({shape.m, shape.n});
  const dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(AnyDesc({shape.m, shape.k}, type), AnyDesc({shape.k, shape.n}, type), y),
      UserScratch(), context.engine);
  rounded_.emplace(context, DnnlPrimitive::Make<dnnl::matmul>(context, desc, scratch));
  rounded_->Input(DNNL_ARG_SRC, FactorDesc(shape.m, shape.k, a), desc.src_desc(), scratch);
  rounded_->Input(DNNL_ARG_WEIGHTS, FactorDesc(shape.k, shape.n, b), desc.weights_desc(), scratch);
  rounded_->Output(DNNL_ARG_DST, y, desc.dst_desc(), scratch);
}

void Product::Run(const float* a, const float* b, float* c, void* scratch) {
  if (rounded_) {
    rounded_->Run({{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}, scratch);
    return;
  }
  Gemm(shape_, {a, a_.stride, a_.transposed}, {b, b_.stride, b_.transposed}, {c, shape_.n});
}

}  // namespace soapstone::compute
