#include "compute/cuda/cuda_backend.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compute/cuda/kernels.h"
#include "compute/cuda/operators.h"
#include "compute/cuda/optimizer_kernel.h"
#include "glog/logging.h"

namespace soapstone::compute {

absl::Status DeviceStatus(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // said here, and not to be found by a later call
  const std::string text = absl::StrCat("the device's ", call, ": ", cudaGetErrorString(error));
  if (error == cudaErrorMemoryAllocation) {
    return absl::ResourceExhaustedError(absl::StrCat(text, "; make the batch smaller"));
  }
  if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver) {
    return absl::UnavailableError(text);
  }
  return absl::InternalError(text);
}

// The libraries' own texts need the libraries; a number can be looked up.
absl::Status DeviceStatus(const char* call, cublasStatus_t error) {
  if (error == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": cuBLAS status ", static_cast<int>(error)));
}
absl::Status DeviceStatus(const char* call, cudnnStatus_t error) {
  if (error == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": cuDNN status ", static_cast<int>(error)));
}

void CheckLaunch(const char* call, cudaError_t error) {
  const absl::Status launched = DeviceStatus(call, error);
  if (!launched.ok()) LOG(FATAL) << launched;
}

namespace {

constexpr size_t kCublasWorkspaceBytes = size_t{32} << 20;  // what it asks for on Hopper
constexpr int kCapabilityMin = 75;                          // the least that is compiled for
constexpr size_t kTransfersMax = 1024;

class CudaBackend : public Backend {
 public:
  CudaBackend(const CudaOptions& options, std::shared_ptr<MeasuredConvolutions> measured) {
    context_.options = options;
    context_.measured = std::move(measured);
  }
  ~CudaBackend() override;
  absl::Status Open();

  std::string_view name() const override { return "cuda"; }
  bool is_device() const override { return true; }
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) override;
  absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes) override;
  void Import(const void* plain, const Format& format, void* tensor) override;
  void Export(const Format& format, const void* tensor, void* plain) override;
  absl::StatusOr<std::shared_ptr<void>> AllocatePinned(size_t bytes) override;
  uint64_t ExportAsync(const Format& format, const void* tensor, void* plain) override;
  void Wait(uint64_t transfer) override;
  bool Done(uint64_t transfer) override;
  void Finish() override;

  void Enter() const { SOAP_DEVICE_OR_DIE(cudaSetDevice(context_.options.device)); }
  DeviceContext* context() { return &context_; }

 private:
  struct Transfer {
    uint64_t number = 0;
    cudaEvent_t end = nullptr;
  };
  const Transfer* Find(uint64_t transfer) const;

  DeviceContext context_;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t computed_ = nullptr;
  std::shared_ptr<void> cublas_workspace_;
  std::deque<Transfer> transfers_;  // in their order, which is also that of their ends
  std::vector<cudaEvent_t> free_events_;
  uint64_t transfers_begun_ = 0;
};

absl::Status CudaBackend::Open() {
  SOAP_ASSIGN_OR_RETURN(context_.libraries, LoadDeviceLibraries());
  SOAP_DEVICE_OR_RETURN(cudaSetDevice(context_.options.device));
  SOAP_DEVICE_OR_RETURN(cudaStreamCreateWithFlags(&context_.stream, cudaStreamNonBlocking));
  SOAP_DEVICE_OR_RETURN(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
  SOAP_DEVICE_OR_RETURN(cudaEventCreateWithFlags(&computed_, cudaEventDisableTiming));
  const DeviceLibraries& library = *context_.libraries;
  SOAP_DEVICE_OR_RETURN(library.cublasCreate_v2(&context_.cublas));
  SOAP_DEVICE_OR_RETURN(library.cublasSetStream_v2(context_.cublas, context_.stream));
  // Its own would be allocated in the middle of a recording. Set after the stream, which resets it.
  SOAP_ASSIGN_OR_RETURN(cublas_workspace_, Allocate(kCublasWorkspaceBytes));
  SOAP_DEVICE_OR_RETURN(library.cublasSetWorkspace_v2(context_.cublas, cublas_workspace_.get(),
                                                      kCublasWorkspaceBytes));
  SOAP_DEVICE_OR_RETURN(library.cudnnCreate(&context_.cudnn));
  SOAP_DEVICE_OR_RETURN(library.cudnnSetStream(context_.cudnn, context_.stream));
  return absl::OkStatus();
}

// Failures are of no use any more.
CudaBackend::~CudaBackend() {
  (void)cudaSetDevice(context_.options.device);
  (void)cudaStreamSynchronize(context_.stream);
  (void)cudaStreamSynchronize(copies_);
  if (context_.cudnn != nullptr) (void)context_.libraries->cudnnDestroy(context_.cudnn);
  if (context_.cublas != nullptr) (void)context_.libraries->cublasDestroy_v2(context_.cublas);
  for (const Transfer& t : transfers_) (void)cudaEventDestroy(t.end);
  for (cudaEvent_t event : free_events_) (void)cudaEventDestroy(event);
  if (computed_ != nullptr) (void)cudaEventDestroy(computed_);
  if (copies_ != nullptr) (void)cudaStreamDestroy(copies_);
  if (context_.stream != nullptr) (void)cudaStreamDestroy(context_.stream);
}

absl::StatusOr<std::unique_ptr<Kernel>> CudaBackend::Prepare(const KernelRequest& request) {
  SOAP_DEVICE_OR_RETURN(cudaSetDevice(context_.options.device));
  for (const Format& input : request.inputs) {
    if (input.plain()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        request.name, ": an input in another backend's format; export and import it between them"));
  }
  return std::visit([&](const auto& op) { return PrepareOn(&context_, op, request); }, request.op);
}

