// The least sum of costs of choices and of pairs of choices: exact, by eliminating variables of a
// graph one after the other (Jia et al. 2018, "Exploring Hidden Dimensions in Parallelizing
// Convolutional Neural Networks", section 5). Knows nothing of what is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/ids.h"

namespace soapstone::planner {

// minimize over x:  Σ_i nodes[i][x_i] + Σ_e edges[e].costs[x_a · |nodes[b]| + x_b]
struct PairwiseProblem {
  struct Edge {
    uint32_t a = 0, b = 0;  // a ≠ b
    std::vector<Nanos> costs;
  };
  std::vector<std::vector<Nanos>> nodes;  // costs ≥ 0 of at least one choice each
  std::vector<Edge> edges;                // parallel ones add up
};

struct EliminationOptions {
  uint64_t steps_max = 2'000'000;  // of the enumeration of what is left
  size_t beam = 256;               // of the beam that begins it
  std::function<bool()> stop;      // asked now and then; may be empty
};

struct PairwiseMinimum {
  std::vector<uint32_t> choice;
  Nanos cost = 0;
  bool exact = false;     // else the enumeration was cut short, and better ones may exist
  bool complete = true;   // false: `stop` said so before there was a choice; all are 0
  uint32_t residual = 0;  // nodes that elimination left
};

// Of a choice.
Nanos CostOf(const PairwiseProblem& problem, const std::vector<uint32_t>& choice);

// A node j with neighbours i and k (or with i alone, or none) is eliminated:
//   new edge (i, k) [x_i, x_k] = min over x_j of node_j[x_j] + edge_ij[x_i, x_j] + edge_jk[x_j,
//   x_k]
// and edges between the same nodes are added up, until every node has three neighbours or more.
// Those are enumerated depth first from the best of a beam, and choices whose partial sum and least
// rest reach the best so far are passed over. O(E·C³) but for these.
PairwiseMinimum Minimize(const PairwiseProblem& problem, const EliminationOptions& options = {});

}  // namespace soapstone::planner
