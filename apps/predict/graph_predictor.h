// GraphPredictor: a trained graph's logits of samples, and what they say. Called by `predict`.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compute/init.h"
#include "compute/kernel.h"
#include "models/data/mini_batch.h"
#include "models/graph/graph.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::apps {

// A replica with the trained values. Errors: those of GraphRunner::Create.
absl::StatusOr<std::unique_ptr<models::GraphRunner>> MakeTrainedRunner(
    const models::Graph& graph, const compute::GivenValues& values,
    std::shared_ptr<compute::Backend> backend);

// One thread.
class GraphPredictor {
 public:
  // As MakeTrainedRunner.
  static absl::StatusOr<GraphPredictor> Create(const models::Graph& graph,
                                               const compute::GivenValues& values,
                                               std::shared_ptr<compute::Backend> backend);

  int64_t classes() const;
  int64_t places() const;  // of a sample that have logits

  // Of the samples of a batch, as evaluation computes them: without dropout, with running
  // statistics. Labels are read, and change nothing. Error: too little memory. [n, places, classes]
  absl::StatusOr<std::vector<float>> Logits(const models::MiniBatch& feed);

 private:
  explicit GraphPredictor(std::unique_ptr<models::GraphRunner> runner)
      : runner_(std::move(runner)) {}

  std::unique_ptr<models::GraphRunner> runner_;
};

// softmax(logits)_k = exp(z_k - max z) / sum_j exp(z_j - max z), in place. logits: [classes]
void Softmax(absl::Span<float> logits);

// σ(z) = 1 / (1 + exp(-z)).
double Sigmoid(double z);

// The `n` largest, the largest first, of equal ones the first. values: [classes]
std::vector<int64_t> Largest(absl::Span<const float> values, int64_t n);

// As many samples as an evaluation computes together: fewer of those that are large.
int64_t BatchOf(const models::Graph& graph);

// Samples 0 to n - 1 in batches of at most `batch`, all of one size, for which kernels are prepared
// once: the last has its last sample again and again, fewer times than there are batches.
std::vector<std::vector<uint64_t>> EvenBatches(uint64_t n, int64_t batch);

}  // namespace soapstone::apps
