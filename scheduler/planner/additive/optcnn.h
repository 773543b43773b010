// OptCNN (Jia et al. 2018) as a searcher: the exact optimum of a cost that adds up, by elimination.
#pragma once

#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// The strategy of least AdditiveCost (additive_cost.h), with the synchronization that suits it
// best. `note` says how many operators were left to be enumerated, and whether that was complete.
// Up to 8 devices over all of Space::Configs that 128 an operator hold; above, over 32.
class OptCnnSearcher : public Searcher {
 public:
  std::string_view name() const override { return "optcnn"; }
  std::string_view about() const override {
    return "the optimum of a cost without overlap, by dynamic programming";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

}  // namespace soapstone::planner
