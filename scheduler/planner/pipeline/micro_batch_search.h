// The number of micro-batches, chosen together with the strategy: a searcher plans the model in 1,
// 2, 4, .. micro-batches within a small share of one budget each, and with the rest of it the one
// for which it found the best. Called by `soapstone plan --micro_batches=auto` and by any program
// that plans without a cluster. Reads no clock.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/planner/pipeline/gpipe.h"
#include "scheduler/planner/search/searcher.h"
#include "strategy/op_graph.h"

namespace soapstone::planner {

// What is to be planned. Pointers and span must outlive the search.
struct MicroBatchProblem {
  // The model in so many micro-batches, from 1 to its batch.
  std::function<absl::StatusOr<OpGraph>(int64_t micro_batches)> graph_of;
  const Machine* machine = nullptr;
  const CostModel* costs = nullptr;
  absl::Span<const Synchronization> only_ways;  // as of SearchProblem
};

struct MicroBatchOptions {
  int64_t micro_batches_max = GPipeOptions{}.micro_batches_max;
  // Of a candidate's trial: of the time, or of the proposals of an untimed search. There are
  // 2 + log2(micro_batches_max) candidates at most; the rest is the best one's.
  double trial_share = 1.0 / 16;
  std::function<double()> seconds;  // of the rows, since any moment; empty: they have none
  // Instead of SearchOptions::progress; may be empty.
  std::function<void(int64_t micro_batches, const SearchProgress&)> progress;
};

// What a candidate's trial came to.
struct MicroBatchTrial {
  int64_t micro_batches = 1;
  Score found;
  uint64_t proposals = 0;
  double seconds = 0;
};

struct MicroBatchResult {
  std::unique_ptr<OpGraph> graph;       // in the number that won; `result` is a strategy for it
  SearchResult result;                  // no worse than any of the trials
  std::vector<MicroBatchTrial> trials;  // in the order in which they were made
};

// Candidates are the powers of two up to micro_batches_max and the batch, until two of them one
// after the other are no better than the best before (Found: less overflow, then less time), and
// GPipe's own choice (gpipe.h PlanGPipe), as long as there is budget. The model in one micro-batch
// is always tried. The best, the fewest micro-batches among equals, is then searched with what is
// left, from what its trial found where the searcher begins somewhere.
// Errors: of graph_of and of the searcher.
absl::StatusOr<MicroBatchResult> SearchMicroBatches(const Searcher& searcher,
                                                    const MicroBatchProblem& problem,
                                                    const SearchOptions& options,
                                                    const MicroBatchOptions& micro_batches = {});

}  // namespace soapstone::planner
