#include "compute/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "compute/cuda/device_context.h"
#include "compute/cuda/device_queues.h"
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

namespace {

// Of this thread's recording: the first call that failed. Null: none is on.
thread_local absl::Status* recording_failure = nullptr;

}  // namespace

void DieOfCall(const absl::Status& failure) {
  if (recording_failure == nullptr) LOG(FATAL) << failure;
  recording_failure->Update(failure);
}

void CheckLaunch(const char* call, cudaError_t error) {
  const absl::Status launched = DeviceStatus(call, error);
  if (!launched.ok()) DieOfCall(launched);
}

namespace {

constexpr size_t kCublasWorkspaceBytes = size_t{32} << 20;  // what it asks for on Hopper
constexpr int kCapabilityMin = 75;                          // the least that is compiled for

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
  void Clear(void* tensor, size_t bytes) override;
  absl::StatusOr<std::shared_ptr<void>> AllocatePinned(size_t bytes) override;
  uint64_t Mark() override;
  uint64_t ImportAsync(const void* plain, const Format& format, void* tensor,
                       uint64_t after) override;
  uint64_t ExportAsync(const Format& format, const void* tensor, void* plain,
                       uint64_t after) override;
  void Await(uint64_t point) override;
  void Wait(uint64_t point) override;
  bool Done(uint64_t point) override;
  void Finish() override;
  absl::StatusOr<std::unique_ptr<Recording>> Record(uint64_t step, uint64_t first_sample,
                                                    absl::FunctionRef<void()> calls) override;
  void Watch() override;
  void Name(std::string_view name) override;
  void NameCopies(std::string_view name) override { copies_ = name; }
  std::vector<QueueSpan> Unwatch() override;

  void Enter() const { SOAP_DEVICE_OR_DIE(cudaSetDevice(context_.options.device)); }
  DeviceContext* context() { return &context_; }
  // Starts what was recorded.
  void Run(cudaGraphExec_t recorded, uint64_t step, uint64_t first_sample);

 private:
  uint64_t Copy(Queue queue, void* to, const void* from, size_t bytes, uint64_t after);
  absl::StatusOr<cudaGraphExec_t> RecordGraph(absl::FunctionRef<void()> calls);

  DeviceContext context_;
  DeviceQueues queues_;
  std::shared_ptr<void> cublas_workspace_;
  std::shared_ptr<void> keys_;                       // of recordings: DeviceContext::keys
  std::optional<std::array<uint64_t, 2>> set_keys_;  // what they are
  std::string copies_;                               // what copies are called while watched
};

