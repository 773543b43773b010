#include "scheduler/planner/searchers/searcher_list.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/planner/additive/optcnn.h"
#include "scheduler/planner/searchers/annealing_searcher.h"
#include "scheduler/planner/searchers/branch_and_bound.h"
#include "scheduler/planner/searchers/m_etf.h"
#include "scheduler/planner/searchers/plain_searchers.h"
#include "scheduler/planner/searchers/split_searchers.h"

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
  static const AnnealingSearcher walk;
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

}  // namespace soapstone::planner
