// cuBLAS and cuDNN, loaded when the first backend is made: programs start without them, and without
// paying for them (half a gigabyte) where they compute elsewhere. Function names are theirs.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include "absl/status/statusor.h"

namespace soapstone::compute {

#define SOAPSTONE_CUBLAS_FUNCTIONS(X) \
  X(cublasCreate_v2)                  \
  X(cublasDestroy_v2)                 \
  X(cublasSetStream_v2)               \
  X(cublasSetWorkspace_v2)            \
  X(cublasGetStatusString)            \
  X(cublasGemmEx_64)                  \
  X(cublasGemmStridedBatchedEx_64)

#define SOAPSTONE_CUDNN_FUNCTIONS(X)                \
  X(cudnnCreate)                                    \
  X(cudnnDestroy)                                   \
  X(cudnnSetStream)                                 \
  X(cudnnGetErrorString)                            \
  X(cudnnCreateTensorDescriptor)                    \
  X(cudnnDestroyTensorDescriptor)                   \
  X(cudnnSetTensor4dDescriptor)                     \
  X(cudnnCreateFilterDescriptor)                    \
  X(cudnnDestroyFilterDescriptor)                   \
  X(cudnnSetFilter4dDescriptor)                     \
  X(cudnnCreateConvolutionDescriptor)               \
  X(cudnnDestroyConvolutionDescriptor)              \
  X(cudnnSetConvolution2dDescriptor)                \
  X(cudnnSetConvolutionGroupCount)                  \
  X(cudnnSetConvolutionMathType)                    \
  X(cudnnGetConvolutionForwardAlgorithm_v7)         \
  X(cudnnGetConvolutionForwardWorkspaceSize)        \
  X(cudnnFindConvolutionForwardAlgorithmEx)         \
  X(cudnnConvolutionForward)                        \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)    \
  X(cudnnGetConvolutionBackwardDataWorkspaceSize)   \
  X(cudnnFindConvolutionBackwardDataAlgorithmEx)    \
  X(cudnnConvolutionBackwardData)                   \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)  \
  X(cudnnGetConvolutionBackwardFilterWorkspaceSize) \
  X(cudnnFindConvolutionBackwardFilterAlgorithmEx)  \
  X(cudnnConvolutionBackwardFilter)

// Not decltype(&name): that would let a build without optimisation ask the linker for it.
#define SOAPSTONE_LIBRARY_MEMBER(name) decltype(::name)* name = nullptr;
struct DeviceLibraries {
  SOAPSTONE_CUBLAS_FUNCTIONS(SOAPSTONE_LIBRARY_MEMBER)
  SOAPSTONE_CUDNN_FUNCTIONS(SOAPSTONE_LIBRARY_MEMBER)
};
#undef SOAPSTONE_LIBRARY_MEMBER

// Looks where the loader looks, then in the folders that they were built with. Never unloaded.
// Error: unavailable, naming what is missing.
absl::StatusOr<const DeviceLibraries*> LoadDeviceLibraries();

}  // namespace soapstone::compute
