#include "strategy/lowering.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "strategy/shared_moments.h"

namespace soapstone::planner {
namespace {

absl::StatusOr<TeamProgram> Build(const OpGraph& graph, const Strategy& strategy,
                                  const Order& order, Purpose purpose) {
  SOAP_ASSIGN_OR_RETURN(const TeamParts team, TeamParts::Make(&graph, &strategy, purpose));
  TeamProgram program = {.messages = team.messages()};
  for (uint32_t seat = 0; seat < order.size(); ++seat) {
    program.seats.push_back(SectionBuilder(&team, seat, order[seat]).Build());
  }
  return program;
}

}  // namespace

absl::StatusOr<TeamProgram> Lower(const OpGraph& graph, const Strategy& strategy,
                                  const Order& order, Purpose purpose) {
  if (strategy.ops.size() != graph.ops.size()) {
    return absl::InvalidArgumentError(absl::StrCat("a strategy for ", strategy.ops.size(),
                                                   " operators; ", graph.model, " has ",
                                                   graph.ops.size()));
  }
  for (size_t op = 0; op < graph.ops.size(); ++op) {
    SOAP_RETURN_IF_ERROR(
        CheckConfig(graph.ops[op], strategy.ops[op], static_cast<uint32_t>(order.size())));
  }
  SOAP_RETURN_IF_ERROR(CheckOrder(graph, strategy, order));
  if (!SharesMoments(graph, strategy)) return Build(graph, strategy, order, purpose);
  const LoweredStrategy lowered = WithMoments(graph, strategy);
  return Build(lowered.graph, lowered.strategy,
               WithMoments(lowered, TimesOf(graph, strategy, order)), purpose);
}

}  // namespace soapstone::planner
