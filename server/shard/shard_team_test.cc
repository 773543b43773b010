// A shard whose members are teams of workers: what the seats that hold its parameters send becomes
// what one worker says.
#include <functional>

#include "base/random.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/hand_fed_shard.h"
#include "server/store/capture.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;

class TeamTest : public ShardTest {
 protected:
  // `teams` of four seats each, of which these hold the shard.
  void StartTeams(uint32_t teams, std::vector<uint32_t> holders,
                  const std::string& policy = "bsp") {
    team_ = {.teams = teams, .seats = 4};
    holders_ = std::move(holders);
    Start(policy, 4 * teams, 1);
  }
  wire::Outbox SendPush(uint32_t worker, Clock clock, float value) {
    return Send(Push(worker, clock, {0, 1}, value));
  }
};

TEST_F(TeamTest, IsOneWorkerWhosePushIsTheSumOfItsSeats) {
  StartTeams(1, {0, 1, 3});
  SendPush(0, 0, 1);
  SendPush(3, 0, 4);
  Send(Clocked(0, 1, 1));
  Send(Clocked(3, 1, 1));
  EXPECT_EQ(Value(), 0);
  SendPush(1, 0, 2);
  EXPECT_EQ(shard_->policy().Frontier(), 0);
  Send(Clocked(1, 1, 1));
  EXPECT_EQ(Value(), -7);
  EXPECT_EQ(shard_->policy().Frontier(), 1);
  EXPECT_EQ(shard_->stats().rejects, 0u);
}

// 1e8 + 1 − 1e8 is 0 in float32 in the order of seats, and 1 in another.
class TeamOrderTest : public TeamTest,
                      public ::testing::WithParamInterface<std::vector<uint32_t>> {};
TEST_P(TeamOrderTest, SumsInTheOrderOfSeatsWhateverComesFirst) {
  StartTeams(1, {0, 1, 2});
  const float values[] = {1e8F, 1, -1e8F};
  for (const uint32_t seat : GetParam()) SendPush(seat, 0, values[seat]);
  for (const uint32_t seat : GetParam()) Send(Clocked(seat, 1, 1));
  EXPECT_EQ(shard_->policy().Frontier(), 1);
  EXPECT_EQ(Value(), 0);
}
INSTANTIATE_TEST_SUITE_P(Orders, TeamOrderTest,
                         ::testing::Values(std::vector<uint32_t>{0, 1, 2},
                                           std::vector<uint32_t>{2, 1, 0},
                                           std::vector<uint32_t>{1, 2, 0},
                                           std::vector<uint32_t>{2, 0, 1}));

TEST_F(TeamTest, AClockThatOvertakesAPushWaitsForIt) {
  StartTeams(1, {0, 1});
  Send(Clocked(0, 1, 1));
  SendPush(1, 0, 2);
  Send(Clocked(1, 1, 1));
  EXPECT_EQ(shard_->policy().Frontier(), 0);
  SendPush(0, 0, 1);
  EXPECT_EQ(shard_->policy().Frontier(), 1);
  EXPECT_EQ(Value(), -3);
}

TEST_F(TeamTest, ASeatThatSpeaksTwiceIsHeardOnce) {
  StartTeams(1, {0, 1});
  SendPush(0, 0, 1);
  SendPush(0, 0, 1);
  SendPush(1, 0, 2);
  SendPush(1, 0, 2);
  Send(Clocked(0, 1, 1));
  Send(Clocked(0, 1, 1));
  EXPECT_EQ(shard_->policy().Frontier(), 0);
  Send(Clocked(1, 1, 1));
  EXPECT_EQ(Value(), -3);
  EXPECT_EQ(shard_->stats().duplicates, 2u);
}

TEST_F(TeamTest, IsAnsweredWhenAllHaveAskedAndFromOneState) {
  StartTeams(1, {1, 2});
  EXPECT_TRUE(Send(Data(MessageType::kPull, 1, 0)).messages.empty());
  EXPECT_TRUE(Send(Data(MessageType::kPull, 1, 0)).messages.empty());  // asked again
  const wire::Outbox answers = Send(Data(MessageType::kPull, 2, 0));
  ASSERT_EQ(answers.messages.size(), 2u);
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(answers.messages[i].to, Address::Of(WorkerId{1 + i}));
    EXPECT_EQ(answers.messages[i].worker, WorkerId{1 + i});
  }
  EXPECT_EQ(wire::As<wire::PullReply>(answers.messages[0]).version,
            wire::As<wire::PullReply>(answers.messages[1]).version);
  // Once a clock: the answer is under way.
  EXPECT_TRUE(Send(Data(MessageType::kPull, 1, 0)).messages.empty());
  EXPECT_TRUE(Send(Data(MessageType::kPull, 2, 0)).messages.empty());
}

