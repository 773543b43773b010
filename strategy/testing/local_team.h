// LocalTeam: all workers of a team in one process and on one thread, each with its section, which
// hand their messages over directly: what a split computes, without a cluster. For tests.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/random.h"
#include "models/runtime/section_runner.h"
#include "strategy/lowering.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

using Tensors = std::vector<std::vector<float>>;

// What a step of a model leaves. Gradients are summed over samples.
struct StepResult {
  double loss = 0, correct = 0;
  std::vector<Tensors> leaves;  // by micro-batch, by parameter of the model
  // Over all micro-batches, ascending.
  Tensors Gradients() const;
};

// The samples of a batch, by input of the model.
struct Batch {
  std::vector<std::vector<std::byte>> fields;
  std::vector<std::vector<int64_t>> shapes;
  int64_t samples = 0;
};

// Which seat goes on when several can.
enum class SeatTurns : uint8_t { kAscending, kDescending, kShuffled };

struct LocalTeamOptions {
  std::shared_ptr<compute::Backend> backend;  // null: the CPU
  uint64_t seed = 0;                          // of dropout
  SeatTurns turns = SeatTurns::kAscending;
  bool training = true;                         // false: forward halves, no gradients
  std::function<void(models::Section*)> spoil;  // a fault, in every seat's section; null: none
};

class LocalTeam {
 public:
  static absl::StatusOr<std::unique_ptr<LocalTeam>> Create(OpGraph graph, const Strategy& strategy,
                                                           const Order& order,
                                                           LocalTeamOptions options);
  const TeamProgram& program() const { return program_; }
  const models::SectionRunner& seat(size_t i) const { return *seats_[i]; }

  // values: by parameter of the model, whole.
  void SetParams(const Tensors& values);
  // Error: seats that wait for each other.
  absl::StatusOr<StepResult> Step(const Batch& batch, uint64_t step);

 private:
  LocalTeam(OpGraph graph, LocalTeamOptions options)
      : graph_(std::move(graph)), options_(std::move(options)) {}
  // Runs the seat's next step; whether it could.
  bool RunNext(size_t seat, StepResult* result);
  void RunBackward(size_t seat, uint32_t part, StepResult* result);

  OpGraph graph_;
  LocalTeamOptions options_;
  TeamProgram program_;
  std::vector<std::unique_ptr<models::SectionRunner>> seats_;
  std::vector<size_t> at_;                // by seat: its next step
  std::map<uint32_t, Buffer> under_way_;  // by message
};

}  // namespace soapstone::planner
