#include "scheduler/planner/pipeline/micro_batch_search.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "scheduler/planner/search/space.h"

namespace soapstone::planner {
namespace {

constexpr int kWorseMax = 2;  // candidates in a row that pay no more

// A candidate, with what is known of it.
struct Candidate {
  std::unique_ptr<OpGraph> graph;
  std::unique_ptr<CostCache> prices = std::make_unique<CostCache>();
  SearchResult result;
};

class MicroBatchSearch {
 public:
  MicroBatchSearch(const Searcher& searcher, const MicroBatchProblem& problem,
                   const SearchOptions& options, const MicroBatchOptions& micro_batches)
      : searcher_(searcher), problem_(problem), options_(options), how_(micro_batches) {}

  absl::StatusOr<MicroBatchResult> Run() {
    SOAP_ASSIGN_OR_RETURN(OpGraph whole, problem_.graph_of(1));
    const int64_t most = std::min(how_.micro_batches_max, whole.batch);
    const int64_t of_gpipe =
        PlanGPipe(whole, *problem_.machine, *problem_.costs, {.micro_batches_max = most})
            .micro_batches;
    SOAP_RETURN_IF_ERROR(Try(std::move(whole)).status());
    int worse = 0;
    bool tried_gpipe = of_gpipe == 1;
    for (int64_t m = 2; m <= most && worse < kWorseMax && !Spent(); m *= 2) {
      SOAP_ASSIGN_OR_RETURN(OpGraph graph, problem_.graph_of(m));
      SOAP_ASSIGN_OR_RETURN(const bool better, Try(std::move(graph)));
      worse = better ? 0 : worse + 1;
      tried_gpipe |= m == of_gpipe;
    }
    if (!tried_gpipe && !Spent()) {
      SOAP_ASSIGN_OR_RETURN(OpGraph graph, problem_.graph_of(of_gpipe));
      SOAP_RETURN_IF_ERROR(Try(std::move(graph)).status());
    }
    SOAP_RETURN_IF_ERROR(SearchOn());
    return MicroBatchResult{std::move(best_.graph), std::move(best_.result), std::move(trials_)};
  }

 private:
  bool Spent() const { return options_.ShouldStop(); }

  // The searcher on the candidate's graph, within `share` of the budget from now on.
  absl::StatusOr<SearchResult> Search(const Candidate& candidate, absl::Span<const Strategy> known,
                                      double share, bool last) {
    const Space space(candidate.graph.get(), problem_.machine);
    SearchOptions within = options_;
    within.descend = last && options_.descend;
    if (last) ++within.seed;  // not what the trial drew once more
    within.proposals = std::max<uint64_t>(
        1, static_cast<uint64_t>(share * static_cast<double>(options_.proposals)));
    if (options_.used) {
      const double began = options_.used();
      within.used = [this, began, share] { return (options_.used() - began) / share; };
    }
    within.progress = nullptr;
    if (how_.progress) {
      within.progress = [&](const SearchProgress& progress) {
        how_.progress(candidate.graph->micro_batches, progress);
      };
    }
    return RunSearcher(searcher_,
                       {.space = &space,
                        .costs = problem_.costs,
                        .known = known,
                        .only_ways = problem_.only_ways,
                        .prices = candidate.prices.get()},
                       within);
  }

  // Whether it is better than all before.
  absl::StatusOr<bool> Try(OpGraph graph) {
    Candidate candidate = {.graph = std::make_unique<OpGraph>(std::move(graph))};
    const double began = how_.seconds ? how_.seconds() : 0;
    SOAP_ASSIGN_OR_RETURN(candidate.result, Search(candidate, {}, how_.trial_share, false));
    trials_.push_back({.micro_batches = candidate.graph->micro_batches,
                       .found = candidate.result.found,
                       .proposals = candidate.result.counts.proposed,
                       .seconds = how_.seconds ? how_.seconds() - began : 0});
    counts_ += candidate.result.counts;
    if (best_.graph != nullptr && !(candidate.result.found < best_.result.found)) return false;
    best_ = std::move(candidate);
    return true;
  }

  absl::Status SearchOn() {
    double left = 1 - how_.trial_share * static_cast<double>(trials_.size());
    if (options_.used) left = 1 - options_.used();
    if (left > 0) {
      const std::vector<Strategy> known = {best_.result.strategy};
      SOAP_ASSIGN_OR_RETURN(SearchResult found, Search(best_, known, left, true));
      counts_ += found.counts;
      if (!(best_.result.found < found.found)) best_.result = std::move(found);
    }
    best_.result.counts = counts_;
    return absl::OkStatus();
  }

  const Searcher& searcher_;
  const MicroBatchProblem& problem_;
  const SearchOptions& options_;
  const MicroBatchOptions& how_;
  Candidate best_;
  ProposalCounts counts_;
  std::vector<MicroBatchTrial> trials_;
};

}  // namespace

absl::StatusOr<MicroBatchResult> SearchMicroBatches(const Searcher& searcher,
                                                    const MicroBatchProblem& problem,
                                                    const SearchOptions& options,
                                                    const MicroBatchOptions& micro_batches) {
  return MicroBatchSearch(searcher, problem, options, micro_batches).Run();
}

}  // namespace soapstone::planner
