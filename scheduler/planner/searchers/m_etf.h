// Placement of whole operators by earliest task first under memory (Jeon et al. 2020, "Baechi: Fast
// Device Placement of Machine Learning Graphs", m-ETF; after Hwang et al. 1989).
#pragma once

#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// Among all operators whose inputs are there and all devices that have room, the pair that can
// start first is placed, again and again:
//   start(o, d) = max(free(d), max over o's inputs a of end(a) + message(a, d))
// with the forward and backward time of an operator as one task, and messages as long as they are
// alone on their way. Weight groups stay together: with its first operator a group's parameters,
// gradients, optimizer state and outputs are reserved on the device. Where no device has room the
// one with most of it takes the group. Ties: the operator and then the device that is first.
Strategy EarliestTaskFirst(const OpGraph& graph, const Machine& machine, const CostModel& costs,
                           double optimizer_floats);

class MetfSearcher : public Searcher {
 public:
  std::string_view name() const override { return "metf"; }
  std::string_view about() const override {
    return "whole operators by earliest task first within memory";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

}  // namespace soapstone::planner
