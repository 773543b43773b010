// cuBLAS and cuDNN for the emulator: what the backend calls of them, as plain loops. cuDNN's
// answers name three algorithms: a slow one without workspace, a fast one with 1 KiB a sample, and
// a faster one that is not deterministic and so not to be taken.
#include <cstring>
#include <vector>

#include "compute/cuda/emulated/emulator.h"
#include "compute/cuda/libraries.h"
#include "glog/logging.h"

// What the handles of cuBLAS and cuDNN stand for here.
struct cublasContext {
  cudaStream_t stream;
};
struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int n, c, h, w;
};
struct cudnnFilterStruct {
  cudnnDataType_t type;
  int k, c, h, w;
};
struct cudnnConvolutionStruct {
  int pad_h, pad_w, stride_h, stride_w, groups;
  cudnnMathType_t math;
};

namespace soapstone::compute {
namespace {

using emulated::Submit;

// ---- cuBLAS

struct Matrices {
  const float* a;
  int64_t lda, stride_a;
  bool a_transposed;
  const float* b;
  int64_t ldb, stride_b;
  bool b_transposed;
  float* c;
  int64_t ldc, stride_c;
};

// By columns, as cuBLAS: c[i + j·ldc] = Σ_l a(i, l) b(l, j) + beta·c
void Multiply(int64_t m, int64_t n, int64_t k, const Matrices& x, float beta, int64_t batch) {
  for (int64_t q = 0; q < batch; ++q) {
    const float* a = x.a + q * x.stride_a;
    const float* b = x.b + q * x.stride_b;
    float* c = x.c + q * x.stride_c;
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          const float from_a = x.a_transposed ? a[l + i * x.lda] : a[i + l * x.lda];
          const float from_b = x.b_transposed ? b[j + l * x.ldb] : b[l + j * x.ldb];
          sum += double{from_a} * from_b;
        }
        float& to = c[i + j * x.ldc];
        to = static_cast<float>(sum) + (beta != 0 ? beta * to : 0.0f);
      }
    }
  }
}

cublasStatus_t EmulatedGemmStrided(cublasHandle_t handle, cublasOperation_t ta,
                                   cublasOperation_t tb, int64_t m, int64_t n, int64_t k,
                                   const void* alpha, const void* a, cudaDataType /*a_type*/,
                                   int64_t lda, long long stride_a, const void* b,
                                   cudaDataType /*b_type*/, int64_t ldb, long long stride_b,
                                   const void* beta, void* c, cudaDataType /*c_type*/, int64_t ldc,
                                   long long stride_c, int64_t batch, cublasComputeType_t /*type*/,
                                   cublasGemmAlgo_t /*algo*/) {
  const bool a_transposed = ta == CUBLAS_OP_T, b_transposed = tb == CUBLAS_OP_T;
  // As cuBLAS does, refuse strides that are shorter than a column.
  if (*static_cast<const float*>(alpha) != 1 || lda < (a_transposed ? k : m) ||
      ldb < (b_transposed ? n : k) || ldc < m) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Matrices x = {static_cast<const float*>(a), lda, stride_a, a_transposed,
                      static_cast<const float*>(b), ldb, stride_b, b_transposed,
                      static_cast<float*>(c),       ldc, stride_c};
  const float scale = *static_cast<const float*>(beta);
  Submit(handle->stream, [=] { Multiply(m, n, k, x, scale, batch); });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t EmulatedGemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb,
                            int64_t m, int64_t n, int64_t k, const void* alpha, const void* a,
                            cudaDataType a_type, int64_t lda, const void* b, cudaDataType b_type,
                            int64_t ldb, const void* beta, void* c, cudaDataType c_type,
                            int64_t ldc, cublasComputeType_t type, cublasGemmAlgo_t algo) {
  return EmulatedGemmStrided(handle, ta, tb, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                             beta, c, c_type, ldc, 0, 1, type, algo);
}

// ---- cuDNN

