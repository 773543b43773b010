// TeamParts: the parts of all operators under a strategy, on whose seats they are, where they meet
// at the model's edges, and the messages by which they do. What a team agrees on; the sections of
// its seats are made from it (section_builder.h). Values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/ops/part.h"
#include "strategy/op_graph.h"
#include "strategy/regions.h"
#include "strategy/strategy.h"

namespace soapstone::planner {

inline constexpr uint32_t kNoMessage = UINT32_MAX;

// One a (producer's part, consumer's seat, region), and of its gradient back.
struct BlockMessage {
  uint32_t from = 0, to = 0;  // seats
  uint32_t edge = 0;
  uint32_t producer = 0;            // a part; backward: whose gradient it is
  std::vector<uint32_t> consumers;  // parts on one seat, ascending
  bool backward = false;
  models::Block region;  // of the producer's output
  int64_t bytes = 0;
};

// What an edge joins.
struct EdgeParts {
  std::vector<Meeting> meetings;
  // By meeting: its message; kNoMessage: both ends are on one seat, or no gradient flows back.
  std::vector<uint32_t> forward, backward;
  std::vector<std::vector<size_t>> of_producer, of_consumer;  // by part: its meetings, ascending
};

// A meeting of an edge.
struct Contribution {
  uint32_t edge = 0;
  size_t meeting = 0;
};

// For what a strategy is lowered.
enum class Purpose : uint8_t {
  kRun,
  // To know what its sections take in memory: what workers cannot run yet for want of sums over
  // chunks of time has its memory all the same.
  kMeasure
};

// Keeps the pointers; both outlive it.
class TeamParts {
 public:
  // Errors: Unimplemented, naming the operator: what no kernel runs alone. REQUIRES: parts share no
  // statistics (shared_moments.h).
  static absl::StatusOr<TeamParts> Make(const OpGraph* graph, const Strategy* strategy,
                                        Purpose purpose);

  const OpGraph& graph() const { return *graph_; }
  uint32_t SeatOf(uint32_t op, uint32_t part) const { return strategy_->ops[op].devices[part]; }
  models::Block BlockOf(uint32_t op, uint32_t part) const {
    return PartBlock(graph_->ops[op], strategy_->ops[op], part);
  }
  uint32_t PartsOf(uint32_t op) const { return static_cast<uint32_t>(parts_[op].size()); }
  const models::PartOperator& part(uint32_t op, uint32_t part) const { return parts_[op][part]; }
  const EdgeParts& edge(uint32_t edge) const { return edges_[edge]; }
  const std::vector<BlockMessage>& messages() const { return messages_; }

  // All that is given to an input of a part, by edge, then by producer's part.
  std::vector<Contribution> ContributionsTo(uint32_t op, uint32_t part, uint32_t input) const;
  // Whether the part reads as this input just what one part wrote: the same block, with nothing
  // around it. given: of ContributionsTo.
  bool Passes(uint32_t op, uint32_t part, const models::PartTensor& tensor,
              const std::vector<Contribution>& given) const;

 private:
  TeamParts(const OpGraph* graph, const Strategy* strategy) : graph_(graph), strategy_(strategy) {}
  absl::Status MakeParts(Purpose purpose);
  void AddEdge(uint32_t edge);
  uint32_t AddMessage(uint32_t edge, const Meeting& met, uint32_t from, uint32_t to, bool backward);

  const OpGraph* graph_;
  const Strategy* strategy_;
  std::vector<std::vector<models::PartOperator>> parts_;  // by operator, by part
  std::vector<EdgeParts> edges_;
  std::vector<BlockMessage> messages_;  // their numbers are their places
};

// Where tensor `source` of the whole operator is among a part's; UINT32_MAX: the part has none of
// it.
uint32_t SlotOf(const std::vector<models::PartTensor>& tensors, uint32_t source);

// Whether parts along the dimension are operators that workers run: without exchanging anything
// while they compute.
bool RunsAlone(const PlanOp& op, size_t dim);
// The others are not to be split: for who plans what workers can run.
void KeepWhatRunsAlone(OpGraph* graph);

}  // namespace soapstone::planner