// Seat 0 has begun the clock with the first values by the time that fresher ones would come, and
// seat 1 may not have.
TEST_F(TeamTest, IsSentAClockOnce) {
  for (const bool alone : {false, true}) {
    roster_ = {};
    StartTeams(2, alone ? std::vector<uint32_t>{0} : std::vector<uint32_t>{0, 1}, "essp:s=1");
    const std::vector<uint32_t> workers =
        alone ? std::vector<uint32_t>{0, 4} : std::vector<uint32_t>{0, 1, 4, 5};
    size_t sent = 0;
    for (const uint32_t worker : workers) {
      sent += Send(Data(MessageType::kPull, worker, 0)).messages.size();
    }
    EXPECT_EQ(sent, workers.size());
    std::vector<Message> answers;
    for (const uint32_t worker : workers) {
      SendPush(worker, 0, 1);
      for (Message& answer : Send(Clocked(worker, 1, 1)).messages) answers.push_back(answer);
    }
    // Each team has its own clock's; the first team then what the other one has added, if it is of
    // one seat here.
    EXPECT_EQ(answers.size(), alone ? 3u : 4u);
    for (const Message& answer : answers) EXPECT_EQ(answer.clock, 1);
  }
}

// Delay-compensated: s' = s + (lambda / n) s s (x - x_read) of the whole sum s, not of its parts
// (Zheng et al., ICML 2017). s = 1 + 2, n = 1, lambda = 1; the other team has moved x by -10.
TEST_F(TeamTest, ADelayIsCompensatedInTheSumOfItsSeats) {
  StartTeams(2, {0, 1}, "dcasgd:lambda=1");
  for (const uint32_t worker : {0, 1, 4, 5}) Send(Data(MessageType::kPull, worker, 0));
  SendPush(4, 0, 4);
  SendPush(5, 0, 6);
  EXPECT_EQ(Value(), -10);
  SendPush(0, 0, 1);
  SendPush(1, 0, 2);
  EXPECT_EQ(Value(), -10 - (3 + 3 * 3 * -10));
}

TEST_F(TeamTest, IsOneArrivalOfABatch) {
  StartTeams(2, {0, 1}, "softsync:n=1");
  SendPush(0, 0, 1);
  SendPush(1, 0, 2);
  SendPush(4, 0, 10);
  EXPECT_EQ(Value(), 0);
  SendPush(5, 0, 20);
  EXPECT_EQ(Value(), -33);
}

TEST_F(TeamTest, WhoHoldsNothingOfTheShardIsRefused) {
  StartTeams(1, {0, 1});
  const wire::Outbox out = SendPush(2, 0, 5);
  ASSERT_EQ(out.messages.size(), 1u);
  EXPECT_EQ(out.messages[0].type, MessageType::kReject);
  EXPECT_THAT(wire::As<wire::Notice>(out.messages[0]).text, HasSubstr("holds nothing"));
}

TEST_F(TeamTest, TwoTeamsAreTwoWorkers) {
  StartTeams(2, {0, 3}, "ssp:s=0");
  SendPush(0, 0, 1);
  SendPush(7, 0, 20);
  EXPECT_EQ(Value(), 0);
  SendPush(3, 0, 2);
  EXPECT_EQ(Value(), -3);
  SendPush(4, 0, 10);
  EXPECT_EQ(Value(), -33);
  for (const uint32_t worker : {0, 3, 4}) Send(Clocked(worker, 1, 1));
  EXPECT_EQ(shard_->policy().Frontier(), 0);
  Send(Clocked(7, 1, 1));
  EXPECT_EQ(shard_->policy().Frontier(), 1);
}

