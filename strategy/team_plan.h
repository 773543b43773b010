// TeamPlan: what a strategy file makes of a model for the workers of a team: what each of them runs
// of a batch of each size that occurs, and what of the parameters it holds. Every process of a job
// makes the same from the same file. A value.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "models/graph/graph.h"
#include "strategy/lowering.h"
#include "strategy/pieces.h"
#include "strategy/planned_times.h"
#include "wire/config/strategy.pb.h"

namespace soapstone::planner {

// Of an order's, when it was planned to run.
struct PlannedHalf {
  TaskRef half;
  PlannedSpan when;
};

struct TeamPlan {
  uint32_t seats = 1;
  bool owned = false;  // pieces are kept beside their holders: server k in seat k's process
  uint32_t micro_batches = 1;
  uint32_t window = 1;  // iterations under way at once
  // By seat: clocks that it runs forward ahead (strategy/window.h); empty: none does.
  std::vector<uint32_t> leads;
  bool whole = true;  // every operator is
  Pieces pieces;
  wire::PieceHolders holders;
  std::vector<ParamSpec> params;         // the pieces
  std::map<int64_t, TeamProgram> steps;  // by samples of the batch
  // By seat, as the file's order has them; empty: it does not say.
  std::vector<std::vector<PlannedHalf>> planned;
  Nanos planned_ns = 0;  // from one iteration to the next

  uint32_t LeadOf(uint32_t seat) const { return seat < leads.size() ? leads[seat] : 0; }
  // Seats ask for the parameters of the next clock as they begin one (strategy/window.h).
  bool ReadsAhead() const;
};

// sizes: of the batches that occur, the strategy's own first. `file` stands for the text in errors.
// Errors, "file: what": those of StrategyForWorkers and Lower; InvalidArgument: sizes of which a
// part would have nothing.
absl::StatusOr<TeamPlan> PlanTeam(const models::Graph& graph, const wire::Strategy& message,
                                  const std::string& file, const std::vector<int64_t>& sizes);

// A strategy for a graph of the same model and another batch: cuts between samples stand where they
// stood, in proportion. Errors: InvalidArgument, naming an operator of which a part would have
// nothing.
absl::StatusOr<Strategy> ForOtherBatch(const OpGraph& from, const Strategy& strategy,
                                       const OpGraph& to);

}  // namespace soapstone::planner
