#include "scheduler/planner/searcher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "scheduler/planner/branch_and_bound.h"
#include "scheduler/planner/m_etf.h"
#include "scheduler/planner/optcnn.h"
#include "scheduler/planner/plain_searchers.h"
#include "scheduler/planner/split_searchers.h"
#include "scheduler/planner/walk_searcher.h"

namespace soapstone::planner {

absl::Span<const Searcher* const> Searchers() {
  static const DataSearcher data;
  static const ModelSearcher model;
  static const ExpertSearcher expert;
  static const RandomSearcher random;
  static const GreedySearcher greedy;
  static const MetfSearcher metf;
  static const OptCnnSearcher optcnn;
  static const MeshSearcher mesh;
  static const TofuSearcher tofu;
  static const AccParSearcher accpar;
  static const PipeDreamSearcher pipedream;
  static const GPipeSearcher gpipe;
  static const StagesSearcher stages;
  static const WalkSearcher walk;
  static const BranchAndBoundSearcher bnb;
  static const Searcher* const all[] = {&data,      &model,  &expert, &random, &greedy,
                                        &metf,      &optcnn, &mesh,   &tofu,   &accpar,
                                        &pipedream, &gpipe,  &stages, &walk,   &bnb};
  return all;
}

absl::StatusOr<const Searcher*> FindSearcher(std::string_view name) {
  for (const Searcher* searcher : Searchers()) {
    if (searcher->name() == name) return searcher;
  }
  const auto name_of = [](std::string* out, const Searcher* searcher) {
    absl::StrAppend(out, std::string(searcher->name()));
  };
  return absl::InvalidArgumentError(absl::StrCat("no searcher '", std::string(name),
                                                 "'; there are ",
                                                 absl::StrJoin(Searchers(), ", ", name_of)));
}

std::vector<Synchronization> SearchProblem::ways() const {
  if (!only_ways.empty()) return {only_ways.begin(), only_ways.end()};
  return SynchronizationsOf(machine());
}

Pricer::Pricer(const SearchProblem& problem, const SimulatorOptions& options)
    : Pricer(&problem.graph(), &problem.machine(), problem.costs, options, problem.ways(),
             problem.prices) {}

absl::StatusOr<SearchResult> RunSearcher(const Searcher& searcher, const SearchProblem& problem,
                                         const SearchOptions& options) {
  SOAP_ASSIGN_OR_RETURN(SearchResult result, searcher.Search(problem, options));
  Pricer pricer(problem, options.simulator);
  SOAP_ASSIGN_OR_RETURN(result.found, pricer.Price(result.strategy));
  if (!searcher.is_search()) return result;
  Strategy data = DataParallel(problem.graph(), problem.space->devices());
  SOAP_ASSIGN_OR_RETURN(const Found of_data, pricer.PriceBest(&data));
  if (!(of_data < result.found)) return result;
  const std::string note = result.found.overflow_bytes > of_data.overflow_bytes
                               ? absl::StrFormat("its own plan needs or moves %d bytes too many",
                                                 result.found.overflow_bytes)
                               : absl::StrFormat("its own plan takes %.3f ms",
                                                 static_cast<double>(result.found.step_ns) / 1e6);
  absl::StrAppend(&result.note, result.note.empty() ? "" : "; ", "data parallelism: ", note);
  result.found = of_data;
  result.strategy = std::move(data);
  result.locally_optimal = result.proved = false;
  return result;
}

absl::StatusOr<SearchResult> PricedAlone(const SearchProblem& problem, const SearchOptions& options,
                                         Strategy strategy) {
  Pricer pricer(problem, options.simulator);
  SearchResult result;
  SOAP_ASSIGN_OR_RETURN(result.found, pricer.PriceBest(&strategy));
  result.strategy = std::move(strategy);
  result.counts = pricer.counts();
  return result;
}

}  // namespace soapstone::planner
