#include "scheduler/planner/blocks/param_pieces.h"

#include <vector>

#include "gtest/gtest.h"

namespace soapstone::planner {
namespace {

// Two operators with one parameter of ten elements, of which each device has the blocks that its
// part of the operator needs.
class ParamPiecesTest : public testing::Test {
 protected:
  void SetUp() override {
    graph_.ops.resize(2);
    for (PlanOp& op : graph_.ops) op.params = {0};
    graph_.params.resize(1);
    graph_.params[0].ops = {0, 1};
    graph_.groups = {{0, 1}};
  }
  // Of an operator whose parts have a block each.
  static OpSplit SplitAt(const std::vector<int64_t>& begins) {
    OpSplit split;
    ParamSplit param = {.begins = {begins}, .sides = {10}};
    param.blocks = static_cast<uint32_t>(begins.size());
    for (uint32_t b = 0; b < param.blocks; ++b) param.block_of_part.push_back(b);
    split.params = {param};
    return split;
  }

  OpGraph graph_;
};

TEST_F(ParamPiecesTest, CutsWhereAnyOperatorDoes) {
  const OpSplit halves = SplitAt({0, 5}), uneven = SplitAt({0, 2});
  const std::vector<uint32_t> of_first = {0, 1}, of_second = {0, 2};
  ParamPieces pieces(&graph_, 3);
  const std::vector<PlacedSplit> ops = {{&halves, of_first}, {&uneven, of_second}};
  for (int turn = 0; turn < 2; ++turn) {  // nothing is left of the first
    const std::vector<ParamPiece>& found = pieces.Find(0, ops);
    ASSERT_EQ(found.size(), 3u);
    EXPECT_EQ(found[0].holders, std::vector<uint32_t>{0});
    EXPECT_EQ(found[0].bytes, 2 * kElementBytes);
    EXPECT_EQ(found[1].holders, (std::vector<uint32_t>{0, 2}));
    EXPECT_EQ(found[1].bytes, 3 * kElementBytes);
    EXPECT_EQ(found[2].holders, (std::vector<uint32_t>{1, 2}));
    EXPECT_EQ(found[2].bytes, 5 * kElementBytes);
  }
}

TEST_F(ParamPiecesTest, CellsOfEqualHoldersAreOnePiece) {
  const OpSplit halves = SplitAt({0, 5}), whole = SplitAt({0});
  const std::vector<uint32_t> both_on_one = {1, 1}, the_other = {70};
  ParamPieces pieces(&graph_, 71);
  const std::vector<PlacedSplit> ops = {{&halves, both_on_one}, {&whole, the_other}};
  const std::vector<ParamPiece>& found = pieces.Find(0, ops);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].holders, (std::vector<uint32_t>{1, 70}));
  EXPECT_EQ(found[0].bytes, 10 * kElementBytes);
}

}  // namespace
}  // namespace soapstone::planner
