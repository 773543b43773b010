// Several models, or replicas of one, that step at the same time on one machine or device: where a
// model is too small to fill it, they fill it together. Called by `soapstone profile --replicas`;
// knows no clock and no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "compute/kernel.h"
#include "models/data/mini_batch.h"
#include "models/graph/graph.h"
#include "models/runtime/graph_runner.h"

namespace soapstone::models {

// One of them. Each replica has a backend of its own: of one device, those of MakeCudaBackends.
struct BatchedModel {
  GraphRunner* replica = nullptr;
  const MiniBatch* feed = nullptr;                // the samples of every step
  std::vector<absl::Span<float>> gradients = {};  // by parameter, [elements] f32; written each step
};

// kThreadEach: for backends that compute on the calling thread. kInTurn: for devices, which compute
// beside it: one thread asks each for an operator in turn, so that all streams have work.
enum class ModelTurns : uint8_t { kThreadEach, kInTurn };

// Steps of all at once, with keys 0, 1, ... A model begins another while go_on(its index, steps it
// has done) is true, which its thread asks before each step: for kThreadEach several threads do so
// at once. The parameters stay as they are. Invariant: gradients have the bits that the replica
// gives alone. Error: the first model's that could not begin a step; the others end theirs.
absl::Status RunModelBatch(absl::Span<const BatchedModel> models, ModelTurns turns,
                           absl::FunctionRef<bool(size_t model, uint64_t steps)> go_on);

// What a step of `samples` asks of a backend whose tensors are all plain, operator by operator.
std::vector<compute::KernelRequest> PlainRequests(const Graph& graph, int64_t samples);

}  // namespace soapstone::models