float Load(const void* p, cudnnDataType_t type, int64_t i) {
  if (type == CUDNN_DATA_FLOAT) return static_cast<const float*>(p)[i];
  const uint32_t bits = uint32_t{static_cast<const uint16_t*>(p)[i]} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
void Store(void* p, cudnnDataType_t type, int64_t i, float value) {
  if (type == CUDNN_DATA_FLOAT) {
    static_cast<float*>(p)[i] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  static_cast<uint16_t*>(p)[i] = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

struct ConvolutionCall {
  cudnnTensorStruct x, y;
  cudnnFilterStruct w;
  cudnnConvolutionStruct conv;

  bool Consistent() const {
    return x.c == w.c * conv.groups && y.c == w.k && x.n == y.n &&
           y.h == (x.h + 2 * conv.pad_h - w.h) / conv.stride_h + 1 &&
           y.w == (x.w + 2 * conv.pad_w - w.w) / conv.stride_w + 1;
  }
  // f(x's place, w's place, y's place) for each product of the convolution.
  template <typename F>
  void ForEachProduct(F f) const {
    const int outputs_of_group = w.k / conv.groups;
    for (int n = 0; n < y.n; ++n)
      for (int k = 0; k < y.c; ++k)
        for (int i = 0; i < y.h; ++i)
          for (int j = 0; j < y.w; ++j)
            for (int c = 0; c < w.c; ++c)
              for (int r = 0; r < w.h; ++r)
                for (int s = 0; s < w.w; ++s) {
                  const int h = i * conv.stride_h - conv.pad_h + r;
                  const int v = j * conv.stride_w - conv.pad_w + s;
                  if (h < 0 || h >= x.h || v < 0 || v >= x.w) continue;
                  const int channel = k / outputs_of_group * w.c + c;
                  f(((int64_t{n} * x.c + channel) * x.h + h) * x.w + v,
                    ((int64_t{k} * w.c + c) * w.h + r) * w.w + s,
                    ((int64_t{n} * y.c + k) * y.h + i) * y.w + j);
                }
  }
};

// Sums of products into `to`, which is one of the three.
template <typename F>
cudnnStatus_t Convolve(cudnnHandle_t handle, const ConvolutionCall& call, int64_t count,
                       cudnnDataType_t type, void* to, const void* beta, F products) {
  if (!call.Consistent()) return CUDNN_STATUS_BAD_PARAM;
  const float scale = *static_cast<const float*>(beta);
  Submit(handle->stream, [=] {
    std::vector<double> sums(static_cast<size_t>(count), 0.0);
    products(call, &sums);
    for (int64_t i = 0; i < count; ++i) {
      const float before = scale != 0 ? scale * Load(to, type, i) : 0.0f;
      Store(to, type, i, static_cast<float>(sums[static_cast<size_t>(i)]) + before);
    }
  });
  return CUDNN_STATUS_SUCCESS;
}

int64_t CountOf(const cudnnTensorStruct& t) { return int64_t{t.n} * t.c * t.h * t.w; }

cudnnStatus_t EmulatedForward(cudnnHandle_t handle, const void*, const cudnnTensorDescriptor_t xd,
                              const void* x, const cudnnFilterDescriptor_t wd, const void* w,
                              const cudnnConvolutionDescriptor_t cd,
                              cudnnConvolutionFwdAlgo_t algorithm, void*, size_t, const void* beta,
                              const cudnnTensorDescriptor_t yd, void* y) {
  if (algorithm == 0) return CUDNN_STATUS_EXECUTION_FAILED;  // not to be taken
  return Convolve(handle, {*xd, *yd, *wd, *cd}, CountOf(*yd), yd->type, y, beta,
                  [=](const ConvolutionCall& call, std::vector<double>* sums) {
                    call.ForEachProduct([&](int64_t i, int64_t j, int64_t k) {
                      (*sums)[k] += double{Load(x, call.x.type, i)} * Load(w, call.w.type, j);
                    });
                  });
}
cudnnStatus_t EmulatedBackwardData(cudnnHandle_t handle, const void*,
                                   const cudnnFilterDescriptor_t wd, const void* w,
                                   const cudnnTensorDescriptor_t yd, const void* y,
                                   const cudnnConvolutionDescriptor_t cd,
                                   cudnnConvolutionBwdDataAlgo_t algorithm, void*, size_t,
                                   const void* beta, const cudnnTensorDescriptor_t xd, void* x) {
  if (algorithm == 0) return CUDNN_STATUS_EXECUTION_FAILED;  // not to be taken
  return Convolve(handle, {*xd, *yd, *wd, *cd}, CountOf(*xd), xd->type, x, beta,
                  [=](const ConvolutionCall& call, std::vector<double>* sums) {
                    call.ForEachProduct([&](int64_t i, int64_t j, int64_t k) {
                      (*sums)[i] += double{Load(y, call.y.type, k)} * Load(w, call.w.type, j);
                    });
                  });
}
cudnnStatus_t EmulatedBackwardFilter(cudnnHandle_t handle, const void*,
                                     const cudnnTensorDescriptor_t xd, const void* x,
                                     const cudnnTensorDescriptor_t yd, const void* y,
                                     const cudnnConvolutionDescriptor_t cd,
                                     cudnnConvolutionBwdFilterAlgo_t algorithm, void*, size_t,
                                     const void* beta, const cudnnFilterDescriptor_t wd, void* w) {
  const int64_t count = int64_t{wd->k} * wd->c * wd->h * wd->w;
  if (algorithm == 0) return CUDNN_STATUS_EXECUTION_FAILED;  // not to be taken
  return Convolve(handle, {*xd, *yd, *wd, *cd}, count, wd->type, w, beta,
                  [=](const ConvolutionCall& call, std::vector<double>* sums) {
                    call.ForEachProduct([&](int64_t i, int64_t j, int64_t k) {
                      (*sums)[j] += double{Load(x, call.x.type, i)} * Load(y, call.y.type, k);
                    });
                  });
}

// Fastest first, as cuDNN answers.
template <typename Result>
cudnnStatus_t Answer(int samples, bool measured, int asked, int* count, Result* results) {
  CHECK_GE(asked, 3);
  *count = 3;
  for (int i = 0; i < 3; ++i) {
    Result& r = results[i];
    r = Result();
    r.algo = static_cast<decltype(r.algo)>(i);
    r.status = CUDNN_STATUS_SUCCESS;
    r.determinism = i == 0 ? CUDNN_NON_DETERMINISTIC : CUDNN_DETERMINISTIC;
    r.memory = i == 1 ? static_cast<size_t>(samples) * 1024 : 0;
    r.time = measured ? 0.1f + static_cast<float>(samples) * (i == 0 ? 0.5f : i == 1 ? 1 : 4) : -1;
    r.mathType = CUDNN_DEFAULT_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

template <typename T>
cudnnStatus_t Make(T** descriptor) {
  *descriptor = new T();
  return CUDNN_STATUS_SUCCESS;
}
template <typename T>
cudnnStatus_t Unmake(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

void FillCublas(DeviceLibraries* l) {
  l->cublasCreate_v2 = [](cublasContext** handle) {
    *handle = new cublasContext();
    return CUBLAS_STATUS_SUCCESS;
  };
  l->cublasDestroy_v2 = [](cublasContext* handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
  };
  l->cublasSetStream_v2 = [](cublasContext* handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
  };
  l->cublasSetWorkspace_v2 = [](cublasContext*, void*, size_t) { return CUBLAS_STATUS_SUCCESS; };
  l->cublasGemmEx_64 = EmulatedGemm;
  l->cublasGemmStridedBatchedEx_64 = EmulatedGemmStrided;
}

void FillDescriptors(DeviceLibraries* l) {
  l->cudnnCreate = [](cudnnHandle_t* handle) {
    *handle = new cudnnContext();
    return CUDNN_STATUS_SUCCESS;
  };
  l->cudnnDestroy = [](cudnnHandle_t handle) {
    delete handle;
    return CUDNN_STATUS_SUCCESS;
  };
  l->cudnnSetStream = [](cudnnHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
  };
  l->cudnnCreateTensorDescriptor = Make<cudnnTensorStruct>;
  l->cudnnDestroyTensorDescriptor = Unmake<cudnnTensorStruct>;
  l->cudnnCreateFilterDescriptor = Make<cudnnFilterStruct>;
  l->cudnnDestroyFilterDescriptor = Unmake<cudnnFilterStruct>;
  l->cudnnCreateConvolutionDescriptor = Make<cudnnConvolutionStruct>;
  l->cudnnDestroyConvolutionDescriptor = Unmake<cudnnConvolutionStruct>;
  l->cudnnSetTensor4dDescriptor = [](cudnnTensorDescriptor_t d, cudnnTensorFormat_t,
                                     cudnnDataType_t type, int n, int c, int h, int w) {
    *d = {type, n, c, h, w};
    return CUDNN_STATUS_SUCCESS;
  };
  l->cudnnSetFilter4dDescriptor = [](cudnnFilterDescriptor_t d, cudnnDataType_t type,
                                     cudnnTensorFormat_t, int k, int c, int h, int w) {
    *d = {type, k, c, h, w};
    return CUDNN_STATUS_SUCCESS;
  };
  l->cudnnSetConvolution2dDescriptor =
      [](cudnnConvolutionDescriptor_t d, int pad_h, int pad_w, int stride_h, int stride_w,
         int /*dilation_h*/, int /*dilation_w*/, cudnnConvolutionMode_t, cudnnDataType_t) {
        *d = {pad_h, pad_w, stride_h, stride_w, 1, CUDNN_DEFAULT_MATH};
        return CUDNN_STATUS_SUCCESS;
      };
  l->cudnnSetConvolutionGroupCount = [](cudnnConvolutionDescriptor_t d, int groups) {
    d->groups = groups;
    return CUDNN_STATUS_SUCCESS;
  };
  l->cudnnSetConvolutionMathType = [](cudnnConvolutionDescriptor_t d, cudnnMathType_t math) {
    d->math = math;
    return CUDNN_STATUS_SUCCESS;
  };
}

// That of the guess, but for one: as with cuDNN, whose guesses are not all to be relied on.
cudnnStatus_t AnswerBytes(int samples, int algorithm, size_t* bytes) {
  if (algorithm == 2 && samples % 2 == 1) return CUDNN_STATUS_NOT_SUPPORTED;
  *bytes = algorithm == 1 ? static_cast<size_t>(samples) * 1024 : 0;
  return CUDNN_STATUS_SUCCESS;
}

void FillWorkspaceSizes(DeviceLibraries* l) {
  l->cudnnGetConvolutionForwardWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorStruct* x, cudnnFilterStruct*, cudnnConvolutionStruct*,
         cudnnTensorStruct*, cudnnConvolutionFwdAlgo_t algorithm,
         size_t* bytes) { return AnswerBytes(x->n, algorithm, bytes); };
  l->cudnnGetConvolutionBackwardDataWorkspaceSize =
      [](cudnnHandle_t, cudnnFilterStruct*, cudnnTensorStruct* y, cudnnConvolutionStruct*,
         cudnnTensorStruct*, cudnnConvolutionBwdDataAlgo_t algorithm,
         size_t* bytes) { return AnswerBytes(y->n, algorithm, bytes); };
  l->cudnnGetConvolutionBackwardFilterWorkspaceSize =
      [](cudnnHandle_t, cudnnTensorStruct* x, cudnnTensorStruct*, cudnnConvolutionStruct*,
         cudnnFilterStruct*, cudnnConvolutionBwdFilterAlgo_t algorithm,
         size_t* bytes) { return AnswerBytes(x->n, algorithm, bytes); };
}

void FillConvolutions(DeviceLibraries* l) {
  l->cudnnConvolutionForward = EmulatedForward;
  l->cudnnConvolutionBackwardData = EmulatedBackwardData;
  l->cudnnConvolutionBackwardFilter = EmulatedBackwardFilter;
  l->cudnnGetConvolutionForwardAlgorithm_v7 =
      [](cudnnHandle_t, cudnnTensorStruct* x, cudnnFilterStruct*, cudnnConvolutionStruct*,
         cudnnTensorStruct*, int asked, int* count, cudnnConvolutionFwdAlgoPerf_t* results) {
        return Answer(x->n, false, asked, count, results);
      };
  l->cudnnFindConvolutionForwardAlgorithmEx =
      [](cudnnHandle_t, cudnnTensorStruct* x, const void*, cudnnFilterStruct*, const void*,
         cudnnConvolutionStruct*, cudnnTensorStruct*, void*, int asked, int* count,
         cudnnConvolutionFwdAlgoPerf_t* results, void*,
         size_t) { return Answer(x->n, true, asked, count, results); };
  l->cudnnGetConvolutionBackwardDataAlgorithm_v7 =
      [](cudnnHandle_t, cudnnFilterStruct*, cudnnTensorStruct* y, cudnnConvolutionStruct*,
         cudnnTensorStruct*, int asked, int* count, cudnnConvolutionBwdDataAlgoPerf_t* results) {
        return Answer(y->n, false, asked, count, results);
      };
  l->cudnnFindConvolutionBackwardDataAlgorithmEx =
      [](cudnnHandle_t, cudnnFilterStruct*, const void*, cudnnTensorStruct* y, const void*,
         cudnnConvolutionStruct*, cudnnTensorStruct*, void*, int asked, int* count,
         cudnnConvolutionBwdDataAlgoPerf_t* results, void*,
         size_t) { return Answer(y->n, true, asked, count, results); };
  l->cudnnGetConvolutionBackwardFilterAlgorithm_v7 =
      [](cudnnHandle_t, cudnnTensorStruct* x, cudnnTensorStruct*, cudnnConvolutionStruct*,
         cudnnFilterStruct*, int asked, int* count, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
        return Answer(x->n, false, asked, count, results);
      };
  l->cudnnFindConvolutionBackwardFilterAlgorithmEx =
      [](cudnnHandle_t, cudnnTensorStruct* x, const void*, cudnnTensorStruct*, const void*,
         cudnnConvolutionStruct*, cudnnFilterStruct*, void*, int asked, int* count,
         cudnnConvolutionBwdFilterAlgoPerf_t* results, void*,
         size_t) { return Answer(x->n, true, asked, count, results); };
}

}  // namespace

absl::StatusOr<const DeviceLibraries*> LoadDeviceLibraries() {
  static const DeviceLibraries& libraries = *[] {
    auto* const made = new DeviceLibraries;
    FillCublas(made);
    FillDescriptors(made);
    FillWorkspaceSizes(made);
    FillConvolutions(made);
    return made;
  }();
  return &libraries;
}

}  // namespace soapstone::compute
