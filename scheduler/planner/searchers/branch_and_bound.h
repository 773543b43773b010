// Exhaustive search with proof: no strategy of the space is better.
#pragma once

#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// All of Space::Configs for every operator, under every way to synchronize, servers with equal
// shares of every group: the strategies are a
// tree, an operator a level, and what cannot be better than the best so far (domain_bounds.h) is
// cut off. Begins with what the random walk finds, and its nearest strategy of the space. `proved`
// says that the whole tree was looked into or cut off: then no strategy of the space is faster than
// the result, and `note` tells the best of the space where the result, from the walk, is outside
// of it. `visited` counts the partial strategies that were bounded, `pruned` the configurations
// that bounds took out of them, each a tree that was not entered. Exchanging identical devices
// gives strategies of the space only where no operator is on more than a pair of them (its blocks
// of devices have one order each), so nothing is left out for it. Where proposals are counted, a
// thousandth of them are the walk's. For a few operators and devices; where tables would take over
// 64 MB it does not begin.
class BranchAndBoundSearcher : public Searcher {
 public:
  std::string_view name() const override { return "bnb"; }
  std::string_view about() const override {
    return "branch and bound from the random walk's plan: proves small cases";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

}  // namespace soapstone::planner
