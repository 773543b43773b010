#include "compute/cuda/convolution.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

constexpr int kResultsMax = 24;     // of one question: each algorithm with each kind of arithmetic
constexpr int64_t kAlignment = 16;  // bytes
constexpr int kMathKinds = 8;       // an option's algorithm holds both: algorithm · 8 + math

// cuDNN's own: which arithmetic is allowed. As it names it, "default" allows tf32.
cudnnMathType_t MathOf(CudaPrecision precision, bool bfloat16) {
  if (bfloat16) return CUDNN_TENSOR_OP_MATH;
  return precision == CudaPrecision::kFloat32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
}

bool FitsInt(std::initializer_list<int64_t> values) {
  for (int64_t v : values) {
    if (v > std::numeric_limits<int>::max()) return false;
  }
  return true;
}

// Of cuDNN's answers, fastest first, those that can be used. Only deterministic ones: the same
// gradients are to have the same bits.
template <typename Result>
void AddUsable(const std::vector<Result>& results, int64_t samples, size_t bytes_max,
               std::vector<MicrobatchOption>* options) {
  for (size_t rank = 0; rank < results.size(); ++rank) {
    const Result& r = results[rank];
    if (r.status != CUDNN_STATUS_SUCCESS || r.determinism != CUDNN_DETERMINISTIC) continue;
    if (r.memory > bytes_max) continue;
    // A guess has no time: then the order counts, and few micro-batches before it.
    const double seconds = r.time > 0 ? r.time * 1e-3 : 1 + 0.01 * static_cast<double>(rank);
    options->push_back(
        {.batch = samples,
         .seconds = seconds,
         .workspace_bytes = r.memory,
         .algorithm = static_cast<int>(r.algo) * kMathKinds + static_cast<int>(r.mathType)});
  }
}

// Memory of the device for the time of a measurement.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  ~DeviceBuffer() { (void)cudaFree(data_); }
  absl::Status Allocate(size_t bytes, cudaStream_t stream) {
    SOAP_DEVICE_OR_RETURN(cudaMalloc(&data_, std::max<size_t>(bytes, 1)));
    SOAP_DEVICE_OR_RETURN(cudaMemsetAsync(data_, 0, bytes, stream));
    return absl::OkStatus();
  }
  void* data() const { return data_; }

 private:
  void* data_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Convolution>> Convolution::Open(const DeviceContext* device,
                                                               const ConvolutionShape& shape,
                                                               bool bfloat16) {
  if (!FitsInt({shape.samples, shape.channels, shape.height, shape.width, shape.outputs,
                shape.x_of_sample(), shape.y_of_sample(), shape.window.pad_h,
                shape.window.pad_w})) {
    return absl::InvalidArgumentError("a sample of 2^31 elements or more; split it");
  }
  std::unique_ptr<Convolution> made(new Convolution(device, shape, bfloat16));
  SOAP_RETURN_IF_ERROR(made->MakeDescriptors());
  return made;
}

absl::StatusOr<std::unique_ptr<Convolution>> Convolution::Prepare(
    const DeviceContext* device, const ConvolutionShape& shape, bool bfloat16,
    const std::vector<ConvolutionPass>& passes) {
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<Convolution> made, Open(device, shape, bfloat16));
  for (ConvolutionPass pass : passes) {
    SOAP_ASSIGN_OR_RETURN(MicrobatchPlan plan, made->PlanPass(pass));
    made->plans_[pass] = std::move(plan);
  }
  return made;
}

absl::StatusOr<std::vector<std::vector<MicrobatchPlan>>> Convolution::Measure(
    const DeviceContext* device, const ConvolutionShape& shape, bool bfloat16,
    const std::vector<ConvolutionPass>& passes, size_t limit_bytes) {
  SOAP_ASSIGN_OR_RETURN(const std::unique_ptr<Convolution> made, Open(device, shape, bfloat16));
  std::vector<std::vector<MicrobatchPlan>> plans;
  for (ConvolutionPass pass : passes) {
    SOAP_ASSIGN_OR_RETURN(const std::vector<MicrobatchOption> options,
                          made->MeasuredOptions(pass, limit_bytes));
    // The error, where there is one: no algorithm is frugal enough.
    SOAP_RETURN_IF_ERROR(FastestMicrobatches(shape.samples, options, limit_bytes).status());
    plans.push_back(ParetoMicrobatches(shape.samples, options));
  }
  return plans;
}

Convolution::~Convolution() {
  const DeviceLibraries& library = *device_.libraries;
  for (const auto& [samples, batch] : batches_) {
    (void)library.cudnnDestroyTensorDescriptor(batch.x);
    (void)library.cudnnDestroyTensorDescriptor(batch.y);
  }
  if (w_ != nullptr) (void)library.cudnnDestroyFilterDescriptor(w_);
  if (convolution_ != nullptr) (void)library.cudnnDestroyConvolutionDescriptor(convolution_);
}