TEST_F(TeamTest, ATeamThatLacksASeatIsNoMember) {
  StartTeams(2, {0, 3}, "ssp:s=0");
  SendPush(4, 0, 10);
  roster_.workers.pop_back();  // worker 7
  SendRoster(2);
  EXPECT_EQ(shard_->policy().clocks().members(), 1u);
  EXPECT_EQ(shard_->held_bytes(), 0u);  // what waited for 7 is dropped
  SendPush(0, 0, 1);
  SendPush(3, 0, 2);
  EXPECT_EQ(Value(), -3);
  Send(Clocked(0, 1, 1));
  Send(Clocked(3, 1, 1));
  EXPECT_EQ(shard_->policy().Frontier(), 1);
}

// Under the ranks of a team that was lost, in an admission of its own.
TEST_F(TeamTest, AnotherTeamUnderItsRanksBeginsAnew) {
  StartTeams(2, {0, 3}, "ssp:s=3");
  SendPush(4, 0, 10);
  for (const uint32_t worker : {0, 3}) {
    SendPush(worker, 0, 1);
    Send(Clocked(worker, 1, 1));
  }
  const wire::Roster both = roster_;
  for (int i = 0; i < 4; ++i) roster_.workers.pop_back();
  SendRoster(2);
  EXPECT_EQ(shard_->policy().Frontier(), 1);
  SendPush(7, 0, 20);  // late
  EXPECT_EQ(shard_->stats().rejects, 1u);
  roster_ = both;
  for (size_t i = 4; i < 8; ++i) {
    roster_.workers.Mutable()[i].admitted = 3;
    roster_.workers.Mutable()[i].joining = true;
  }
  const wire::Outbox acks = SendRoster(3);
  ASSERT_EQ(acks.messages.size(), 1u);
  EXPECT_EQ(acks.messages[0].clock, 1);
  EXPECT_EQ(shard_->policy().clocks().members(), 2u);
  SendPush(7, 0, 20);  // later still: of epoch 1
  EXPECT_EQ(shard_->stats().rejects, 2u);
  for (size_t i = 4; i < 8; ++i) {
    roster_.workers.Mutable()[i].joining = false;
    roster_.workers.Mutable()[i].start = 1;
  }
  SendRoster(4);
  for (const uint32_t worker : {4, 7}) {
    Message push = Push(worker, 1, {0, 1}, 5);
    push.epoch = 4;
    EXPECT_TRUE(Send(push).messages.empty());
    Message clock = Clocked(worker, 2, 1);
    clock.epoch = 4;
    Send(clock);
  }
  EXPECT_EQ(Value(), -2 - 10);
  EXPECT_EQ(shard_->policy().Frontier(), 1);  // the other team's
  EXPECT_EQ(shard_->stats().rejects, 2u);
}

TEST_F(TeamTest, WhatWaitsForOthersCountsAsHeld) {
  StartTeams(1, {0, 1, 2});
  SendPush(0, 0, 1);
  SendPush(2, 0, 1);
  EXPECT_EQ(shard_->held_bytes(), 64u);
  SendPush(1, 0, 1);
  EXPECT_EQ(shard_->held_bytes(), 32u);  // the team's, which its clock is to complete
}

// ---- What is captured of it: the updates of all clocks below its own, with those of every holder,
// and of no other; also while a team takes over what another had to compute.

constexpr uint32_t kTeams = 2, kSeats = 2;
constexpr Clock kClocks = 10;
constexpr Clock kNotLost = kClocks;

// By which clock of the shard its shell looks at an order.
using LooksAt = std::function<Clock(const Shard&)>;

// Small whole numbers: sums of them are exact in any order.
float GradientOf(uint32_t micro_batch, uint32_t seat, Clock clock) {
  return static_cast<float>(1 + micro_batch * kSeats + seat + 4 * clock);
}

// With sgd at a rate of 1, of updates of clocks below `clock`.
float ValueAt(Clock clock) {
  float value = 0;
  for (Clock c = 0; c < clock; ++c) {
    for (uint32_t m = 0; m < kTeams; ++m) {
      for (uint32_t seat = 0; seat < kSeats; ++seat) value -= GradientOf(m, seat, c);
    }
  }
  return value;
}

class TeamCaptureTest : public ShardTest {
 protected:
  struct Found {
    int right = 0, wrong = 0;
  };

