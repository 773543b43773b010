// A shard whose members are teams of workers: what the seats that hold its parameters send becomes
// what one worker says.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/hand_fed_shard.h"

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

}  // namespace
}  // namespace soapstone::server
