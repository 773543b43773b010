// One interface for all that look for strategies, from what people do without a search to proofs of
// the optimum. searcher_list.h has them by name. Called by `soapstone plan`, by comparisons, and by
// any program that plans without a cluster. Values in, values out: reads no clock, keeps nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/search/space.h"
#include "scheduler/planner/simulator/simulator.h"
#include "scheduler/planner/simulator/strategy_evaluator.h"

namespace soapstone::planner {

struct SearchProgress {
  uint64_t proposals = 0, proposals_max = 0;  // of all chains
  Score best;
};

struct SearchOptions {
  uint64_t seed = 1;
  // The budget of a search that is not timed: of mcmc for each chain, of random and greedy in all;
  // of branch and bound partial strategies.
  uint64_t proposals = 100'000;
  // Chains at rising temperatures, which exchange their strategies now and then; on so many
  // threads. The result is a function of seed, proposals and chains.
  uint32_t chains = 2, threads = 1;
  // Inverse temperatures of the coldest chain, first and last, over the best seed's step time t₀:
  // a step longer by x·t₀ is taken with probability exp(−β·x). Each further chain has a third.
  double beta_first = 50, beta_last = 50'000;
  bool early_rejection = true;
  bool descend = true;  // to a strategy that no change of one operator improves
  SimulatorOptions simulator;
  std::function<bool()> stop;  // asked every few proposals, also from threads; may be empty
  // The share of a time that is used up, from 0 on: the search ends soon after 1, and `proposals`
  // is no limit. Asked as `stop` is. Empty: the search is not timed.
  std::function<double()> used;
  // Asked while one strategy is priced, which on a thousand devices may take longer than there is:
  // where it says so, the strategy is left out. From several threads at once; empty: none is left
  // out.
  std::function<bool()> give_up;
  std::function<void(const SearchProgress&)> progress;  // by rounds; may be empty

  bool ShouldStop() const { return (stop && stop()) || (used && used() >= 1); }
};

struct SearchResult {
  Strategy strategy;
  Score found;
  Score best_seed;               // of searches that begin at seeds
  bool locally_optimal = false;  // no configuration of Space::Configs of one operator is better
  bool proved = false;           // no strategy of the space that was covered is better: see `note`
  uint64_t accepted = 0;
  ProposalCounts counts;
  uint64_t visited = 0,
           pruned = 0;        // partial strategies that a branch and bound looked into or not
  uint64_t chain_digest = 0;  // of all accepted step times, in order
  std::string note;           // what a reader should know: a sentence or none
};

// What is to be planned. Pointers and span must outlive the search.
struct SearchProblem {
  const Space* space = nullptr;
  const CostModel* costs = nullptr;
  absl::Span<const Strategy> seeds;  // where a search begins, if it begins somewhere; none: its own
  // Found before: where the walk begins besides, whether the seeds are given or its own.
  absl::Span<const Strategy> known;
  // The ways to synchronize among which it chooses; none: all that the machine has.
  absl::Span<const Synchronization> only_ways;
  // What is priced already, and where more is put; nullptr: each search begins anew.
  CostCache* prices = nullptr;

  const OpGraph& graph() const { return space->graph(); }
  const Machine& machine() const { return space->machine(); }
  std::vector<Synchronization> ways() const;
};

// Threading: const methods from several threads at once; a search's state is its own.
class Searcher {
 public:
  virtual ~Searcher() = default;
  virtual std::string_view name() const = 0;   // as --search takes it
  virtual std::string_view about() const = 0;  // a line for --help
  // False: a fixed rule, which is what the caller wants to see however slow it is.
  virtual bool is_search() const { return true; }
  // True: where iterations may overlap, its plan of a step is a beginning from which
  // SearchStaleness (scheduler/planner/pipeline/stale_search.h) goes on, and it leaves some of its
  // time for that.
  virtual bool searches_staleness() const { return false; }
  // The best it finds, priced by the simulator of `options`. Errors: InvalidArgument: a seed is no
  // strategy for the space's graph and machine. DeadlineExceeded: what it would begin with is given
  // up.
  virtual absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                              const SearchOptions& options) const = 0;
};

// Runs a searcher, and prices what it finds once more by a simulator of its own. Where data
// parallelism is better than what was searched for, it is the result, and `note` says so.
absl::StatusOr<SearchResult> RunSearcher(const Searcher& searcher, const SearchProblem& problem,
                                         const SearchOptions& options);

// The result of a searcher that comes to one strategy: with the synchronization that suits it best.
// It may be given up, and then is not priced.
absl::StatusOr<SearchResult> PricedAlone(const SearchProblem& problem, const SearchOptions& options,
                                         Strategy strategy);

}  // namespace soapstone::planner
