// In which order each worker of a team runs the parts that a strategy gives it. All orders are cut
// from one sequence in which the whole team could run, so that no worker waits for another that
// waits for it; sends wait for nobody. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// One half of an operator's part.
struct TaskRef {
  uint32_t op = 0, part = 0;
  bool backward = false;
  friend auto operator<=>(const TaskRef&, const TaskRef&) = default;
};
// By seat: what it runs, in this order.
using Order = std::vector<std::vector<TaskRef>>;

// Whether the operator has a backward half: it has parameters, or something before it has.
bool HasBackward(const OpGraph& graph, const PlanOp& op);

// seats: devices of the strategy, from 0. Each seat that is free takes, of what can run first, a
// backward half before a forward one, of the earliest micro-batch; as if a forward half took one
// unit of time and a backward half two. in_flight: so many micro-batches of which a seat has begun
// the forward pass and not ended the backward pass; 0: all (GPipe: Huang et al. 2019; with as many
// as there are stages behind a seat it is 1F1B: Narayanan et al. 2019).
// REQUIRES: CheckStrategy.
Order CanonicalOrder(const OpGraph& graph, const Strategy& strategy, uint32_t seats,
                     uint32_t in_flight = 0);

// REQUIRES: CheckStrategy, but for where the devices are.
// Errors: InvalidArgument: a task that is not the seat's, is missing or there twice; orders that
// wait for each other, with the tasks at which they do.
absl::Status CheckOrder(const OpGraph& graph, const Strategy& strategy, const Order& order);

// An order with when each task begins, as if a forward half took one unit of time and a backward
// half two. REQUIRES of TimesOf: CheckOrder.
struct TimedTask {
  TaskRef task;
  int64_t start = 0;
};
using TimedOrder = std::vector<std::vector<TimedTask>>;
TimedOrder TimesOf(const OpGraph& graph, const Strategy& strategy, const Order& order);

// An order that keeps to the wishes of the seats where nobody waits for ever by them: of what can
// run, what is to start first does; a seat that wishes all forward halves before all backward ones
// has them so. Of TimesOf an order: that order. REQUIRES: each seat's list has its tasks, each
// once; CheckStrategy, but for where the devices are.
Order Settled(const OpGraph& graph, const Strategy& strategy, const TimedOrder& wished);

}  // namespace soapstone::planner
