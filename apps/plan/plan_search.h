// The searches of `soapstone plan`: one searcher or all of them within a budget, with a meter on a
// terminal. The clock is here; searchers have none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/plan/plan_report.h"
#include "apps/plan/planning.h"
#include "scheduler/planner/pipeline/micro_batch_search.h"
#include "scheduler/planner/search/searcher.h"

namespace soapstone::apps {

// --search of all searchers.
inline constexpr char kAllSearchers[] = "all";

// What --search takes: the searchers' names, and kAllSearchers.
std::vector<std::string> SearchNames();
// Of --help: a line a searcher.
std::string SearchersText();

// Of --micro_batches: "auto" becomes "0". What is wrong with the text; empty: nothing.
std::string ReadMicroBatches(std::string& text);

struct SearchLimits {
  uint64_t seed = 1;
  uint64_t proposals = 0;      // planner::SearchOptions'; 0: the time counts
  double budget_s = 10;        // of each searcher
  bool micro_batches = false;  // choose their number as well
  uint32_t staleness = 0;      // at most, of plans by the walk
};

struct SearchRun {
  planner::SearchResult result;
  SearcherRow row;
  // Of searches that chose the micro-batches: the graph that `result` is for, and what was tried.
  std::unique_ptr<planner::OpGraph> graph;
  std::vector<planner::MicroBatchTrial> trials;
};

// Errors: as of FindSearcher and Searcher::Search.
absl::StatusOr<SearchRun> RunSearch(const Planning& planning, const std::string& name,
                                    const SearchLimits& limits);
// Each of them, one after the other.
absl::StatusOr<std::vector<SearchRun>> RunAllSearches(const Planning& planning,
                                                      const SearchLimits& limits);

}  // namespace soapstone::apps
