// The searchers of other planners, each by the rule of its paper, as searchers of this one.
#pragma once

#include "scheduler/planner/search/searcher.h"

namespace soapstone::planner {

// mesh_layout.h. The budget bounds the layouts that are simulated.
class MeshSearcher : public Searcher {
 public:
  std::string_view name() const override { return "mesh"; }
  std::string_view about() const override {
    return "Mesh-TensorFlow's layouts of named dimensions";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// tofu.h
class TofuSearcher : public Searcher {
 public:
  std::string_view name() const override { return "tofu"; }
  std::string_view about() const override { return "recursive bisection for the fewest bytes"; }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// accpar.h
class AccParSearcher : public Searcher {
 public:
  std::string_view name() const override { return "accpar"; }
  std::string_view about() const override {
    return "recursive bisection by three types, in unequal parts";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// pipedream.h: its strategies have a staleness.
class PipeDreamSearcher : public Searcher {
 public:
  std::string_view name() const override { return "pipedream"; }
  std::string_view about() const override {
    return "stages and their replicas, as many steps under way as stages";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// replicated_stages.h: of all the numbers of blocks the best, once the simulator has moved the
// boundaries between its stages to where each is best (coordinate_descent.h DescendByStage).
class StagesSearcher : public Searcher {
 public:
  std::string_view name() const override { return "stages"; }
  std::string_view about() const override {
    return "stages of as many devices each, samples split within, for --micro_batches";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

// gpipe.h: stages of one device each, for a graph in micro-batches.
class GPipeSearcher : public Searcher {
 public:
  std::string_view name() const override { return "gpipe"; }
  std::string_view about() const override {
    return "stages of one device each, for --micro_batches";
  }
  absl::StatusOr<SearchResult> Search(const SearchProblem& problem,
                                      const SearchOptions& options) const override;
};

}  // namespace soapstone::planner
