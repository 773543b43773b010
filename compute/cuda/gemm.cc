#include "compute/cuda/gemm.h"

#include "glog/logging.h"

namespace soapstone::compute {
namespace {

cublasComputeType_t ComputeTypeOf(CudaPrecision precision) {
  switch (precision) {
    case CudaPrecision::kFloat32:
      return CUBLAS_COMPUTE_32F;
    case CudaPrecision::kTf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case CudaPrecision::kBf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
  }
  return CUBLAS_COMPUTE_32F;
}

cublasOperation_t OperationOf(const GemmFactor& factor) {
  return factor.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

// Read by columns, memory holds the transposed matrices: Cᵀ = Bᵀ·Aᵀ.
void Gemm(const DeviceContext& context, const GemmShape& shape, const GemmFactor& a,
          const GemmFactor& b, const GemmResult& c) {
  if (shape.m == 0 || shape.n == 0 || shape.batch == 0) return;
  const float one = 1, beta = c.add ? 1 : 0;
  const cublasComputeType_t type = ComputeTypeOf(context.options.precision);
  const DeviceLibraries& library = *context.libraries;
  if (shape.batch == 1) {
    SOAP_DEVICE_OR_DIE(library.cublasGemmEx_64(
        context.cublas, OperationOf(b), OperationOf(a), shape.n, shape.m, shape.k, &one, b.data,
        CUDA_R_32F, b.row_stride, a.data, CUDA_R_32F, a.row_stride, &beta, c.data, CUDA_R_32F,
        c.row_stride, type, CUBLAS_GEMM_DEFAULT));
    return;
  }
  SOAP_DEVICE_OR_DIE(library.cublasGemmStridedBatchedEx_64(
      context.cublas, OperationOf(b), OperationOf(a), shape.n, shape.m, shape.k, &one, b.data,
      CUDA_R_32F, b.row_stride, b.batch_stride, a.data, CUDA_R_32F, a.row_stride, a.batch_stride,
      &beta, c.data, CUDA_R_32F, c.row_stride, c.batch_stride, shape.batch, type,
      CUBLAS_GEMM_DEFAULT));
}

}  // namespace soapstone::compute
