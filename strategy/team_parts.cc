#include "strategy/team_parts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "glog/logging.h"
#include "strategy/shared_moments.h"

namespace soapstone::planner {

using models::PartOperator;
using models::PartTensor;

absl::StatusOr<TeamParts> TeamParts::Make(const OpGraph* graph, const Strategy* strategy,
                                          Purpose purpose) {
  TeamParts team(graph, strategy);
  SOAP_RETURN_IF_ERROR(team.MakeParts(purpose));
  for (uint32_t edge = 0; edge < graph->edges.size(); ++edge) team.AddEdge(edge);
  return team;
}

absl::Status TeamParts::MakeParts(Purpose purpose) {
  const bool runs = purpose == Purpose::kRun;
  for (uint32_t k = 0; k < graph_->ops.size(); ++k) {
    const PlanOp& op = graph_->ops[k];
    if (runs && graph_->time_chunk > 0 && op.name.find('@') != std::string::npos) {
      return absl::UnimplementedError(
          absl::StrCat(op.name, ": chunks of time are planned, but not run yet"));
    }
    std::vector<PartOperator> parts;
    for (uint32_t part = 0; part < strategy_->ops[k].devices.size(); ++part) {
      absl::StatusOr<PartOperator> made =
          models::PartOf(op.what, op.shapes, PartBlock(op, strategy_->ops[k], part));
      if (!made.ok()) {
        return absl::Status(made.status().code(),
                            absl::StrCat(op.name, ": ", made.status().message()));
      }
      CHECK(!made->exchanges_statistics) << op.name << ": not lowered (shared_moments.h)";
      if (auto* moments = std::get_if<compute::BatchMoments>(&made->op)) {
        moments->row = RowOfPart(op, strategy_->ops[k], part);
      }
      parts.push_back(*std::move(made));
    }
    parts_.push_back(std::move(parts));
  }
  return absl::OkStatus();
}

void TeamParts::AddEdge(uint32_t e) {
  const PlanEdge& edge = graph_->edges[e];
  EdgeParts parts = {
      .meetings = MeetingsOf(*graph_, edge, strategy_->ops[edge.from], strategy_->ops[edge.to])};
  const size_t meetings = parts.meetings.size();
  parts.of_producer.resize(PartsOf(edge.from));
  parts.of_consumer.resize(PartsOf(edge.to));
  parts.forward.assign(meetings, kNoMessage);
  parts.backward.assign(meetings, kNoMessage);
  for (size_t i = 0; i < meetings; ++i) {
    const Meeting& met = parts.meetings[i];
    parts.of_producer[met.producer].push_back(i);
    parts.of_consumer[met.consumer].push_back(i);
    const uint32_t from = SeatOf(edge.from, met.producer);
    const uint32_t to = SeatOf(edge.to, met.consumer);
    if (from == to) continue;
    for (size_t j = i; j-- > 0 && parts.forward[i] == kNoMessage;) {
      const Meeting& other = parts.meetings[j];
      if (other.producer != met.producer) break;
      if (SeatOf(edge.to, other.consumer) != to || other.region != met.region) continue;
      parts.forward[i] = parts.forward[j];
      parts.backward[i] = parts.backward[j];
    }
    if (parts.forward[i] == kNoMessage) {
      parts.forward[i] = AddMessage(e, met, from, to, false);
      if (edge.gradient) parts.backward[i] = AddMessage(e, met, to, from, true);
    }
    for (const uint32_t message : {parts.forward[i], parts.backward[i]}) {
      if (message != kNoMessage) messages_[message].consumers.push_back(met.consumer);
    }
  }
  edges_.push_back(std::move(parts));
}

uint32_t TeamParts::AddMessage(uint32_t edge, const Meeting& met, uint32_t from, uint32_t to,
                               bool backward) {
  const auto number = static_cast<uint32_t>(messages_.size());
  messages_.push_back({.from = from,
                       .to = to,
                       .edge = edge,
                       .producer = met.producer,
                       .backward = backward,
                       .region = met.region,
                       .bytes = models::ElementsOf(met.region) * 4});
  return number;
}

std::vector<Contribution> TeamParts::ContributionsTo(uint32_t k, uint32_t p, uint32_t input) const {
  std::vector<Contribution> given;
  for (const uint32_t e : graph_->ops[k].in) {
    if (graph_->edges[e].input != input) continue;
    for (const size_t m : edges_[e].of_consumer[p]) given.push_back({.edge = e, .meeting = m});
  }
  return given;
}

bool TeamParts::Passes(uint32_t k, uint32_t p, const PartTensor& tensor,
                       const std::vector<Contribution>& given) const {
  if (given.size() > 1 || parts_[k][p].rows.has_value()) return false;
  const PlanEdge& edge = graph_->edges[given[0].edge];
  const Meeting& met = edges_[given[0].edge].meetings[given[0].meeting];
  const PartOperator& producer = parts_[edge.from][met.producer];
  if (producer.adds_up) return false;
  const PartTensor& made = producer.outputs[SlotOf(producer.outputs, edge.output)];
  for (size_t i = 0; i < tensor.block.size(); ++i) {
    if (tensor.before[i] != 0 || tensor.after[i] != 0) return false;
    if (made.block[i].begin + edge.offset[i] != tensor.block[i].begin) return false;
    if (made.block[i].size() != tensor.block[i].size()) return false;
  }
  return true;
}

uint32_t SlotOf(const std::vector<PartTensor>& tensors, uint32_t source) {
  for (uint32_t slot = 0; slot < tensors.size(); ++slot) {
    if (tensors[slot].source == source) return slot;
  }
  return UINT32_MAX;
}

bool RunsAlone(const PlanOp& op, size_t dim) {
  const models::IterationDim& d = op.rule.dims[dim];
  const bool exchanges = op.rule.exchanges > 0 && d.kind == models::DimKind::kParameter;
  return d.splittable && !exchanges;
}

void KeepWhatRunsAlone(OpGraph* graph) {
  for (PlanOp& op : graph->ops) {
    for (size_t d = 0; d < op.rule.dims.size(); ++d) {
      op.rule.dims[d].splittable = RunsAlone(op, d);
    }
  }
}

}  // namespace soapstone::planner
