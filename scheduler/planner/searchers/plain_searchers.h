// The simplest searchers: what people do without a planner, chance, and greed. What a search has to
// beat.
#pragma once

#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// The three of baselines.h and strategy.h, with the synchronization that suits each best.
class DataSearcher : public Searcher {
 public:
  std::string_view name() const override { return "data"; }
  std::string_view about() const override { return "all operators by sample over all devices"; }
  bool is_search() const override { return false; }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

class ModelSearcher : public Searcher {
 public:
  std::string_view name() const override { return "model"; }
  std::string_view about() const override {
    return "whole operators on the devices in order, the greatest load least";
  }
  bool is_search() const override { return false; }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

class ExpertSearcher : public Searcher {
 public:
  std::string_view name() const override { return "expert"; }
  std::string_view about() const override {
    return "LSTMs a layer a device within nodes, else linears by outputs and the rest by sample";
  }
  bool is_search() const override { return false; }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// Every operator, and the synchronization, drawn anew (Space::DrawBlock) `proposals` times; the
// best of them.
class RandomSearcher : public Searcher {
 public:
  std::string_view name() const override { return "random"; }
  std::string_view about() const override { return "strategies drawn at random, the best kept"; }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// From data parallelism: the operators in order, each takes the one of Space::Configs by which the
// step is shortest, all others as they are; twice.
class GreedySearcher : public Searcher {
 public:
  std::string_view name() const override { return "greedy"; }
  std::string_view about() const override {
    return "operator after operator takes the configuration that suits best, twice";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

}  // namespace soapstone::planner
