// What people do without a planner: the strategies that a search has to beat. Data parallelism is
// strategy.h's.
#pragma once

#include "scheduler/planner/cost/cost_model.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// Whole operators, those of a parameter group together, on the devices in order, so that the device
// with the most work (forward and backward) has as little as it can.
Strategy ModelParallel(const OpGraph& graph, const Machine& machine, const CostModel& costs);

// Where there are lstms: a layer a device within each node, and the nodes share out the samples (Wu
// et al. 2016, section 3). Each lstm, and the last linear operator, begins the next layer; what
// lies between goes with the layer before it. Nodes are used as far as the smallest has devices.
// Else: linear operators split by their outputs over all devices, all others by sample (Krizhevsky
// 2014, "One weird trick").
Strategy ExpertStrategy(const OpGraph& graph, const Machine& machine);

}  // namespace soapstone::planner
