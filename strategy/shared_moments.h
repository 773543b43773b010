// Batch norm in parts: what is one operator to the planner are two to the workers, each part's
// moments and each part normalized by those of all. So parts meet at an edge like any other, with
// messages forward (moments) and back (their gradients), and compute what the whole does. Values.
#pragma once

#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

struct LoweredStrategy {
  OpGraph graph;
  Strategy strategy;
};

// Whether parts of an operator share statistics under this strategy.
bool SharesMoments(const OpGraph& graph, const Strategy& strategy);

// Operators and edges keep their numbers; what is added stands behind them all, with the same parts
// on the same devices as the batch norm that it is of: its moments, and where what it reads comes
// from other devices a name for it there (".input"). Edges from these lead to operators before
// them. REQUIRES: CheckConfig of each operator.
LoweredStrategy WithMoments(const OpGraph& graph, const Strategy& strategy);

// An order of `lowered` like this one of the operators before: moments stand before what they are
// of, forward and backward, and what has to wait for others' moments lets others of its seat go
// first. timed: TimesOf the order before.
Order WithMoments(const LoweredStrategy& lowered, const TimedOrder& timed);

// Which row of the moments a part writes: parts that differ in channels alone have one together.
int64_t RowOfPart(const PlanOp& op, const OpConfig& config, uint32_t part);

}  // namespace soapstone::planner