absl::Status Convolution::MakeDescriptors() {
  const DeviceLibraries& library = *device_.libraries;
  const Window& window = shape_.window;
  const cudnnDataType_t type = bfloat16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  SOAP_DEVICE_OR_RETURN(library.cudnnCreateFilterDescriptor(&w_));
  SOAP_DEVICE_OR_RETURN(library.cudnnSetFilter4dDescriptor(
      w_, type, CUDNN_TENSOR_NCHW, static_cast<int>(shape_.outputs),
      static_cast<int>(shape_.channels / shape_.groups), static_cast<int>(window.height),
      static_cast<int>(window.width)));
  SOAP_DEVICE_OR_RETURN(library.cudnnCreateConvolutionDescriptor(&convolution_));
  SOAP_DEVICE_OR_RETURN(library.cudnnSetConvolution2dDescriptor(
      convolution_, static_cast<int>(window.pad_h), static_cast<int>(window.pad_w),
      static_cast<int>(window.stride_h), static_cast<int>(window.stride_w), 1, 1,
      CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  SOAP_DEVICE_OR_RETURN(
      library.cudnnSetConvolutionGroupCount(convolution_, static_cast<int>(shape_.groups)));
  SOAP_DEVICE_OR_RETURN(library.cudnnSetConvolutionMathType(
      convolution_, MathOf(device_.options.precision, bfloat16_)));
  return absl::OkStatus();
}

absl::StatusOr<Convolution::Batch> Convolution::BatchOf(int64_t samples) {
  const auto found = batches_.find(samples);
  if (found != batches_.end()) return found->second;
  const DeviceLibraries& library = *device_.libraries;
  const cudnnDataType_t type = bfloat16_ ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  Batch& batch = batches_[samples];
  SOAP_DEVICE_OR_RETURN(library.cudnnCreateTensorDescriptor(&batch.x));
  SOAP_DEVICE_OR_RETURN(library.cudnnSetTensor4dDescriptor(
      batch.x, CUDNN_TENSOR_NCHW, type, static_cast<int>(samples),
      static_cast<int>(shape_.channels), static_cast<int>(shape_.height),
      static_cast<int>(shape_.width)));
  SOAP_DEVICE_OR_RETURN(library.cudnnCreateTensorDescriptor(&batch.y));
  SOAP_DEVICE_OR_RETURN(library.cudnnSetTensor4dDescriptor(
      batch.y, CUDNN_TENSOR_NCHW, type, static_cast<int>(samples), static_cast<int>(shape_.outputs),
      static_cast<int>(shape_.out_height), static_cast<int>(shape_.out_width)));
  return batch;
}

std::string Convolution::Key(ConvolutionPass pass) const {
  const Window& w = shape_.window;
  return absl::StrCat(static_cast<int>(pass), bfloat16_ ? " bf16 " : " ", shape_.samples, " ",
                      shape_.channels, " ", shape_.height, " ", shape_.width, " ", shape_.outputs,
                      " ", shape_.groups) +
         absl::StrCat(" ", w.height, " ", w.width, " ", w.stride_h, " ", w.stride_w, " ", w.pad_h,
                      " ", w.pad_w);
}

absl::StatusOr<MicrobatchPlan> Convolution::PlanPass(ConvolutionPass pass) {
  const CudaOptions& chosen = device_.options;
  SOAP_ASSIGN_OR_RETURN(const std::vector<MicrobatchOption> options,
                        chosen.measure_algorithms
                            ? MeasuredOptions(pass, chosen.workspace_bytes_max)
                            : GuessedOptions(pass));
  SOAP_ASSIGN_OR_RETURN(MicrobatchPlan plan,
                        FastestMicrobatches(shape_.samples, options, chosen.workspace_bytes_max));
  for (const MicrobatchOption& part : plan.parts) {
    SOAP_RETURN_IF_ERROR(BatchOf(part.batch).status());
  }
  return plan;
}

// Of micro-batches those behind which the next starts as aligned as fast algorithms want it.
std::vector<int64_t> Convolution::Sizes() const {
  if (!device_.options.micro_batches) return {shape_.samples};
  std::vector<int64_t> sizes;
  for (int64_t samples : MicrobatchSizes(shape_.samples)) {
    const int64_t bytes = samples * static_cast<int64_t>(element_bytes());
    const bool aligned = bytes * shape_.x_of_sample() % kAlignment == 0 &&
                         bytes * shape_.y_of_sample() % kAlignment == 0;
    if (aligned || samples == shape_.samples) sizes.push_back(samples);
  }
  return sizes;
}

// Micro-batches only where nothing fits the whole: without times there is no better reason.
absl::StatusOr<std::vector<MicrobatchOption>> Convolution::GuessedOptions(ConvolutionPass pass) {
  std::vector<MicrobatchOption> options;
  SOAP_RETURN_IF_ERROR(Guess(pass, shape_.samples, &options));
  if (!options.empty()) return options;
  for (int64_t samples : Sizes()) {
    SOAP_RETURN_IF_ERROR(Guess(pass, samples, &options));
  }
  return options;
}

// Float32 means float32, whatever an answer suggests.
void Convolution::AllowMath(cudnnMathType_t math) const {
  const bool strict = device_.options.precision == CudaPrecision::kFloat32;
  SOAP_DEVICE_OR_DIE(
      device_.libraries->cudnnSetConvolutionMathType(convolution_, strict ? CUDNN_FMA_MATH : math));
}

// A guess may name what is not there for this type of element, and counts its workspace roughly;
// ask(algorithm, &bytes) is exact in both.
template <typename Result, typename Ask>
void Convolution::CheckGuesses(Ask ask, std::vector<Result>* results) const {
  for (Result& r : *results) {
    if (r.status != CUDNN_STATUS_SUCCESS) continue;
    AllowMath(r.mathType);
    r.status = ask(r.algo, &r.memory);
  }
}

absl::Status Convolution::Guess(ConvolutionPass pass, int64_t samples,
                                std::vector<MicrobatchOption>* options) {
  SOAP_ASSIGN_OR_RETURN(const Batch batch, BatchOf(samples));
  const DeviceLibraries& library = *device_.libraries;
  const cudnnHandle_t handle = device_.cudnn;
  const size_t bytes_max = device_.options.workspace_bytes_max;
  const auto x = batch.x, y = batch.y;
  int count = 0;
  AllowMath(MathOf(device_.options.precision, bfloat16_));
  switch (pass) {
    case ConvolutionPass::kForward: {
      std::vector<cudnnConvolutionFwdAlgoPerf_t> results(kResultsMax);
      SOAP_DEVICE_OR_RETURN(library.cudnnGetConvolutionForwardAlgorithm_v7(
          handle, x, w_, convolution_, y, kResultsMax, &count, results.data()));
      results.resize(static_cast<size_t>(count));
      const auto ask = [&](cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
        return library.cudnnGetConvolutionForwardWorkspaceSize(handle, x, w_, convolution_, y,
                                                               algorithm, bytes);
      };
      CheckGuesses(ask, &results);
      AddUsable(results, samples, bytes_max, options);
      break;
    }
    case ConvolutionPass::kInput: {
      std::vector<cudnnConvolutionBwdDataAlgoPerf_t> results(kResultsMax);
      SOAP_DEVICE_OR_RETURN(library.cudnnGetConvolutionBackwardDataAlgorithm_v7(
          handle, w_, y, convolution_, x, kResultsMax, &count, results.data()));
      results.resize(static_cast<size_t>(count));
      const auto ask = [&](cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
        return library.cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w_, y, convolution_, x,
                                                                    algorithm, bytes);
      };
      CheckGuesses(ask, &results);
      AddUsable(results, samples, bytes_max, options);
      break;
    }
    case ConvolutionPass::kWeight: {
      std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> results(kResultsMax);
      SOAP_DEVICE_OR_RETURN(library.cudnnGetConvolutionBackwardFilterAlgorithm_v7(
          handle, x, y, convolution_, w_, kResultsMax, &count, results.data()));
      results.resize(static_cast<size_t>(count));
      const auto ask = [&](cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
        return library.cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, convolution_,
                                                                      w_, algorithm, bytes);
      };
      CheckGuesses(ask, &results);
      AddUsable(results, samples, bytes_max, options);
      break;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<MicrobatchOption>> Convolution::MeasuredOptions(ConvolutionPass pass,
                                                                           size_t limit_bytes) {
  return device_.measured->Get(Key(pass), limit_bytes,
                               [&] { return TimeOptions(pass, limit_bytes); });
}

absl::StatusOr<std::vector<MicrobatchOption>> Convolution::TimeOptions(ConvolutionPass pass,
                                                                       size_t limit_bytes) {
  DeviceBuffer x, w, y, workspace;
  const size_t element = element_bytes();
  const size_t n = static_cast<size_t>(shape_.samples);
  SOAP_RETURN_IF_ERROR(
      x.Allocate(n * static_cast<size_t>(shape_.x_of_sample()) * element, device_.stream));
  SOAP_RETURN_IF_ERROR(w.Allocate(static_cast<size_t>(shape_.weights()) * element, device_.stream));
  SOAP_RETURN_IF_ERROR(
      y.Allocate(n * static_cast<size_t>(shape_.y_of_sample()) * element, device_.stream));
  SOAP_RETURN_IF_ERROR(workspace.Allocate(limit_bytes, device_.stream));
  const ConvolutionTensors tensors{x.data(), w.data(), y.data(), workspace.data()};
  std::vector<MicrobatchOption> options;
  for (int64_t samples : Sizes()) {
    SOAP_RETURN_IF_ERROR(Time(pass, samples, tensors, limit_bytes, &options));
  }
  SOAP_DEVICE_OR_RETURN(cudaStreamSynchronize(device_.stream));
  return options;
}

absl::Status Convolution::Time(ConvolutionPass pass, int64_t samples, const ConvolutionTensors& t,
                               size_t limit_bytes, std::vector<MicrobatchOption>* options) {
  SOAP_ASSIGN_OR_RETURN(const Batch batch, BatchOf(samples));
  const DeviceLibraries& library = *device_.libraries;
  int count = 0;
  AllowMath(MathOf(device_.options.precision, bfloat16_));
  switch (pass) {
    case ConvolutionPass::kForward: {
      std::vector<cudnnConvolutionFwdAlgoPerf_t> results(kResultsMax);
      SOAP_DEVICE_OR_RETURN(library.cudnnFindConvolutionForwardAlgorithmEx(
          device_.cudnn, batch.x, t.x, w_, t.w, convolution_, batch.y, t.y, kResultsMax, &count,
          results.data(), t.workspace, limit_bytes));
      results.resize(static_cast<size_t>(count));
      AddUsable(results, samples, limit_bytes, options);
      break;
    }
    case ConvolutionPass::kInput: {
      std::vector<cudnnConvolutionBwdDataAlgoPerf_t> results(kResultsMax);
      SOAP_DEVICE_OR_RETURN(library.cudnnFindConvolutionBackwardDataAlgorithmEx(
          device_.cudnn, w_, t.w, batch.y, t.y, convolution_, batch.x, t.x, kResultsMax, &count,
          results.data(), t.workspace, limit_bytes));
      results.resize(static_cast<size_t>(count));
      AddUsable(results, samples, limit_bytes, options);
      break;
    }
    case ConvolutionPass::kWeight: {
      std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> results(kResultsMax);
      SOAP_DEVICE_OR_RETURN(library.cudnnFindConvolutionBackwardFilterAlgorithmEx(
          device_.cudnn, batch.x, t.x, batch.y, t.y, convolution_, w_, t.w, kResultsMax, &count,
          results.data(), t.workspace, limit_bytes));
      results.resize(static_cast<size_t>(count));
      AddUsable(results, samples, limit_bytes, options);
      break;
    }
  }
  return absl::OkStatus();
}

size_t Convolution::workspace_bytes(ConvolutionPass pass) const {
  const auto found = plans_.find(pass);
  return found == plans_.end() ? 0 : found->second.workspace_bytes;
}

void Convolution::Run(ConvolutionPass pass, const ConvolutionTensors& tensors) const {
  const DeviceLibraries& library = *device_.libraries;
  const float one = 1, zero = 0;
  char* x = static_cast<char*>(tensors.x);
  char* y = static_cast<char*>(tensors.y);
  bool first = true;
  for (const MicrobatchOption& part : plans_.at(pass).parts) {
    const Batch& batch = batches_.at(part.batch);
    const int algorithm = part.algorithm / kMathKinds;
    // A guess or a measurement holds for the arithmetic that it was made with.
    AllowMath(static_cast<cudnnMathType_t>(part.algorithm % kMathKinds));
    switch (pass) {
      case ConvolutionPass::kForward:
        SOAP_DEVICE_OR_DIE(library.cudnnConvolutionForward(
            device_.cudnn, &one, batch.x, x, w_, tensors.w, convolution_,
            static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), tensors.workspace,
            part.workspace_bytes, &zero, batch.y, y));
        break;
      case ConvolutionPass::kInput:
        SOAP_DEVICE_OR_DIE(library.cudnnConvolutionBackwardData(
            device_.cudnn, &one, w_, tensors.w, batch.y, y, convolution_,
            static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), tensors.workspace,
            part.workspace_bytes, &zero, batch.x, x));
        break;
      case ConvolutionPass::kWeight:
        SOAP_DEVICE_OR_DIE(library.cudnnConvolutionBackwardFilter(
            device_.cudnn, &one, batch.x, x, batch.y, y, convolution_,
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), tensors.workspace,
            part.workspace_bytes, first ? &zero : &one, w_, tensors.w));
        break;
    }
    first = false;
    x += static_cast<size_t>(part.batch * shape_.x_of_sample()) * element_bytes();
    y += static_cast<size_t>(part.batch * shape_.y_of_sample()) * element_bytes();
  }
}

}  // namespace soapstone::compute
