// The three passes of a convolution by cuDNN: which algorithms, in which micro-batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compute/cuda/device_context.h"
#include "compute/kernel.h"
#include "compute/microbatch.h"
#include "compute/op.h"

namespace soapstone::compute {

// x [samples, channels, height, width], y [samples, outputs, out_height, out_width].
struct ConvolutionShape {
  int64_t samples = 0, channels = 0, height = 0, width = 0;
  int64_t outputs = 0, out_height = 0, out_width = 0;
  Window window;
  int64_t groups = 1;

  int64_t x_of_sample() const { return channels * height * width; }
  int64_t y_of_sample() const { return outputs * out_height * out_width; }
  int64_t weights() const { return outputs * (channels / groups) * window.height * window.width; }
};

enum class ConvolutionPass : int { kForward, kInput, kWeight };

// What a pass reads and writes: x, w, y of Forward, or the gradients in their places; of the
// element type that Prepare was given.
struct ConvolutionTensors {
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
};

// Descriptors of one convolution and the plan of each pass that is wanted.
class Convolution {
 public:
  // bfloat16: of all three tensors. Errors: invalid argument (too large), resource exhausted (no
  // algorithm fits into the workspace), or what cuDNN says.
  static absl::StatusOr<std::unique_ptr<Convolution>> Prepare(
      const DeviceContext* device, const ConvolutionShape& shape, bool bfloat16,
      const std::vector<ConvolutionPass>& passes);
  // What each pass could take, by measured times, with up to `limit_bytes` of workspace: its plans
  // that no other beats in both time and workspace. Errors: as Prepare's.
  static absl::StatusOr<std::vector<std::vector<MicrobatchPlan>>> Measure(
      const DeviceContext* device, const ConvolutionShape& shape, bool bfloat16,
      const std::vector<ConvolutionPass>& passes, size_t limit_bytes);
  ~Convolution();

  size_t workspace_bytes(ConvolutionPass pass) const;
  // Micro-batch by micro-batch. kWeight sums into w over them; the first writes.
  void Run(ConvolutionPass pass, const ConvolutionTensors& tensors) const;

 private:
  struct Batch {  // descriptors of a micro-batch of this size
    cudnnTensorDescriptor_t x = nullptr, y = nullptr;
  };
  Convolution(const DeviceContext* device, const ConvolutionShape& shape, bool bfloat16)
      : device_(*device), shape_(shape), bfloat16_(bfloat16) {}

  static absl::StatusOr<std::unique_ptr<Convolution>> Open(const DeviceContext* device,
                                                           const ConvolutionShape& shape,
                                                           bool bfloat16);
  absl::Status MakeDescriptors();
  absl::StatusOr<Batch> BatchOf(int64_t samples);
  absl::StatusOr<MicrobatchPlan> PlanPass(ConvolutionPass pass);
  absl::StatusOr<std::vector<MicrobatchOption>> MeasuredOptions(ConvolutionPass pass,
                                                                size_t limit_bytes);
  absl::StatusOr<std::vector<MicrobatchOption>> TimeOptions(ConvolutionPass pass,
                                                            size_t limit_bytes);
  absl::StatusOr<std::vector<MicrobatchOption>> GuessedOptions(ConvolutionPass pass);
  void AllowMath(cudnnMathType_t math) const;
  template <typename Result, typename Ask>
  void CheckGuesses(Ask ask, std::vector<Result>* results) const;
  absl::Status Guess(ConvolutionPass pass, int64_t samples, std::vector<MicrobatchOption>* options);
  absl::Status Time(ConvolutionPass pass, int64_t samples, const ConvolutionTensors& tensors,
                    size_t limit_bytes, std::vector<MicrobatchOption>* options);
  std::string Key(ConvolutionPass pass) const;
  std::vector<int64_t> Sizes() const;
  size_t element_bytes() const { return bfloat16_ ? 2 : 4; }

  const DeviceContext& device_;
  const ConvolutionShape shape_;
  const bool bfloat16_;
  cudnnFilterDescriptor_t w_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  std::map<int64_t, Batch> batches_;
  std::map<ConvolutionPass, MicrobatchPlan> plans_;
};

// What conv2d.cc would measure and choose from for this request.
absl::StatusOr<std::vector<std::vector<MicrobatchPlan>>> MeasurePasses(const DeviceContext* device,
                                                                       const Conv2d& op,
                                                                       const KernelRequest& request,
                                                                       size_t limit_bytes);

}  // namespace soapstone::compute
