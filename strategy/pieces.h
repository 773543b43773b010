// Pieces: what the parameters of a model fall into when a strategy splits the operators that read
// them: boxes of one tensor, each held by the same seats of a team in all its elements. Every
// process finds the same. Values.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/parameter.h"
#include "models/ops/partition.h"
#include "strategy/op_graph.h"
#include "strategy/strategy.h"
#include "wire/layout.h"

namespace soapstone::planner {

struct Piece {
  uint32_t param = 0;  // of the model
  models::Block block;
  uint32_t set = 0;  // into sets
  friend bool operator==(const Piece&, const Piece&) = default;
};

struct Pieces {
  std::vector<Piece> pieces;  // by parameter, then row-major
  // Of seats, ascending; in the order of the pieces. Seats that share much have several.
  std::vector<std::vector<uint32_t>> sets;
  friend bool operator==(const Pieces&, const Pieces&) = default;
};

// Cells between all cuts of a parameter, of whatever operator that reads it.
// REQUIRES: CheckConfig. Errors: Unimplemented, naming the operator: what no kernel runs alone;
// InvalidArgument: elements that no part reads.
absl::StatusOr<Pieces> PiecesOf(const OpGraph& graph, const Strategy& strategy);

// The same as parameters of a layout: "fc1.weight[0:512,1024:2048]", or the whole's name where one
// is all of it. params: the model's.
std::vector<ParamSpec> SpecsOf(const Pieces& pieces, const std::vector<ParamSpec>& params);

// Which set holds each, and which servers keep it by the strategy: of an owner's, the server beside
// the first holder, which has that seat's number; in a ring those beside all holders, in equal
// ranges by the order of seats.
wire::PieceHolders HoldersOf(const Pieces& pieces, const OpGraph& graph, const Strategy& strategy);

}  // namespace soapstone::planner
