// The random walk of mcmc.h as a searcher: with seeds of its own, and walk after walk where a time
// is given.
#pragma once

#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// From the problem's seeds; where it has none, from data, model and expert parallelism, m-ETF,
// Tofu, AccPar and OptCNN, the best of them improved kind by kind (hill_climbing.h) and weight
// group by parameter group. Under a time, seeds have a fifth of it: what is not begun by then is
// left out, and OptCNN, Tofu and AccPar stop. A walk must know its length, as it cools down along
// it: under a time, walks follow one another, each from the seeds and the best so far, the shorter
// the colder. A walk keeps to one way to synchronize: a short one for each way, a longer one for
// each that is not far off, then half of the time that is left again and again for the best's. In
// the end a climb and a descent over operators. Without a time it is one walk of `proposals`.
class AnnealingSearcher : public Searcher {
 public:
  std::string_view name() const override { return "mcmc"; }
  bool searches_staleness() const override { return true; }
  std::string_view about() const override {
    return "a random walk from the plans of simpler searchers, then a descent";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

}  // namespace soapstone::planner