absl::StatusOr<std::shared_ptr<void>> CudaBackend::Allocate(size_t bytes) {
  SOAP_DEVICE_OR_RETURN(cudaSetDevice(context_.options.device));
  void* memory = nullptr;
  SOAP_DEVICE_OR_RETURN(cudaMalloc(&memory, std::max<size_t>(bytes, 1)));
  return std::shared_ptr<void>(memory, [](void* p) { (void)cudaFree(p); });
}

absl::StatusOr<std::shared_ptr<void>> CudaBackend::AllocatePinned(size_t bytes) {
  SOAP_DEVICE_OR_RETURN(cudaSetDevice(context_.options.device));
  void* memory = nullptr;
  SOAP_DEVICE_OR_RETURN(cudaMallocHost(&memory, std::max<size_t>(bytes, 1)));
  return std::shared_ptr<void>(memory, [](void* p) { (void)cudaFreeHost(p); });
}

void CudaBackend::Import(const void* plain, const Format& format, void* tensor) {
  Enter();
  SOAP_DEVICE_OR_DIE(
      cudaMemcpyAsync(tensor, plain, format.bytes, cudaMemcpyHostToDevice, context_.stream));
  SOAP_DEVICE_OR_DIE(cudaStreamSynchronize(context_.stream));
}

void CudaBackend::Export(const Format& format, const void* tensor, void* plain) {
  Enter();
  SOAP_DEVICE_OR_DIE(
      cudaMemcpyAsync(plain, tensor, format.bytes, cudaMemcpyDeviceToHost, context_.stream));
  SOAP_DEVICE_OR_DIE(cudaStreamSynchronize(context_.stream));
}

uint64_t CudaBackend::ExportAsync(const Format& format, const void* tensor, void* plain) {
  Enter();
  if (transfers_.size() == kTransfersMax) Wait(transfers_.front().number);
  Transfer transfer{.number = ++transfers_begun_};
  if (free_events_.empty()) {
    SOAP_DEVICE_OR_DIE(cudaEventCreateWithFlags(&transfer.end, cudaEventDisableTiming));
  } else {
    transfer.end = free_events_.back();
    free_events_.pop_back();
  }
  SOAP_DEVICE_OR_DIE(cudaEventRecord(computed_, context_.stream));
  SOAP_DEVICE_OR_DIE(cudaStreamWaitEvent(copies_, computed_, 0));
  SOAP_DEVICE_OR_DIE(cudaMemcpyAsync(plain, tensor, format.bytes, cudaMemcpyDeviceToHost, copies_));
  SOAP_DEVICE_OR_DIE(cudaEventRecord(transfer.end, copies_));
  transfers_.push_back(transfer);
  return transfer.number;
}

const CudaBackend::Transfer* CudaBackend::Find(uint64_t transfer) const {
  if (transfers_.empty() || transfer < transfers_.front().number) return nullptr;
  const size_t at = static_cast<size_t>(transfer - transfers_.front().number);
  CHECK_LT(at, transfers_.size()) << "transfer " << transfer << " was never begun";
  return &transfers_[at];
}

void CudaBackend::Wait(uint64_t transfer) {
  const Transfer* const found = Find(transfer);
  if (found == nullptr) return;  // with a later one
  Enter();
  SOAP_DEVICE_OR_DIE(cudaEventSynchronize(found->end));
  while (!transfers_.empty() && transfers_.front().number <= transfer) {
    free_events_.push_back(transfers_.front().end);
    transfers_.pop_front();
  }
}

bool CudaBackend::Done(uint64_t transfer) {
  const Transfer* const found = Find(transfer);
  if (found == nullptr) return true;
  Enter();
  const cudaError_t state = cudaEventQuery(found->end);
  if (state == cudaErrorNotReady) return false;
  SOAP_DEVICE_OR_DIE(state);
  return true;
}

