#include "models/runtime/graph_runner_device.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::models {
namespace {

// Unless they are said: segments whose parameters take as many bytes as a bucket has by default.
constexpr size_t kSegmentBytes = size_t{1} << 20;

}  // namespace

ReplicaDevice::ReplicaDevice(compute::Backend* backend, const Graph* graph)
    : backend_(backend), graph_(graph), fetched_(graph->ops().size()) {
  std::vector<uint32_t> begins;
  size_t bytes = 0;
  for (size_t k = graph_->ops().size(); k-- > 1;) {
    for (ParamId id : graph_->ops()[k].params)
      bytes += graph_->param(id).elements() * sizeof(float);
    if (bytes < kSegmentBytes) continue;
    begins.push_back(static_cast<uint32_t>(k));
    bytes = 0;
  }
  std::reverse(begins.begin(), begins.end());
  Cut(std::move(begins));
}

absl::StatusOr<std::unique_ptr<ReplicaDevice>> ReplicaDevice::Create(compute::Backend* backend,
                                                                     const Graph* graph) {
  std::unique_ptr<ReplicaDevice> device(new ReplicaDevice(backend, graph));
  for (const ParamSpec& spec : graph->params()) {
    const size_t bytes = spec.elements() * sizeof(float);
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<void> param, backend->Allocate(bytes));
    SOAP_ASSIGN_OR_RETURN(std::shared_ptr<void> gradient, backend->Allocate(bytes));
    device->params_.push_back({.memory = std::move(param)});
    device->gradients_.push_back(std::move(gradient));
  }
  return device;
}

void ReplicaDevice::Cut(std::vector<uint32_t> begins) {
  CHECK(std::is_sorted(begins.begin(), begins.end()));
  begins_.assign(1, 0);
  for (const uint32_t begin : begins) {
    CHECK_LT(begin, graph_->ops().size());
    if (begin > begins_.back()) begins_.push_back(begin);
  }
  begins_.push_back(graph_->ops().size());
  ran_backward_.assign(begins_.size() - 1, 0);
}

size_t ReplicaDevice::SegmentOf(size_t op) const {
  return static_cast<size_t>(std::upper_bound(begins_.begin(), begins_.end(), op) -
                             begins_.begin()) -
         1;
}

compute::Format ReplicaDevice::FormatOf(ParamId id) const {
  return compute::PlainFormat({.type = DataType::kFloat32, .shape = graph_->param(id).shape});
}

// What a step's forward pass writes may still be read by the copy of the last one's loss; what its
// backward pass writes, by copies of gradients.
void ReplicaDevice::Begin() {
  backend_->Await(loss_fetched_);
  step_begun_ = backend_->Mark();
  forward_begun_ = 0;
}

absl::Status ReplicaDevice::Record(uint64_t step, uint64_t first_sample, bool training,
                                   RunOp forward, RunOp backward, RecordedStep* recorded) {
  recorded->forward.clear();
  recorded->backward.clear();
  for (size_t s = 0; s + 1 < begins_.size(); ++s) {
    const auto run_forward = [&] {
      for (size_t k = begins_[s]; k < EndOf(s); ++k) forward(k);
    };
    SOAP_ASSIGN_OR_RETURN(std::unique_ptr<compute::Recording> made,
                          backend_->Record(step, first_sample, run_forward));
    recorded->forward.push_back(std::move(made));
    if (!training) continue;
    const auto run_backward = [&] {
      for (size_t k = EndOf(s); k-- > begins_[s];) backward(k);
    };
    SOAP_ASSIGN_OR_RETURN(made, backend_->Record(step, first_sample, run_backward));
    recorded->backward.push_back(std::move(made));
  }
  return absl::OkStatus();
}

void ReplicaDevice::Watch() {
  watched_ = true;
  backend_->Watch();
}

std::vector<compute::QueueSpan> ReplicaDevice::Unwatch() {
  watched_ = false;
  return backend_->Unwatch();
}

void ReplicaDevice::SendParam(ParamId id, const float* values) {
  Param& param = params_[soapstone::Index(id)];
  backend_->NameCopies(graph_->param(id).name);
  param.sent = param_sent_ =
      backend_->ImportAsync(values, FormatOf(id), param.memory.get(), step_begun_);
}

// Of one operator its name, else the first's and the last's that run.
void ReplicaDevice::NameSegment(size_t begin, size_t end, absl::string_view half) const {
  if (!watched_) return;
  const bool backward = half == "backward";
  const std::string& first = graph_->ops()[backward ? end - 1 : begin].name;
  const std::string& last = graph_->ops()[backward ? begin : end - 1].name;
  backend_->Name(begin + 1 == end ? absl::StrCat(first, " ", half)
                                  : absl::StrCat(first, " .. ", last, " ", half));
}

void ReplicaDevice::Forward(size_t op, const StepRun& run, bool at_once, RunOp forward) {
  const size_t segment = SegmentOf(op);
  const bool whole = run.recorded != nullptr && forward_begun_ == begins_[segment];
  if (whole && !at_once) {
    if (op + 1 < EndOf(segment)) return;
    backend_->Await(param_sent_);
    NameSegment(begins_[segment], EndOf(segment), "forward");
    run.recorded->forward[segment]->Run(run.step, run.first_sample);
    forward_begun_ = EndOf(segment);
  } else {
    backend_->Await(param_sent_);
    for (; forward_begun_ <= op; ++forward_begun_) {
      NameSegment(forward_begun_, forward_begun_ + 1, "forward");
      forward(forward_begun_);
    }
  }
  backend_->Name("");
}

void ReplicaDevice::Backward(const StepRun& run, RunOp backward) {
  backend_->Await(gradient_fetched_);
  for (size_t s = begins_.size() - 1; s-- > 0;) {
    if (run.recorded != nullptr) {
      NameSegment(begins_[s], EndOf(s), "backward");
      run.recorded->backward[s]->Run(run.step, run.first_sample);
    } else {
      for (size_t k = EndOf(s); k-- > begins_[s];) {
        NameSegment(k, k + 1, "backward");
        backward(k);
      }
    }
    backend_->Name("");
    ran_backward_[s] = backend_->Mark();
  }
}

void ReplicaDevice::FetchGradients(size_t op, absl::Span<const absl::Span<float>> to) {
  const std::vector<ParamId>& params = graph_->ops()[op].params;
  const uint64_t after = ran_backward_[SegmentOf(op)];
  for (size_t i = 0; i < params.size(); ++i) {
    CHECK_EQ(to[i].size(), graph_->param(params[i]).elements());
    if (watched_) backend_->NameCopies(absl::StrCat("grad ", graph_->param(params[i]).name));
    gradient_fetched_ =
        backend_->ExportAsync(FormatOf(params[i]), gradient(params[i]), to[i].data(), after);
  }
  fetched_[op] = gradient_fetched_;
}

void ReplicaDevice::FetchLoss(const void* loss, int64_t samples, float* to) {
  backend_->NameCopies("loss");
  loss_fetched_ =
      backend_->ExportAsync(compute::PlainFormat({.shape = {samples}}), loss, to, backend_->Mark());
}

}  // namespace soapstone::models
