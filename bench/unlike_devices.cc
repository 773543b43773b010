#include "bench/unlike_devices.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "models/zoo/zoo.h"
#include "scheduler/planner/additive/accpar.h"
#include "scheduler/planner/additive/tofu.h"
#include "scheduler/planner/cost/roofline_cost.h"
#include "scheduler/planner/search/proportional_split.h"
#include "scheduler/planner/search/searcher.h"
#include "scheduler/planner/searchers/baselines.h"
#include "scheduler/planner/searchers/searcher_list.h"
#include "strategy/machine_text.h"

namespace soapstone::bench {
namespace {

using planner::Machine;
using planner::OpGraph;
using planner::Space;
using planner::Strategy;

struct Load {
  const char* model;
  int64_t batch;
  int64_t time_chunk;
};
constexpr Load kLoads[] = {{"alexnet", 128, 0},
                           {"gnmt", 128, 10},
                           {"rnnlm", 128, 10},
                           {"bert_base", 16, 0},
                           {"lenet5", 512, 0}};

absl::StatusOr<Machine> MachineOf(const std::string& path) {
  const std::ifstream file(path);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": cannot be read; run this in the root of the source"));
  }
  std::stringstream text;
  text << file.rdbuf();
  absl::StatusOr<Machine> machine = planner::ParseMachine(text.str(), path);
  if (machine.ok() && machine->devices().size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": must have two devices"));
  }
  return machine;
}

class Steps {
 public:
  Steps(const OpGraph* graph, const Machine* machine, const planner::CostModel* costs)
      : graph_(*graph), machine_(*machine), costs_(*costs), evaluator_(graph, machine, costs) {}

  // Each with the synchronization that suits it best.
  Nanos Best(absl::Span<const Strategy> strategies) {
    planner::Score best;
    for (Strategy strategy : strategies) {
      const auto found = evaluator_.PriceBest(&strategy);
      CHECK(found.ok()) << found.status();
      best = std::min(best, *found);
    }
    return best.step_ns;
  }

  // seeds: none: the walk's own, AccPar's among them.
  Nanos Walk(bool uneven, absl::Span<const Strategy> seeds, uint64_t proposals) {
    const Space space(&graph_, &machine_, {.uneven = uneven});
    const planner::SearchProblem problem = {.space = &space, .costs = &costs_, .seeds = seeds};
    const auto searcher = planner::FindSearcher("mcmc");
    CHECK(searcher.ok());
    const auto found = planner::RunSearcher(**searcher, problem, {.proposals = proposals});
    CHECK(found.ok()) << found.status();
    return found->found.step_ns;
  }

 private:
  const OpGraph& graph_;
  const Machine& machine_;
  const planner::CostModel& costs_;
  planner::StrategyEvaluator evaluator_;
};

std::string RowOf(const Load& load, const Machine& machine, uint64_t proposals) {
  const auto model = models::BuildModel(load.model, models::ModelInput());
  CHECK(model.ok()) << model.status();
  const auto graph =
      planner::MakeOpGraph(*model, {.batch = load.batch, .time_chunk = load.time_chunk});
  CHECK(graph.ok()) << graph.status();
  const planner::RooflineCost costs(machine.kinds(), planner::UsualEfficiencies());
  Steps steps(&*graph, &machine, &costs);
  const bool first_is_faster = planner::SpeedsOf(machine)[1] <= 1;
  const Strategy alone = SingleDevice(*graph, first_is_faster ? 0 : 1);
  const Strategy data = DataParallel(*graph, 2);
  const std::vector<Strategy> halves = {
      PlanByAccPar(*graph, machine, costs, {.equal = true}).strategy,
      PlanByTofu(*graph, machine, {}).strategy, ExpertStrategy(*graph, machine)};
  std::vector<Strategy> even = halves;
  even.insert(even.end(), {alone, data, ModelParallel(*graph, machine, costs)});
  const Nanos alone_ns = steps.Best({alone}), data_ns = steps.Best({data});
  const Nanos halves_ns = steps.Best(halves);
  const Nanos even_ns = steps.Walk(false, even, proposals);
  const Nanos speed_ns = steps.Best({DataParallelBySpeed(*graph, machine)});
  const planner::AccParPlan plan = PlanByAccPar(*graph, machine, costs, {});
  const Nanos accpar_ns = steps.Best({plan.strategy});
  const Nanos uneven_ns = steps.Walk(true, {}, proposals);
  const double best_halves = static_cast<double>(std::min({alone_ns, data_ns, halves_ns}));
  const auto ms = [](Nanos time) { return static_cast<double>(time) / 1e6; };
  return absl::StrFormat("%-10s %6d %9.3f %9.3f %9.3f %9.3f %9.3f %9.3f %6.3f %9.3f %6.2f %6.2f\n",
                         load.model, load.batch, ms(alone_ns), ms(data_ns), ms(halves_ns),
                         ms(even_ns), ms(speed_ns), ms(accpar_ns), plan.ratios[0][0], ms(uneven_ns),
                         best_halves / static_cast<double>(std::min(accpar_ns, uneven_ns)),
                         static_cast<double>(even_ns) / static_cast<double>(uneven_ns));
}

}  // namespace

absl::StatusOr<std::string> UnlikeDevicesTable(const std::string& machine_file,
                                               uint64_t proposals) {
  SOAP_ASSIGN_OR_RETURN(const Machine machine, MachineOf(machine_file));
  std::string text = absl::StrFormat("%-10s %6s %9s %9s %9s %9s %9s %9s %6s %9s %6s %6s\n",
                                     "step, ms", "batch", "alone", "data", "halves", "even walk",
                                     "by speed", "accpar", "ratio", "walk", "gain", "walks");
  for (const Load& load : kLoads) text += RowOf(load, machine, proposals);
  return text;
}

}  // namespace soapstone::bench
