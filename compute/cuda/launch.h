// How kernels of our own are written and started: a functor for each element, or for each row with
// a block of threads. Included by .cu files alone. The same files are compiled for the host too
// (SOAPSTONE_CUDA_EMULATED, see emulated/emulator.h), where tests run them without a device; so
// nothing else of CUDA's language is used in them.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <cstdint>

#ifdef SOAPSTONE_CUDA_EMULATED
#include "compute/cuda/emulated/emulator.h"
#define SOAP_DEVICE inline
#define SOAP_SHARED static
#else
#define SOAP_DEVICE __device__ __forceinline__
#define SOAP_SHARED __shared__
#endif

namespace soapstone::compute {

constexpr int kBlockThreads = 128;  // of a row

// Fatal, with the call's name, where it failed.
void CheckLaunch(const char* call, cudaError_t error);

// Of the device an int64 division takes many times as long as one of 32 bits; most sizes fit.
SOAP_DEVICE int64_t Quotient(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}
SOAP_DEVICE int64_t Remainder(int64_t a, int64_t b) { return a - Quotient(a, b) * b; }

struct SumOf {
  SOAP_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct LargestOf {
  SOAP_DEVICE float operator()(float a, float b) const { return a > b ? a : b; }
};
struct FirstOf {
  SOAP_DEVICE int operator()(int a, int b) const { return a < b ? a : b; }
};

#ifdef SOAPSTONE_CUDA_EMULATED

SOAP_DEVICE int Thread() { return emulated::ThreadNow(); }
SOAP_DEVICE void Barrier() { emulated::BarrierNow(); }
SOAP_DEVICE void SetBits(uint32_t* word, uint32_t bits) { *word |= bits; }
SOAP_DEVICE int FirstBit(uint32_t word) { return __builtin_ctz(word); }

template <typename T, typename Op>
T BlockReduce(T value, Op op) {
  static T all[kBlockThreads];
  Barrier();
  all[Thread()] = value;
  Barrier();
  T sum = all[0];
  for (int i = 1; i < kBlockThreads; ++i) sum = op(sum, all[i]);
  return sum;
}

template <typename F>
void ForEach(cudaStream_t stream, int64_t n, F f) {
  emulated::Submit(stream, [n, f] {
    for (int64_t i = 0; i < n; ++i) f(i);
  });
}
template <typename F>
void ForEachRow(cudaStream_t stream, int64_t rows, F f) {
  emulated::Submit(stream, [rows, f] {
    for (int64_t r = 0; r < rows; ++r) emulated::RunBlock(kBlockThreads, [&f, r] { f(r); });
  });
}

#else

SOAP_DEVICE int Thread() { return static_cast<int>(threadIdx.x); }
SOAP_DEVICE void Barrier() { __syncthreads(); }
SOAP_DEVICE void SetBits(uint32_t* word, uint32_t bits) { atomicOr(word, bits); }
SOAP_DEVICE int FirstBit(uint32_t word) { return __ffs(static_cast<int>(word)) - 1; }

// op over the values of all threads of the block, the same in each of them; in a fixed order. To be
// called by all.
template <typename T, typename Op>
__device__ T BlockReduce(T value, Op op) {
  __shared__ T of_warp[kBlockThreads / 32];
  for (int distance = 16; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  __syncthreads();  // an earlier reduction has been read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  T sum = of_warp[0];
  for (int w = 1; w < kBlockThreads / 32; ++w) sum = op(sum, of_warp[w]);
  return sum;
}

template <typename F>
__global__ void ForEachKernel(int64_t n, F f) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    f(i);
  }
}
template <typename F>
__global__ void ForEachRowKernel(int64_t rows, F f) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) f(r);
}

// Not by the language's own brackets, which clang-format takes apart.
template <typename F>
void Launch(void (*kernel)(int64_t, F), int64_t blocks, int threads, int64_t n, F f,
            cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(blocks < (1 << 20) ? blocks : (1 << 20)));
  void* arguments[] = {&n, &f};
  CheckLaunch("cudaLaunchKernel",
              cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                               dim3(static_cast<unsigned>(threads)), arguments, 0, stream));
}

// f(i) for i in [0, n), one thread each.
template <typename F>
void ForEach(cudaStream_t stream, int64_t n, F f) {
  if (n > 0) Launch(ForEachKernel<F>, (n + 255) / 256, 256, n, f, stream);
}
// f(r) for r in [0, rows), in each of the kBlockThreads threads of a block.
template <typename F>
void ForEachRow(cudaStream_t stream, int64_t rows, F f) {
  if (rows > 0) Launch(ForEachRowKernel<F>, rows, kBlockThreads, rows, f, stream);
}

#endif

}  // namespace soapstone::compute
