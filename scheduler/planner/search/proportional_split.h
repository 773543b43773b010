// Cuts of an operator's dimensions for devices of unlike speeds: parts in proportion to what their
// devices can do. Used by the space, proposals and AccPar. Knows no costs.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "strategy/machine.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

// By device: rates of large products over that of the first device.
std::vector<double> SpeedsOf(const Machine& machine);

// Boundaries between weights.size() parts, in proportion to the weights (each above 0) as far as
// whole units allow: boundary j of U units is the whole number nearest to
//   U · (w_0 + … + w_{j−1}) / (w_0 + … + w_{n−1}),
// moved so far that each part has a unit at least. REQUIRES as many units as parts.
std::vector<int64_t> CutsInProportion(const models::IterationDim& dim,
                                      absl::Span<const double> weights);

// Sets the configuration's cuts. The weight of an index along a dimension is that of all parts with
// this index; a part's is its device's, over the number of parts that the operator has there. Even
// splits have no cuts; nor do dimensions along which all weights are equal.
void CutInProportion(const PlanOp& op, absl::Span<const double> weight_of_device, OpConfig* config);

// Cuts which are those of the even split are taken out.
void DropEvenCuts(const PlanOp& op, OpConfig* config);

// Data parallelism with samples in proportion to speeds: what to do by hand on unlike devices. On
// devices of one speed it is DataParallel.
Strategy DataParallelBySpeed(const OpGraph& graph, const Machine& machine);

}  // namespace soapstone::planner
