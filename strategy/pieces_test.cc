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
  SetSynchronization(Synchronization::kServers, &strategy);
  EXPECT_GE(PiecesOf(graph, strategy)->sets.size(), 4u);
}

}  // namespace
}  // namespace soapstone::planner
