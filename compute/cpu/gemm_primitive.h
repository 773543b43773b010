// A product of matrices in the precision of the backend, prepared for one shape. Used by the
// kernels of recurrent operators; Linear and Conv2d have primitives of their own, by the same rule.
#pragma once

#include <cstdint>
#include <optional>

#include "compute/cpu/context.h"
#include "compute/cpu/gemm.h"
#include "compute/cpu/reordered_primitive.h"

namespace soapstone::compute {

// The type of the factors where [rows, inputs] are multiplied by weights [outputs, inputs], and in
// the gradients of that: bf16 if the backend has it and it is worth it. The weights are rounded and
// packed at every call, which takes as long for few rows as for many: measured with one thread,
// from 1024 to 512, bf16 takes 4 times as long as float32 with 16 rows, as long with 128.
constexpr int64_t kRowsWorthRounding = 128;
constexpr int64_t kSideWorthRounding = 32;  // inputs and outputs, at least
dnnl::memory::data_type FactorType(const CpuContext& context, int64_t rows, int64_t inputs,
                                   int64_t outputs);

// Where a factor lies at each call: as GemmOperand, without its data.
struct FactorLayout {
  int64_t stride = 0;
  bool transposed = false;
};

// C = op(A)·op(B), all float32 in the caller's memory; C is dense. `type`: of the factors.
class Product {
 public:
  Product(dnnl::memory::data_type type, const GemmShape& shape, const FactorLayout& a,
          const FactorLayout& b, const CpuContext& context, Arena* scratch);
  void Run(const float* a, const float* b, float* c, void* scratch);

 private:
  GemmShape shape_;
  FactorLayout a_, b_;
  std::optional<RelaidPrimitive> rounded_;  // in bf16
};

}  // namespace soapstone::compute
