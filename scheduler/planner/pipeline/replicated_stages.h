// Pipelines whose stages are blocks of several devices each, a node's for instance, with the
// samples of every micro-batch split within: between data parallelism, which is one block of all,
// and GPipe, whose blocks are single devices. Called by searchers.
#pragma once

#include <cstdint>
#include <vector>

#include "scheduler/planner/pipeline/pipeline_stages.h"

namespace soapstone::planner {

struct BlockPlan {
  std::vector<PipelineStage> stages;  // in order, those that have layers
  double stage_ns = 0;  // of a micro-batch, the first, forward and backward, in the slowest
  double step_ns = 0;  // estimated: (m + k − 1) · stage_ns, m micro-batches in k stages (gpipe.h)
};

// Contiguous stages on `blocks` blocks of neighbouring devices, of as many devices each, the
// slowest as fast as it can be (gpipe.h BalanceStages) where a layer takes what its slowest part
// does, split by samples over a block; transfers and synchronization do not count. REQUIRES: blocks
// divides the machine's devices.
BlockPlan BalanceBlocks(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                        uint32_t blocks);

// Those of more than one stage, with each number of blocks that divides the devices, by step_ns.
std::vector<BlockPlan> BlockPlans(const OpGraph& graph, const Machine& machine,
                                  const CostModel& costs);

}  // namespace soapstone::planner
