#include "strategy/pieces.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "models/zoo/zoo.h"

namespace soapstone::planner {
namespace {

OpGraph GraphOf(const std::string& model) {
  return *MakeOpGraph(*models::BuildModel(model, models::ModelInput{}), {.batch = 8});
}

constexpr int64_t kBiasBytes = 4 * 4096;

int64_t BytesOfSet(const Pieces& pieces, uint32_t set) {
  int64_t bytes = 0;
  for (const Piece& piece : pieces.pieces) {
    if (piece.set == set) bytes += 4 * models::ElementsOf(piece.block);
  }
  return bytes;
}

int64_t LargestPiece(const Pieces& pieces) {
  int64_t largest = 0;
  for (const Piece& piece : pieces.pieces) {
    largest = std::max(largest, 4 * models::ElementsOf(piece.block));
  }
  return largest;
}

// Alexnet's 244 MB, of which one weight has 151: stages of an eighth, or of one weight.
TEST(PiecesTest, WhatSeatsShareComesInStages) {
  const OpGraph graph = GraphOf("alexnet");
  const Pieces pieces = *PiecesOf(graph, DataParallel(graph, 2));
  ASSERT_GE(pieces.sets.size(), 4u);
  ASSERT_LE(pieces.sets.size(), 16u);
  int64_t total = 0;
  for (uint32_t set = 0; set < pieces.sets.size(); ++set) {
    EXPECT_EQ(pieces.sets[set], (std::vector<uint32_t>{0, 1}));
    total += BytesOfSet(pieces, set);
  }
  for (uint32_t set = 0; set < pieces.sets.size(); ++set) {
    EXPECT_GT(BytesOfSet(pieces, set), 0);
    EXPECT_LE(BytesOfSet(pieces, set), std::max(total / 8, LargestPiece(pieces)) + kBiasBytes);
  }
  // In the order of the model, and a bias with its weight.
  for (size_t i = 1; i < pieces.pieces.size(); ++i) {
    const Piece& piece = pieces.pieces[i];
    EXPECT_GE(piece.set, pieces.pieces[i - 1].set);
    if (piece.block.size() > 1) continue;
    EXPECT_EQ(piece.set, pieces.pieces[i - 1].set);
  }
}

TEST(PiecesTest, ASmallModelIsOneStage) {
  const OpGraph graph = GraphOf("lenet5");
  EXPECT_EQ(PiecesOf(graph, DataParallel(graph, 2))->sets.size(), 1u);
}

// What its only holder keeps itself is on no link; kept by servers, it is.
TEST(PiecesTest, WhatStaysIsOneStage) {
  const OpGraph graph = GraphOf("alexnet");
  Strategy strategy = SingleDevice(graph, 0);
  EXPECT_EQ(PiecesOf(graph, strategy)->sets.size(), 1u);
  SetSynchronization(Synchronization::kRing, &strategy);
  EXPECT_EQ(PiecesOf(graph, strategy)->sets.size(), 1u);
  SetSynchronization(Synchronization::kServers, &strategy);
  EXPECT_GE(PiecesOf(graph, strategy)->sets.size(), 4u);
}

// Of three that hold alexnet each keeps a third of each piece, so that each sends and gets, of
// gradients and of values, two thirds of all that is shared; a piece of one holder stays there.
TEST(PiecesTest, InARingEachHolderKeepsItsRange) {
  const OpGraph graph = GraphOf("alexnet");
  Strategy strategy = DataParallel(graph, 3);
  SetSynchronization(Synchronization::kRing, &strategy);
  const auto last = static_cast<uint32_t>(graph.params.back().ops.front());
  strategy.ops[last] = SingleDevice(graph, 1).ops[last];
  const Pieces pieces = *PiecesOf(graph, strategy);
  const wire::PieceHolders holders = HoldersOf(pieces, graph, strategy);
  for (size_t i = 0; i < pieces.pieces.size(); ++i) {
    EXPECT_EQ(holders.servers[i], pieces.sets[pieces.pieces[i].set]);
  }
  const auto params =
      SpecsOf(pieces, models::BuildModel("alexnet", models::ModelInput{})->params());
  const auto sets = static_cast<uint32_t>(pieces.sets.size());
  const wire::Layout layout =
      *wire::Layout::BuildOfPieces(params, holders, {.shard_count = 3 * sets});
  for (uint32_t set = 0; set < sets; ++set) {
    uint64_t all = 0;
    for (uint32_t seat = 0; seat < 3; ++seat) all += layout.elements(ShardId{seat * sets + set});
    EXPECT_EQ(static_cast<int64_t>(4 * all), BytesOfSet(pieces, set));
    const auto pieces_of_set = std::count(holders.set_of.begin(), holders.set_of.end(), set);
    for (uint32_t seat = 0; seat < 3; ++seat) {
      const uint64_t kept = layout.elements(ShardId{seat * sets + set});
      if (pieces.sets[set].size() == 1) {
        EXPECT_EQ(kept, pieces.sets[set][0] == seat ? all : 0);
      } else {
        EXPECT_LE(std::max(3 * kept, all) - std::min(3 * kept, all),
                  static_cast<uint64_t>(3 * pieces_of_set));
      }
    }
  }
}

}  // namespace
}  // namespace soapstone::planner