void CudaBackend::Finish() {
  Enter();
  SOAP_DEVICE_OR_DIE(cudaStreamSynchronize(context_.stream));
  SOAP_DEVICE_OR_DIE(cudaStreamSynchronize(copies_));
}

CudaBackend* CudaBackendOf(Backend* backend) {
  auto* const cuda = dynamic_cast<CudaBackend*>(backend);
  CHECK(cuda != nullptr) << "not a cuda backend: " << backend->name();
  return cuda;
}

class CudaStepGraph : public StepGraph {
 public:
  CudaStepGraph(CudaBackend* backend, std::shared_ptr<void> keys)
      : backend_(backend), keys_(std::move(keys)) {}
  ~CudaStepGraph() override {
    backend_->Finish();
    if (exec_ != nullptr) (void)cudaGraphExecDestroy(exec_);
  }
  absl::Status Record(uint64_t step, uint64_t first_sample, absl::FunctionRef<void()> calls);
  // The keys are of this thread's stack: a copy from there has left it when the call returns.
  void Run(uint64_t step, uint64_t first_sample) override {
    backend_->Enter();
    const cudaStream_t stream = backend_->context()->stream;
    const uint64_t keys[2] = {step, first_sample};
    SOAP_DEVICE_OR_DIE(
        cudaMemcpyAsync(keys_.get(), keys, sizeof(keys), cudaMemcpyHostToDevice, stream));
    SOAP_DEVICE_OR_DIE(cudaGraphLaunch(exec_, stream));
  }

 private:
  CudaBackend* const backend_;
  const std::shared_ptr<void> keys_;
  cudaGraphExec_t exec_ = nullptr;
};

absl::Status CudaStepGraph::Record(uint64_t step, uint64_t first_sample,
                                   absl::FunctionRef<void()> calls) {
  DeviceContext* const context = backend_->context();
  backend_->Finish();
  SOAP_DEVICE_OR_RETURN(cudaStreamBeginCapture(context->stream, cudaStreamCaptureModeThreadLocal));
  context->keys = static_cast<const uint64_t*>(keys_.get());
  context->recorded_step = step;
  context->recorded_first_sample = first_sample;
  calls();
  context->keys = nullptr;
  cudaGraph_t graph = nullptr;
  SOAP_DEVICE_OR_RETURN(cudaStreamEndCapture(context->stream, &graph));
  const absl::Status made =
      DeviceStatus("cudaGraphInstantiate", cudaGraphInstantiate(&exec_, graph, 0));
  (void)cudaGraphDestroy(graph);
  return made;
}

absl::Status CheckDevice(const CudaOptions& options) {
  if (options.device < 0) {
    return absl::InvalidArgumentError(absl::StrCat("device ", options.device, " is negative"));
  }
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (error != cudaSuccess || count == 0) {
    return absl::UnavailableError(absl::StrCat(
        "no CUDA device (", error != cudaSuccess ? cudaGetErrorString(error) : "none is visible",
        "); install NVIDIA's driver, look at CUDA_VISIBLE_DEVICES, or compute on the cpu"));
  }
  if (options.device >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("device ", options.device, " of ", count, "; the last is ", count - 1));
  }
  int major = 0, minor = 0;
  SOAP_DEVICE_OR_RETURN(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, options.device));
  SOAP_DEVICE_OR_RETURN(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, options.device));
  if (10 * major + minor < kCapabilityMin) {
    return absl::FailedPreconditionError(
        absl::StrCat("device ", options.device, " has compute capability ", major, ".", minor,
                     "; at least 7.5 is needed: compute on the cpu"));
  }
  return absl::OkStatus();
}

}  // namespace

int CudaDeviceCount() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();  // not to be found by a later call
  return error == cudaSuccess ? count : 0;
}

DeviceContext* ContextOf(Backend* backend) { return CudaBackendOf(backend)->context(); }

size_t CudaFreeBytes(Backend* backend) {
  CudaBackendOf(backend)->Enter();
  size_t free_bytes = 0, total_bytes = 0;
  SOAP_DEVICE_OR_DIE(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes;
}

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options) {
  SOAP_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Backend>> made, MakeCudaBackends(options, 1));
  return std::move(made.front());
}

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> MakeCudaBackends(const CudaOptions& options,
                                                                       size_t count) {
  CHECK_GE(count, 1u);
  SOAP_RETURN_IF_ERROR(CheckDevice(options));
  CudaOptions of_each = options;
  if (options.workspace_bytes_total > 0) {
    of_each.workspace_bytes_max = options.workspace_bytes_total / count;
  }
  const auto measured = std::make_shared<MeasuredConvolutions>();
  std::vector<std::unique_ptr<Backend>> backends;
  for (size_t i = 0; i < count; ++i) {
    auto backend = std::make_unique<CudaBackend>(of_each, measured);
    SOAP_RETURN_IF_ERROR(backend->Open());
    backends.push_back(std::move(backend));
  }
  return backends;
}

