#include "strategy/team_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "strategy/lowering.h"
#include "strategy/op_graph.h"
#include "strategy/order.h"
#include "strategy/shared_moments.h"
#include "strategy/strategy_text.h"
#include "strategy/team_parts.h"
#include "strategy/window.h"

namespace soapstone::planner {
namespace {

absl::Status InFile(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

absl::Status SetPlanned(const wire::Strategy& message, const std::string& file, const Order& order,
                        TeamPlan* plan) {
  SOAP_ASSIGN_OR_RETURN(const PlannedTimes times, PlannedTimesFrom(message, file, order));
  plan->planned_ns = message.predicted().iteration_ns();
  for (size_t seat = 0; seat < times.size(); ++seat) {
    std::vector<PlannedHalf>& halves = plan->planned.emplace_back();
    for (size_t i = 0; i < times[seat].size(); ++i) {
      halves.push_back({.half = order[seat][i], .when = times[seat][i]});
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint32_t>> LeadsUnder(const OpGraph& graph, const Strategy& strategy,
                                                 uint32_t window, uint32_t seats) {
  if (window == 1) return std::vector<uint32_t>(seats, 0);
  const LoweredStrategy lowered = WithMoments(graph, strategy);
  SOAP_ASSIGN_OR_RETURN(const TeamParts team,
                        TeamParts::Make(&lowered.graph, &lowered.strategy, Purpose::kRun));
  return LeadsOf(team.messages(), seats, window);
}

// Of a dimension that has another extent now.
absl::Status ScaleCuts(const models::IterationDim& from, const models::IterationDim& to,
                       uint32_t degree, const std::string& op, std::vector<int64_t>* cuts) {
  absl::Status nothing = absl::InvalidArgumentError(
      absl::StrCat(op, ": ", degree, " parts along '", to.name, "', which has ", to.extent,
                   " in the last batch of an epoch: take a training.batch that divides the "
                   "training samples"));
  if (degree > DegreeMax(to)) return nothing;
  int64_t before = 0;
  for (int64_t& cut : *cuts) {
    cut = (cut * to.extent / from.extent) / to.unit * to.unit;
    if (cut <= before || cut >= to.extent) return nothing;
    before = cut;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Strategy> ForOtherBatch(const OpGraph& from, const Strategy& strategy,
                                       const OpGraph& to) {
  Strategy other = strategy;
  for (size_t k = 0; k < to.ops.size(); ++k) {
    const std::vector<models::IterationDim>& dims = to.ops[k].rule.dims;
    OpConfig& config = other.ops[k];
    for (size_t d = 0; d < dims.size(); ++d) {
      const models::IterationDim& was = from.ops[k].rule.dims[d];
      if (dims[d].extent == was.extent) continue;
      std::vector<int64_t> none;
      SOAP_RETURN_IF_ERROR(ScaleCuts(was, dims[d], config.degrees[d], to.ops[k].name,
                                     config.cuts.empty() ? &none : &config.cuts[d]));
    }
  }
  return other;
}

bool TeamPlan::ReadsAhead() const {
  return window > 1 &&
         std::all_of(leads.begin(), leads.end(), [](uint32_t lead) { return lead == 0; });
}

absl::StatusOr<TeamPlan> PlanTeam(const models::Graph& graph, const wire::Strategy& message,
                                  const std::string& file, const std::vector<int64_t>& sizes) {
  TeamPlan plan = {
      .seats = message.devices(),
      .micro_batches = static_cast<uint32_t>(std::max<int64_t>(1, message.micro_batches()))};
  OpGraphOptions options = {.batch = message.batch(),
                            .time_chunk = message.time_chunk(),
                            .micro_batches = plan.micro_batches};
  absl::StatusOr<OpGraph> whole = MakeOpGraph(graph, options);
  if (!whole.ok()) return InFile(file, whole.status());
  SOAP_ASSIGN_OR_RETURN(const Strategy strategy, StrategyForWorkers(message, file, *whole));
  SOAP_ASSIGN_OR_RETURN(Order order, OrderFrom(message, file, *whole, strategy));
  SOAP_RETURN_IF_ERROR(SetPlanned(message, file, order, &plan));
  plan.window = strategy.staleness + 1;
  const absl::StatusOr<std::vector<uint32_t>> leads =
      LeadsUnder(*whole, strategy, plan.window, plan.seats);
  if (!leads.ok()) return InFile(file, leads.status());
  plan.leads = *leads;
  order = ForwardFirst(std::move(order), plan.leads);
  absl::StatusOr<Pieces> pieces = PiecesOf(*whole, strategy);
  if (!pieces.ok()) return InFile(file, pieces.status());
  for (const int64_t size : sizes) {
    options.batch = size;
    absl::StatusOr<OpGraph> of_size = MakeOpGraph(graph, options);
    if (!of_size.ok()) return InFile(file, of_size.status());
    absl::StatusOr<Strategy> fitted = ForOtherBatch(*whole, strategy, *of_size);
    if (!fitted.ok()) return InFile(file, fitted.status());
    absl::StatusOr<TeamProgram> program = Lower(*of_size, *fitted, order);
    if (!program.ok()) return InFile(file, program.status());
    plan.steps[size] = *std::move(program);
  }
  for (const OpConfig& op : strategy.ops) plan.whole = plan.whole && op.devices.size() == 1;
  plan.owned = KeptByHolders(strategy.synchronization);
  plan.holders = HoldersOf(*pieces, *whole, strategy);
  plan.params = SpecsOf(*pieces, graph.params());
  plan.pieces = *std::move(pieces);
  return plan;
}

}  // namespace soapstone::planner
