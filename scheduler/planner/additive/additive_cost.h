// What a strategy costs if nothing overlaps: a sum over operators and edges (Jia et al. 2018,
// "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks", equation 1), as
// tables over the configurations of each operator. Made for OptCNN's dynamic program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/planner/additive/elimination.h"
#include "scheduler/planner/blocks/op_split.h"
#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

struct AdditiveOptions {
  // Configurations of an operator. All of Space::Configs where they are no more. Else only blocks
  // that begin at device 0 (neighbours, and strided): where nothing overlaps, other blocks of alike
  // devices gain nothing. Of these the cheapest operators by themselves, as many of each product
  // of degrees, data parallelism always among them.
  size_t configs_max = 128;
  size_t table_bytes_max = size_t{64} << 20;  // of all edges' tables; configs_max is halved to fit
  std::function<bool()> stop;                 // asked now and then; may be empty
};

//   t = Σ_o [ C(o) + S(o) ] + Σ_e X(e)
//   C  forward and backward of the slowest part, exchanges included
//   S  synchronization of the parameters by rings: the time of the fullest link, the rounds'
//      latencies, and applying on the device that holds most; of a parameter that n operators share
//      1/n each
//   X  forward and, where a gradient flows, back: the time of the fullest link and the longest
//      latency; messages as the simulator sends them
struct AdditiveCost {
  std::vector<std::vector<OpConfig>> configs;  // [operator][choice]
  PairwiseProblem problem;                     // nodes are operators
  bool complete = true;                        // false: `stop` said so
};
AdditiveCost MakeAdditiveCost(const Space& space, const CostModel& costs,
                              const AdditiveOptions& options = {});

}  // namespace soapstone::planner