  // All clocks of both teams, holder by holder in an order drawn by `seed`, or what of them is left
  // after team 1 is lost while the shard is at `lost_at`. After each message there is an order.
  Found Run(uint64_t seed, Clock lost_at, const LooksAt& looks_at) {
    roster_ = {};
    left_.assign(kTeams * kSeats, {});
    team_ = {.teams = kTeams, .seats = kSeats};
    holders_ = {0, 1};
    Start("bsp", kTeams * kSeats, kTeams);
    found_ = {};
    order_ = {};
    const CounterRandom random(seed, RandomUse::kTest);
    uint64_t draws = 0;
    bool lost = false;
    for (Clock clock = 0; clock < kClocks; ++clock) {
      for (uint32_t w = 0; w < left_.size(); ++w) {
        if (!lost || w < kSeats) Plan(w, clock);
      }
      if (lost) TakeOver(clock);
      const uint64_t lose_after = random.Below(draws++, 8);
      for (uint64_t sent = 0;; ++sent) {
        if (clock == lost_at && !lost && sent == lose_after) {
          lost = true;
          Lose(clock);
        }
        std::vector<uint32_t> ready;
        for (uint32_t w = 0; w < left_.size(); ++w) {
          if (!left_[w].empty()) ready.push_back(w);
        }
        if (ready.empty()) break;
        std::vector<Message>& of = left_[ready[random.Below(draws++, ready.size())]];
        Send(std::move(of.front()));
        of.erase(of.begin());
        Look(looks_at);
      }
    }
    EXPECT_EQ(Value(), ValueAt(kClocks));
    EXPECT_EQ(shard_->stats().rejects, 0u);
    return found_;
  }

  Found OfAllSeeds(const LooksAt& looks_at, bool with_losses) {
    Found all;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Clock lost_at = with_losses ? static_cast<Clock>(seed % kClocks) : kNotLost;
      const Found found = Run(seed, lost_at, looks_at);
      all.right += found.right;
      all.wrong += found.wrong;
    }
    return all;
  }

 private:
  void Plan(uint32_t worker, Clock clock) {
    const uint32_t team = worker / kSeats;
    left_[worker].push_back(
        Push(worker, clock, {team, team + 1}, GradientOf(team, worker % kSeats, clock)));
    left_[worker].push_back(Clocked(worker, clock + 1, 1));
  }
  // A second push, of what the lost team had to compute: after the seat's own clock, or before.
  void TakeOver(Clock clock) {
    for (uint32_t seat = 0; seat < kSeats; ++seat) {
      left_[seat].push_back(Push(seat, clock, {1, 2}, GradientOf(1, seat, clock)));
    }
  }
  void Lose(Clock clock) {
    for (uint32_t w = kSeats; w < left_.size(); ++w) {
      left_[w].clear();
      roster_.workers.pop_back();
    }
    SendRoster(2);
    TakeOver(clock);
  }
  // As a shell does after each message, with an order for the clock that is there: the hardest to
  // tell from the one before.
  void Look(const LooksAt& looks_at) {
    const Clock clock = looks_at(*shard_);
    order_.Take(clock);
    ASSERT_EQ(order_.Look(clock, kNoClock), clock);
    const std::vector<SliceImage> slices = shard_->store().Capture();
    const bool right = slices[0].values.floats()[0] == ValueAt(clock);
    ++(right ? found_.right : found_.wrong);
  }

  std::vector<std::vector<Message>> left_;  // by worker, in its order
  CaptureOrder order_;
  Found found_;
};

Clock ByFrontier(const Shard& shard) { return shard.policy().Frontier(); }
// Mutants: who is furthest, and what all members that are left have completed.
Clock ByFurthest(const Shard& shard) { return shard.policy().clocks().Max(); }
Clock ByCompleted(const Shard& shard) { return shard.policy().clocks().Min(); }

TEST_F(TeamCaptureTest, HasAllHoldersOfTheClocksBelowAndOfNoOther) {
  const Found found = OfAllSeeds(ByFrontier, false);
  EXPECT_EQ(found.wrong, 0);
  EXPECT_GT(found.right, 1000);
  EXPECT_GT(OfAllSeeds(ByFurthest, false).wrong, 0);
}

TEST_F(TeamCaptureTest, SoItHasWhileATeamTakesOver) {
  const Found found = OfAllSeeds(ByFrontier, true);
  EXPECT_EQ(found.wrong, 0);
  EXPECT_GT(found.right, 1000);
  EXPECT_GT(OfAllSeeds(ByCompleted, true).wrong, 0);
}

}  // namespace
}  // namespace soapstone::server
