#include "apps/predict/graph_predictor.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/ids.h"
#include "base/status_macros.h"
#include "models/runtime/model_input.h"

namespace soapstone::apps {
namespace {

constexpr int64_t kSamplesMax = 256;
constexpr int64_t kElementsMax = int64_t{1} << 22;  // of the widest tensor

}  // namespace

absl::StatusOr<std::unique_ptr<models::GraphRunner>> MakeTrainedRunner(
    const models::Graph& graph, const compute::GivenValues& values,
    std::shared_ptr<compute::Backend> backend) {
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<models::GraphRunner> runner,
                        models::GraphRunner::Create(graph, {.backend = std::move(backend)}));
  for (uint32_t p = 0; p < values.size(); ++p) {
    std::copy(values[p].begin(), values[p].end(), runner->param(ParamId{p}).begin());
  }
  return runner;
}

absl::StatusOr<GraphPredictor> GraphPredictor::Create(const models::Graph& graph,
                                                      const compute::GivenValues& values,
                                                      std::shared_ptr<compute::Backend> backend) {
  SOAP_ASSIGN_OR_RETURN(std::unique_ptr<models::GraphRunner> runner,
                        MakeTrainedRunner(graph, values, std::move(backend)));
  return GraphPredictor(std::move(runner));
}

int64_t GraphPredictor::classes() const { return runner_->graph().classes(); }

int64_t GraphPredictor::places() const {
  const models::Graph& graph = runner_->graph();
  return graph.tensor(graph.logits()).elements() / graph.classes();
}

absl::StatusOr<std::vector<float>> GraphPredictor::Logits(const models::MiniBatch& feed) {
  SOAP_RETURN_IF_ERROR(runner_->Begin(feed.samples, models::FieldsOf(feed), {.training = false}));
  for (size_t op = 0; op < runner_->graph().ops().size(); ++op) runner_->ForwardOp(op);
  return runner_->logits();
}

void Softmax(absl::Span<float> logits) {
  const float most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float& z : logits) {
    z = std::exp(z - most);
    sum += static_cast<double>(z);
  }
  for (float& z : logits) z = static_cast<float>(static_cast<double>(z) / sum);
}

double Sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

std::vector<int64_t> Largest(absl::Span<const float> values, int64_t n) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min<int64_t>(n, std::ssize(order));
  std::partial_sort(order.begin(), end, order.end(), [&](int64_t a, int64_t b) {
    const float x = values[static_cast<size_t>(a)];
    const float y = values[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  });
  order.erase(end, order.end());
  return order;
}

int64_t BatchOf(const models::Graph& graph) {
  int64_t widest = 1;
  for (const models::Tensor& tensor : graph.tensors()) {
    widest = std::max(widest, tensor.elements());
  }
  return std::clamp(kElementsMax / widest, int64_t{1}, kSamplesMax);
}

std::vector<std::vector<uint64_t>> EvenBatches(uint64_t n, int64_t batch) {
  std::vector<std::vector<uint64_t>> batches;
  if (n == 0) return batches;
  const auto most = static_cast<uint64_t>(batch);
  const uint64_t count = (n + most - 1) / most;
  const uint64_t size = (n + count - 1) / count;
  for (uint64_t begin = 0; begin < n; begin += size) {
    std::vector<uint64_t>& samples = batches.emplace_back(size);
    for (uint64_t i = 0; i < size; ++i) samples[i] = std::min(begin + i, n - 1);
  }
  return batches;
}

}  // namespace soapstone::apps
