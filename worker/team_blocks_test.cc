#include "worker/team_blocks.h"

#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

// Worker 5 is seat 1 of the second team of four; seat 2 sends it block 7 of 16 bytes, and word.
class TeamBlocksTest : public ::testing::Test {
 protected:
  TeamBlocksTest() : blocks_(Shared(Options())) {}

  static EngineOptions Options() {
    EngineOptions options = SmallJob("bsp", 2, 10);
    options.id = WorkerId{5};
    SeatOptions seat = {.team = {.teams = 2, .seats = 4}, .evaluation_batches = 2};
    seat.steps[5] = {.incoming = {{.number = 7, .seat = 2, .bytes = 16}},
                     .awaited = {{.number = 20, .seat = 2}}};
    seat.evaluation = {.incoming = {{.number = 7, .seat = 2, .bytes = 8}}};
    options.seat = std::make_shared<const SeatOptions>(std::move(seat));
    return options;
  }
  static Message BlockOf(uint32_t worker, Clock clock, uint32_t number, size_t bytes) {
    Message message;
    message.type = MessageType::kBlock;
    message.from = Address::Of(WorkerId{worker});
    message.worker = WorkerId{worker};
    message.clock = clock;
    message.body = wire::Block{.number = number};
    if (bytes > 0) message.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
    return message;
  }

  TeamBlocks blocks_;
};

TEST_F(TeamBlocksTest, KeepsWhatComesForThisClockAndTheNext) {
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 3, 7, 16), 3));
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 4, 7, 16), 3));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 5, 7, 16), 3));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 2, 7, 16), 3));
  EXPECT_EQ(blocks_.Take(3, 7).size(), 16u);
  blocks_.DropBefore(4);
  EXPECT_FALSE(blocks_.IsHere(3, 7));
  EXPECT_TRUE(blocks_.IsHere(4, 7));
}

TEST_F(TeamBlocksTest, KeepsWhatSeatsThatRunAheadSend) {
  EngineOptions options = Options();
  SeatOptions seat = *options.seat;
  seat.lead_max = 2;
  options.seat = std::make_shared<const SeatOptions>(std::move(seat));
  TeamBlocks blocks(Shared(std::move(options)));
  EXPECT_TRUE(blocks.Keep(BlockOf(6, 6, 7, 16), 3));
  EXPECT_FALSE(blocks.Keep(BlockOf(6, 7, 7, 16), 3));
}

TEST_F(TeamBlocksTest, WhatAFormerTeamHasSentIsNotKept) {
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 3, 7, 16), 3));  // of epoch 0, before it is admitted
  Message message = BlockOf(6, 3, 7, 16);
  message.epoch = 6;
  TeamBlocks later = blocks_;
  EXPECT_TRUE(later.Keep(message, 3));  // its own team's takes the place
  EXPECT_FALSE(later.Keep(message, 3));
  later.OnAdmitted(5);
  EXPECT_TRUE(later.IsHere(3, 7));
  blocks_.OnAdmitted(5);
  EXPECT_FALSE(blocks_.IsHere(3, 7));
  message.epoch = 4;
  EXPECT_FALSE(blocks_.Keep(message, 3));
  message.epoch = 6;
  EXPECT_TRUE(blocks_.Keep(message, 3));
}

// It joins at a clock that it does not know yet.
TEST_F(TeamBlocksTest, BeforeItBeginsItKeepsWhatComesOfTwoClocks) {
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 6, 20, 0), 0, /*begun=*/false));
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 7, 7, 16), 0, /*begun=*/false));
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 6, 7, 16), 0, /*begun=*/false));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 8, 7, 16), 0, /*begun=*/false));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 5, 7, 16), 0, /*begun=*/false));
  blocks_.DropBefore(6);
  EXPECT_TRUE(blocks_.IsHere(6, 7));
  EXPECT_TRUE(blocks_.IsHere(7, 7));
}

// A former team's block says nothing of the clock at which the present one is.
TEST_F(TeamBlocksTest, BeforeItBeginsAFormerTeamsBlocksGiveWay) {
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 0, 7, 16), 0, /*begun=*/false));
  Message present = BlockOf(6, 4, 20, 0);
  present.epoch = 5;
  EXPECT_TRUE(blocks_.Keep(present, 0, /*begun=*/false));
  EXPECT_FALSE(blocks_.IsHere(0, 7));
  EXPECT_TRUE(blocks_.IsHere(4, 20));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 1, 7, 16), 0, /*begun=*/false));
}

TEST_F(TeamBlocksTest, ASecondCopyIsNotTaken) {
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 3, 7, 16), 3));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 3, 7, 16), 3));
  blocks_.Take(3, 7);
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 3, 7, 16), 3));
}

TEST_F(TeamBlocksTest, WhatIsForeignOrOfAnotherSizeIsNotTaken) {
  EXPECT_FALSE(blocks_.Keep(BlockOf(2, 3, 7, 16), 3));  // seat 2 of the other team
  EXPECT_FALSE(blocks_.Keep(BlockOf(7, 3, 7, 16), 3));  // another seat
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 3, 8, 16), 3));  // no such block
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 3, 7, 12), 3));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 3, 7, 0), 3));
  Message two = BlockOf(6, 3, 7, 16);
  two.payload.push_back(two.payload[0]);
  EXPECT_FALSE(blocks_.Keep(two, 3));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 3, 20, 16), 3));  // word has no payload
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 3, 20, 0), 3));
}

TEST_F(TeamBlocksTest, BehindTheLastStepBatchesAreEvaluated) {
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 10, 7, 16), 10));
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 10, 7, 8), 10));
  EXPECT_TRUE(blocks_.Keep(BlockOf(6, 11, 7, 8), 10));
  EXPECT_FALSE(blocks_.Keep(BlockOf(6, 12, 7, 8), 11));  // there are two
}

// An engine without a seat takes no blocks.
TEST_F(TeamBlocksTest, WhoHasNoSeatTakesNone) {
  TeamBlocks none(Shared(SmallJob("bsp", 1, 10)));
  EXPECT_FALSE(none.Keep(BlockOf(6, 3, 7, 16), 3));
}

}  // namespace
}  // namespace soapstone::worker