absl::Status CudaBackend::Open() {
  SOAP_ASSIGN_OR_RETURN(context_.libraries, LoadDeviceLibraries());
  SOAP_DEVICE_OR_RETURN(cudaSetDevice(context_.options.device));
  SOAP_RETURN_IF_ERROR(queues_.Open());
  context_.stream = queues_.stream(Queue::kCompute);
  SOAP_ASSIGN_OR_RETURN(keys_, Allocate(2 * sizeof(uint64_t)));
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
  if (context_.stream != nullptr) (void)cudaStreamSynchronize(context_.stream);
  if (context_.cudnn != nullptr) (void)context_.libraries->cudnnDestroy(context_.cudnn);
  if (context_.cublas != nullptr) (void)context_.libraries->cublasDestroy_v2(context_.cublas);
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

void CudaBackend::Clear(void* tensor, size_t bytes) {
  Enter();
  SOAP_DEVICE_OR_DIE(cudaMemsetAsync(tensor, 0, bytes, context_.stream));
}

uint64_t CudaBackend::Mark() {
  Enter();
  return queues_.Mark(Queue::kCompute);
}

uint64_t CudaBackend::Copy(Queue queue, void* to, const void* from, size_t bytes, uint64_t after) {
  Enter();
  queues_.Await(queue, after);
  queues_.Name(queue, copies_);
  const auto kind = queue == Queue::kToDevice ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  SOAP_DEVICE_OR_DIE(cudaMemcpyAsync(to, from, bytes, kind, queues_.stream(queue)));
  queues_.Name(queue, "");
  return queues_.Mark(queue);
}

uint64_t CudaBackend::ImportAsync(const void* plain, const Format& format, void* tensor,
                                  uint64_t after) {
  return Copy(Queue::kToDevice, tensor, plain, format.bytes, after);
}

uint64_t CudaBackend::ExportAsync(const Format& format, const void* tensor, void* plain,
                                  uint64_t after) {
  return Copy(Queue::kFromDevice, plain, tensor, format.bytes, after);
}

void CudaBackend::Await(uint64_t point) {
  Enter();
  queues_.Await(Queue::kCompute, point);
}

void CudaBackend::Wait(uint64_t point) {
  Enter();
  queues_.Wait(point);
}

bool CudaBackend::Done(uint64_t point) {
  Enter();
  return queues_.Done(point);
}

void CudaBackend::Finish() {
  Enter();
  queues_.Finish();
}

void CudaBackend::Watch() {
  Enter();
  queues_.Watch();
}

void CudaBackend::Name(std::string_view name) {
  Enter();
  queues_.Name(Queue::kCompute, name);
}

std::vector<QueueSpan> CudaBackend::Unwatch() {
  Enter();
  return queues_.Unwatch();
}

CudaBackend* CudaBackendOf(Backend* backend) {
  auto* const cuda = dynamic_cast<CudaBackend*>(backend);
  CHECK(cuda != nullptr) << "not a cuda backend: " << backend->name();
  return cuda;
}

class CudaRecording : public Recording {
 public:
  CudaRecording(CudaBackend* backend, cudaGraphExec_t recorded)
      : backend_(backend), recorded_(recorded) {}
  ~CudaRecording() override {
    backend_->Finish();
    (void)cudaGraphExecDestroy(recorded_);
  }
  void Run(uint64_t step, uint64_t first_sample) override {
    backend_->Run(recorded_, step, first_sample);
  }

 private:
  CudaBackend* const backend_;
  const cudaGraphExec_t recorded_;
};

// Segments of a step have the same keys, which are then set once. They are of this thread's stack:
// a copy from there has left it when the call returns.
void CudaBackend::Run(cudaGraphExec_t recorded, uint64_t step, uint64_t first_sample) {
  Enter();
  const std::array<uint64_t, 2> keys = {step, first_sample};
  if (set_keys_ != keys) {
    SOAP_DEVICE_OR_DIE(cudaMemcpyAsync(keys_.get(), keys.data(), sizeof(keys),
                                       cudaMemcpyHostToDevice, context_.stream));
    set_keys_ = keys;
  }
  SOAP_DEVICE_OR_DIE(cudaGraphLaunch(recorded, context_.stream));
}

absl::StatusOr<std::unique_ptr<Recording>> CudaBackend::Record(uint64_t step, uint64_t first_sample,
                                                               absl::FunctionRef<void()> calls) {
  Finish();
  context_.keys = static_cast<const uint64_t*>(keys_.get());
  context_.recorded_step = step;
  context_.recorded_first_sample = first_sample;
  const absl::StatusOr<cudaGraphExec_t> recorded = RecordGraph(calls);
  context_.keys = nullptr;
  if (!recorded.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the step cannot be recorded: ", recorded.status().message()));
  }
  return std::make_unique<CudaRecording>(this, *recorded);
}

absl::StatusOr<cudaGraphExec_t> CudaBackend::RecordGraph(absl::FunctionRef<void()> calls) {
  SOAP_DEVICE_OR_RETURN(cudaStreamBeginCapture(context_.stream, cudaStreamCaptureModeThreadLocal));
  absl::Status failure;
  recording_failure = &failure;
  calls();
  recording_failure = nullptr;
  cudaGraph_t graph = nullptr;
  // To be ended even if a call failed, for calls to be possible again.
  failure.Update(
      DeviceStatus("cudaStreamEndCapture", cudaStreamEndCapture(context_.stream, &graph)));
  cudaGraphExec_t recorded = nullptr;
  if (failure.ok()) {
    failure.Update(DeviceStatus("cudaGraphInstantiate", cudaGraphInstantiate(&recorded, graph, 0)));
  }
  if (graph != nullptr) (void)cudaGraphDestroy(graph);
  SOAP_RETURN_IF_ERROR(failure);
  return recorded;
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
