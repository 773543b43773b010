#include "worker/team_takeover.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/hand_played_engine.h"

namespace soapstone::worker {
namespace {

using testing::ElementsAre;

// Worker 0 is seat 0 of team 0 of two, of two seats each; a team has two micro-batches of four.
class TeamTakeoverTest : public ::testing::Test {
 protected:
  TeamTakeoverTest() : takeover_(Shared(Options())) {}

  static EngineOptions Options() {
    EngineOptions options = SmallJob("bsp", 4, 100);
    SeatOptions seat = {.team = {.teams = 2, .seats = 2}, .shards = {ShardId{0}, ShardId{1}}};
    seat.steps[5] = {.steps = {{.kind = SeatOutline::Step::Kind::kRun, .ready = {ParamId{0}}}}};
    options.seat = std::make_shared<const SeatOptions>(std::move(seat));
    return options;
  }
  static wire::Roster Without(uint32_t team) {
    wire::Roster roster = RosterOf(4);
    std::erase_if(roster.workers.Mutable(),
                  [&](const wire::Member& member) { return Index(member.worker) / 2 == team; });
    return roster;
  }
  void Load(Clock clock) { takeover_.OnLoad(clock, std::vector<Buffers>(2)); }
  // Begins what is due, and ends it at once; the clocks of team 1 that are taken over by it.
  std::vector<Clock> TakenOver() {
    std::vector<Clock> clocks;
    while (takeover_.Begin(&next_run_)) {
      for (ProgramRun* run : takeover_.runs()) {
        clocks.push_back(run->clock());
        EXPECT_EQ(run->program().taken_over, (MicroBatchRange{2, 4}));
        EXPECT_EQ(takeover_.ValuesOf(run->clock()).size(), 2u);
        const auto count = static_cast<uint32_t>(run->program().instructions.size());
        for (uint32_t i = 0; i < count; ++i) run->Satisfy(i);
      }
      takeover_.DropCompleted();
    }
    return clocks;
  }

  TeamTakeover takeover_;
  uint64_t next_run_ = 1;
};

TEST_F(TeamTakeoverTest, NothingIsLoadedBeforeAllHaveSaidWhereTheyAre) {
  EXPECT_EQ(takeover_.OnRoster(RosterOf(4), 1), kNoClock);
  EXPECT_TRUE(takeover_.holds());
  EXPECT_TRUE(takeover_.OnWord(1, 1, kNoClock));
  EXPECT_FALSE(takeover_.holds());
  Load(0);
  EXPECT_THAT(TakenOver(), ElementsAre());
}

// The other seat is at the clock before: it lacks what the lost team owed of that.
TEST_F(TeamTakeoverTest, FromTheLeastClockThatASeatIsAt) {
  takeover_.OnRoster(RosterOf(4), 1);
  takeover_.OnWord(1, 1, kNoClock);
  Load(0);
  Load(1);
  EXPECT_EQ(takeover_.OnRoster(Without(1), 2), 1);
  EXPECT_THAT(TakenOver(), ElementsAre());
  EXPECT_TRUE(takeover_.OnWord(1, 2, 0));
  EXPECT_THAT(TakenOver(), ElementsAre(0, 1));
  Load(2);
  EXPECT_THAT(TakenOver(), ElementsAre(2));
}

TEST_F(TeamTakeoverTest, NotWhatAllSeatsHaveBehindThem) {
  takeover_.OnRoster(RosterOf(4), 1);
  takeover_.OnWord(1, 1, kNoClock);
  Load(0);
  Load(1);
  takeover_.OnRoster(Without(1), 2);
  takeover_.OnWord(1, 2, 2);  // it is ahead
  EXPECT_THAT(TakenOver(), ElementsAre(1));
}

TEST_F(TeamTakeoverTest, AWordMayComeBeforeTheRoster) {
  EXPECT_TRUE(takeover_.OnWord(1, 1, kNoClock));
  takeover_.OnRoster(RosterOf(4), 1);
  EXPECT_FALSE(takeover_.holds());
}

// The other seat has begun clock 2 under the roster without the team, so this one takes it over
// too, though the newest roster has the team from clock 1 on.
TEST_F(TeamTakeoverTest, UntilTheGreatestClockThatASeatWasAtAsTheTeamCameAgain) {
  takeover_.OnRoster(Without(1), 1);
  takeover_.OnWord(1, 1, kNoClock);
  Load(0);
  Load(1);
  EXPECT_THAT(TakenOver(), ElementsAre(0, 1));
  wire::Roster again = RosterOf(4);
  for (const uint32_t rank : {2u, 3u}) again.workers.Mutable()[rank].start = 1;
  takeover_.OnRoster(again, 2);
  takeover_.OnWord(1, 2, 2);
  Load(2);
  Load(3);
  EXPECT_THAT(TakenOver(), ElementsAre(2));
}

TEST_F(TeamTakeoverTest, WordsOfAFormerTeamAndSecondCopiesAreNotKept) {
  wire::Roster roster = RosterOf(4);
  for (const uint32_t rank : {0u, 1u}) roster.workers.Mutable()[rank].admitted = 5;
  EXPECT_TRUE(takeover_.OnWord(1, 4, 7));
  takeover_.OnRoster(roster, 5);
  EXPECT_TRUE(takeover_.holds());
  EXPECT_FALSE(takeover_.OnWord(1, 4, 7));
  EXPECT_TRUE(takeover_.OnWord(1, 5, kNoClock));
  EXPECT_FALSE(takeover_.OnWord(1, 5, kNoClock));
  EXPECT_FALSE(takeover_.holds());
}

// One of the team was lost before it was let in: another admission begins, with another seat.
TEST_F(TeamTakeoverTest, WordsOfAnAdmissionThatCameToNothingAreNotWaitedFor) {
  wire::Roster roster = RosterOf(4);
  for (const Epoch epoch : {5u, 8u}) {
    for (const uint32_t rank : {0u, 1u}) roster.workers.Mutable()[rank].admitted = epoch;
    takeover_.OnRoster(roster, epoch);
  }
  EXPECT_TRUE(takeover_.holds());
  EXPECT_TRUE(takeover_.OnWord(1, 8, kNoClock));
  EXPECT_FALSE(takeover_.holds());
}

TEST_F(TeamTakeoverTest, WordsAreBounded) {
  for (Epoch epoch = 1; epoch <= TeamTakeover::kWordsMax; ++epoch) {
    EXPECT_TRUE(takeover_.OnWord(1, epoch, 0));
  }
  EXPECT_FALSE(takeover_.OnWord(1, 1000, 0));
}

TEST_F(TeamTakeoverTest, OfEachShardTheLatestAnswerIsKept) {
  takeover_.Defer(ShardId{1}, AnswerOf(1, 3, 3));
  takeover_.Defer(ShardId{0}, AnswerOf(0, 3, 3));
  takeover_.Defer(ShardId{1}, AnswerOf(1, 4, 4));
  const std::vector<Message> replies = takeover_.TakeDeferred();
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[1].clock, 4);
  EXPECT_TRUE(takeover_.TakeDeferred().empty());
}

}  // namespace
}  // namespace soapstone::worker
