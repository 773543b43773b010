// Random things to split, and random ways to split them. For tests.
#pragma once

#include <cstdint>
#include <string>

#include "base/random.h"
#include "models/graph/graph.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"
#include "strategy/testing/local_team.h"

namespace soapstone::planner {

// Draws in a row.
class Draws {
 public:
  explicit Draws(uint64_t seed, uint64_t stream = 0) : random_(seed, RandomUse::kTest, stream) {}
  // In [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random_.Below(count_++, high - low + 1));
  }
  bool Coin(int64_t of = 2) { return Between(1, of) == 1; }
  float Normal() { return static_cast<float>(random_.Normal(count_++)); }

 private:
  const CounterRandom random_;
  uint64_t count_ = 0;
};

struct SplitOptions {
  uint32_t seats = 4;
  uint32_t parts_max = 6;  // of an operator
  bool splits = true;      // false: every operator whole, on some seat
  bool uneven = true;
};

// Along dimensions that run alone.
OpConfig RandomConfig(const PlanOp& op, const SplitOptions& options, Draws* draws);
// Micro-batches of an operator, and its chunks, are split alike where their sizes let them.
Strategy RandomStrategy(const OpGraph& graph, const SplitOptions& options, Draws* draws);
// Operators in a row on each seat, all micro-batches alike: a pipeline, of as many stages as there
// are operators at most.
Strategy RandomPipeline(const OpGraph& graph, uint32_t seats, Draws* draws);

// A model whose one interesting operator is of a random kind and shape, with parameters before and
// behind it, by whose gradients those of its inputs and outputs show. op: its index.
struct OneOperator {
  models::Graph graph;
  uint32_t op = 0;
};
OneOperator RandomOperator(Draws* draws);

// Normal numbers; for integers those of their range, which is `classes` for labels and what the
// embeddings that read a field hold.
Batch RandomBatch(const models::Graph& graph, int64_t samples, uint64_t seed);
// As jobs begin with.
Tensors InitialParams(const models::Graph& graph, uint64_t seed);

// The model whole, micro-batch by micro-batch.
absl::StatusOr<StepResult> WholeStep(const models::Graph& graph, const OpGraph& plan,
                                     const Tensors& params, const Batch& batch, uint64_t step,
                                     const LocalTeamOptions& options);

}  // namespace soapstone::planner
