#include "strategy/pieces.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "models/ops/part.h"

namespace soapstone::planner {
namespace {

using models::Block;
using models::Range;

// A shard answers when all that it has of a clock is applied. Were all that two seats share one
// set, nothing of it would be on its way before the last gradient is there; and of a small set a
// message costs more than the wait.
constexpr int64_t kStageShare = 8;  // of what the same seats hold, a stage has the eighth part
constexpr int64_t kStageBytesMin = 1 << 18;

struct Held {
  Block block;
  uint32_t seat = 0;
};

bool Covers(const Block& block, const Block& cell) {
  for (size_t d = 0; d < cell.size(); ++d) {
    if (cell[d].begin < block[d].begin || cell[d].end > block[d].end) return false;
  }
  return true;
}

// By dimension: where some block begins or ends, ascending.
std::vector<std::vector<int64_t>> CutsOf(const std::vector<Held>& held, size_t dims) {
  std::vector<std::vector<int64_t>> cuts(dims);
  for (size_t d = 0; d < dims; ++d) {
    for (const Held& of : held) {
      cuts[d].push_back(of.block[d].begin);
      cuts[d].push_back(of.block[d].end);
    }
    std::sort(cuts[d].begin(), cuts[d].end());
    cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
  }
  return cuts;
}

std::vector<Block> CellsOf(const std::vector<std::vector<int64_t>>& cuts) {
  std::vector<Block> cells = {{}};
  for (const std::vector<int64_t>& of : cuts) {
    std::vector<Block> longer;
    for (const Block& cell : cells) {
      for (size_t i = 0; i + 1 < of.size(); ++i) {
        longer.push_back(cell);
        longer.back().push_back({of[i], of[i + 1]});
      }
    }
    cells = std::move(longer);
  }
  return cells;
}

// By parameter: what parts read of it, and where.
absl::StatusOr<std::vector<std::vector<Held>>> HeldBy(const OpGraph& graph,
                                                      const Strategy& strategy) {
  std::vector<std::vector<Held>> held(graph.params.size());
  for (size_t k = 0; k < graph.ops.size(); ++k) {
    const PlanOp& op = graph.ops[k];
    const OpConfig& config = strategy.ops[k];
    for (uint32_t p = 0; !op.params.empty() && p < config.devices.size(); ++p) {
      absl::StatusOr<models::PartOperator> part =
          models::PartOf(op.what, op.shapes, PartBlock(op, config, p));
      if (!part.ok()) {
        return absl::Status(part.status().code(),
                            absl::StrCat(op.name, ": ", part.status().message()));
      }
      for (const models::PartTensor& tensor : part->params) {
        held[op.params[tensor.source]].push_back({tensor.block, config.devices[p]});
      }
    }
  }
  return held;
}

std::vector<uint32_t> HoldersOfCell(const std::vector<Held>& held, const Block& cell) {
  std::vector<uint32_t> seats;
  for (const Held& of : held) {
    if (Covers(of.block, cell)) seats.push_back(of.seat);
  }
  std::sort(seats.begin(), seats.end());
  seats.erase(std::unique(seats.begin(), seats.end()), seats.end());
  return seats;
}

int64_t BytesOf(const Piece& piece) {
  return models::ElementsOf(piece.block) * static_cast<int64_t>(sizeof(float));
}

// The same pieces, in sets of which none that moves keeps more than an eighth of what its holders
// share, or one piece. What one seat has, and keeps, does not move. A parameter of one dimension,
// such as a bias, belongs to the layer before it.
Pieces InStages(const Pieces& whole, const Strategy& strategy) {
  std::vector<int64_t> bytes(whole.sets.size());
  for (const Piece& piece : whole.pieces) bytes[piece.set] += BytesOf(piece);
  struct Stage {
    std::optional<uint32_t> set;
    int64_t left = 0;  // bytes that go into it
  };
  std::vector<Stage> stages(whole.sets.size());
  Pieces cut;
  for (Piece piece : whole.pieces) {
    const std::vector<uint32_t>& seats = whole.sets[piece.set];
    const bool stays = seats.size() == 1 && KeptByHolders(strategy.synchronization);
    Stage& stage = stages[piece.set];
    const bool full = piece.block.size() > 1 && BytesOf(piece) > stage.left;
    if (!stage.set.has_value() || (full && !stays)) {
      stage.set = static_cast<uint32_t>(cut.sets.size());
      stage.left = std::max(kStageBytesMin, bytes[piece.set] / kStageShare);
      cut.sets.push_back(seats);
    }
    stage.left -= BytesOf(piece);
    piece.set = *stage.set;
    cut.pieces.push_back(std::move(piece));
  }
  return cut;
}

}  // namespace

absl::StatusOr<Pieces> PiecesOf(const OpGraph& graph, const Strategy& strategy) {
  SOAP_ASSIGN_OR_RETURN(const auto held, HeldBy(graph, strategy));
  Pieces pieces;
  for (uint32_t param = 0; param < graph.params.size(); ++param) {
    const PlanParam& whole = graph.params[param];
    int64_t covered = 0;
    for (Block& cell : CellsOf(CutsOf(held[param], whole.shape.size()))) {
      std::vector<uint32_t> seats = HoldersOfCell(held[param], cell);
      if (seats.empty()) continue;
      const auto found = std::find(pieces.sets.begin(), pieces.sets.end(), seats);
      const auto set = static_cast<uint32_t>(found - pieces.sets.begin());
      if (found == pieces.sets.end()) pieces.sets.push_back(std::move(seats));
      covered += models::ElementsOf(cell);
      pieces.pieces.push_back({.param = param, .block = std::move(cell), .set = set});
    }
    const int64_t elements =
        std::accumulate(whole.shape.begin(), whole.shape.end(), int64_t{1}, std::multiplies<>());
    if (covered == elements) continue;
    return absl::InvalidArgumentError(absl::StrCat(whole.name, ": no part of the strategy reads ",
                                                   elements - covered, " of its elements"));
  }
  return InStages(pieces, strategy);
}

std::vector<ParamSpec> SpecsOf(const Pieces& pieces, const std::vector<ParamSpec>& params) {
  std::vector<ParamSpec> specs;
  for (const Piece& piece : pieces.pieces) {
    const ParamSpec& whole = params[piece.param];
    ParamSpec spec = whole;
    spec.piece = {.param = piece.param, .name = whole.name, .shape = whole.shape};
    std::string ranges;
    for (size_t d = 0; d < piece.block.size(); ++d) {
      const Range& range = piece.block[d];
      spec.shape[d] = range.size();
      spec.piece->begin.push_back(range.begin);
      absl::StrAppend(&ranges, ranges.empty() ? "" : ",", range.begin, ":", range.end);
    }
    if (spec.shape != whole.shape) absl::StrAppend(&spec.name, "[", ranges, "]");
    specs.push_back(std::move(spec));
  }
  return specs;
}

wire::PieceHolders HoldersOf(const Pieces& pieces, const OpGraph& graph, const Strategy& strategy) {
  wire::PieceHolders holders = {.sets = static_cast<uint32_t>(pieces.sets.size())};
  for (const Piece& piece : pieces.pieces) {
    holders.set_of.push_back(piece.set);
    std::vector<uint32_t>& servers = holders.servers.emplace_back();
    switch (strategy.synchronization) {
      case Synchronization::kOwner:
        servers = {pieces.sets[piece.set].front()};
        break;
      case Synchronization::kRing:
        servers = pieces.sets[piece.set];
        break;
      case Synchronization::kServers:
        if (strategy.servers.empty()) break;
        servers = strategy.servers[graph.ops[graph.params[piece.param].ops.front()].group];
        break;
    }
  }
  return holders;
}

}  // namespace soapstone::planner