absl::StatusOr<std::unique_ptr<StepGraph>> RecordStep(Backend* backend, uint64_t step,
                                                      uint64_t first_sample,
                                                      absl::FunctionRef<void()> calls) {
  CudaBackend* const cuda = CudaBackendOf(backend);
  SOAP_ASSIGN_OR_RETURN(std::shared_ptr<void> keys, cuda->Allocate(2 * sizeof(uint64_t)));
  auto graph = std::make_unique<CudaStepGraph>(cuda, std::move(keys));
  const absl::Status recorded = graph->Record(step, first_sample, calls);
  if (!recorded.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the step cannot be recorded: ", recorded.message()));
  }
  return graph;
}

void DeviceFlatten(Backend* backend, absl::Span<const DeviceSlice> slices, float* flat,
                   bool to_flat) {
  CudaBackend* const cuda = CudaBackendOf(backend);
  cuda->Enter();
  for (size_t next = 0; next < slices.size();) {
    SliceTable table;
    while (next < slices.size() && table.count < kSlicesAtOnce) {
      // Written to only where the slices are what is filled.
      table.slice[table.count] = const_cast<float*>(slices[next].data);
      table.begin[table.count + 1] = table.begin[table.count] + slices[next].n;
      ++table.count;
      ++next;
    }
    CopySlices(cuda->context()->stream, table, flat, to_flat);
    flat += table.begin[table.count];
  }
}

namespace {

DeviceOptimizer DeviceKindOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return DeviceOptimizer::kSgd;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return DeviceOptimizer::kMomentum;
    case OptimizerKind::kAdagrad:
      return DeviceOptimizer::kAdagrad;
    case OptimizerKind::kRmsprop:
      return DeviceOptimizer::kRmsprop;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
      return DeviceOptimizer::kAdam;
    case OptimizerKind::kFtrl:
      return DeviceOptimizer::kFtrl;
  }
  LOG(FATAL) << "optimizer kind " << static_cast<int>(kind);
}

// Rounded as PassOf and Unbias of optimizer_pass.h do.
DeviceOptimizerPass DevicePassOf(const OptimizerSpec& spec, const DeviceUpdate& update) {
  const Update& u = update.update;
  const bool decoupled = spec.kind == OptimizerKind::kAdamw;
  DeviceOptimizerPass pass;
  pass.kind = DeviceKindOf(spec.kind);
  pass.nesterov = spec.kind == OptimizerKind::kNesterov;
  pass.lr = static_cast<float>(u.lr);
  pass.scale = static_cast<float>(u.scale);
  pass.l2 = static_cast<float>(decoupled ? 0 : u.fraction * spec.decay);
  if (decoupled) pass.keep = static_cast<float>(1 - u.lr * u.fraction * spec.decay);
  if (pass.kind == DeviceOptimizer::kAdam) {
    const double t = static_cast<double>(update.steps);
    pass.rate = static_cast<float>(pass.lr / (1 - std::pow(spec.beta1, t)));
    pass.unbias = static_cast<float>(1 / (1 - std::pow(spec.beta2, t)));
  }
  pass.mu = static_cast<float>(spec.mu);
  pass.beta1 = static_cast<float>(spec.beta1);
  pass.rest1 = static_cast<float>(1 - spec.beta1);
  pass.beta2 = static_cast<float>(spec.beta2);
  pass.rest2 = static_cast<float>(1 - spec.beta2);
  pass.rho = static_cast<float>(spec.rho);
  pass.rest_rho = static_cast<float>(1 - spec.rho);
  pass.eps = static_cast<float>(spec.eps);
  pass.beta = static_cast<float>(spec.beta);
  pass.l1 = static_cast<float>(spec.l1);
  pass.ftrl_l2 = static_cast<float>(spec.l2);
  return pass;
}

}  // namespace

void DeviceApply(Backend* backend, const OptimizerSpec& spec, const DeviceUpdate& update) {
  CudaBackend* const cuda = CudaBackendOf(backend);
  cuda->Enter();
  const Moments moments = MomentsOf(spec.kind);
  CHECK(!moments.first || update.first != nullptr);
  CHECK(!moments.second || update.second != nullptr);
  DeviceOptimizerPass pass = DevicePassOf(spec, update);
  pass.n = update.n;
  pass.gradient = update.gradient;
  pass.w = update.param;
  pass.first = update.first;
  pass.second = update.second;
  RunOptimizer(cuda->context()->stream, pass);
}

}  // namespace soapstone::compute
