// GPipe (Huang et al. 2019): contiguous stages, one a device, as even as they can be, through which
// a batch passes in micro-batches; parameters are synchronized at the end of each. Called by
// searchers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/planner/pipeline/pipeline_stages.h"

namespace soapstone::planner {

struct GPipeOptions {
  uint32_t stages_max = 0;         // 0: one a device
  int64_t micro_batches_max = 64;  // powers of two up to here and to the batch are tried
};

struct GPipePlan {
  std::vector<PipelineStage> stages;  // of one device each, in order
  int64_t micro_batches = 1;          // to make the operator graph with
  double stage_s = 0;                 // of a micro-batch, forward and backward, in the slowest
  double step_s = 0;                  // estimated: the bubble, and no transfers
};

// Chain of layers on devices in order: times_s[k][l] is layer l's on the device that may have stage
// k. The stages whose greatest time is least, among them those with the latest cuts from the end;
// stages may be empty (a slow device is left out) and are then not listed. devices[0] is k.
//   F(k, j) = min over s ≤ j of max(F(k − 1, s), Σ_{s ≤ l < j} t_k(l))
// O(K·L²). REQUIRES: at least one row, all of one length over 0.
std::vector<PipelineStage> BalanceStages(absl::Span<const std::vector<double>> times_s);

// For each number m of micro-batches the stages balanced at its size, of which
//   step(m) = (m + k − 1) · (slowest stage's time of a micro-batch, ⌈batch/m⌉ samples)
// with k stages; the least, the fewest micro-batches among equals. Without launches and memory
// traffic that do not shrink with the samples this is (m + k − 1)/m of a whole batch's stage, and
// the most micro-batches would be best.
// graph: whole, in one micro-batch; its parameter groups are those of the same model in
// micro-batches. Strategy: StrategyOfStages(that graph, plan.stages, 0).
GPipePlan PlanGPipe(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                    const GPipeOptions& options = {});

}  // namespace soapstone::planner
