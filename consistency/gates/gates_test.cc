// What the gates decide that the explorers do not count: the controller of dssp, the odds of psp
// and pssp, the weights of softsync, the masses of value, the sends of essp.
#include <cmath>

#include "consistency/policy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::consistency {
namespace {

using ::testing::ElementsAre;

Policy MakeGate(std::string_view spec, uint32_t members) {
  Policy policy(*ParsePolicy(spec), 1, members);
  for (uint32_t w = 0; w < members; ++w) policy.OnJoin(WorkerId{w}, 0);
  return policy;
}

Actions Clocked(Policy* policy, uint32_t worker, Clock completed, Nanos now = 0) {
  return policy->OnClock({.now = now, .worker = WorkerId{worker}, .completed = completed});
}

ActionKind Pulled(Policy* policy, uint32_t worker, Clock clock) {
  const Actions actions =
      policy->OnPull({.worker = WorkerId{worker}, .clock = clock, .ticket = Ticket{1000 + worker}});
  return actions.back().kind;
}

Actions Pushed(Policy* policy, uint32_t worker, Clock clock, uint64_t ticket, double mass = 1,
               uint64_t staleness = 0) {
  return policy->OnPush({.worker = WorkerId{worker},
                         .clock = clock,
                         .micro_batches = {worker, worker + 1},
                         .ticket = Ticket{ticket},
                         .staleness = staleness,
                         .mass = mass});
}

// Worker 0 takes 10, worker 1 takes 40: after clocks at 10, 20 and 40, 80 the fast one, at clock 8
// and time 80, would meet the slow one's next clock, at 120, after 4 more steps.
TEST(DynamicGateTest, ControllerGrantsTheStepsUntilTheSlowOnesNextClock) {
  Policy policy = MakeGate("dssp:lower=0,upper=20", 2);
  for (Clock c = 1; c <= 4; ++c) Clocked(&policy, 0, c, 10 * c);
  Clocked(&policy, 1, 1, 40);
  for (Clock c = 5; c <= 8; ++c) Clocked(&policy, 0, c, 10 * c);
  Clocked(&policy, 1, 2, 80);
  int granted = 0;
  for (Clock c = 8; Pulled(&policy, 0, c) == ActionKind::kReply; ++c) {
    if (++granted > 10) break;
    if (granted == 4) break;  // the credit's last
    Clocked(&policy, 0, c + 1, 10 * (c + 1));
  }
  EXPECT_EQ(granted, 4);
}

TEST(DynamicGateTest, WithoutIntervalsItIsTheLowerBound) {
  Policy policy = MakeGate("dssp:lower=1,upper=20", 2);
  Clocked(&policy, 0, 1, 10);
  EXPECT_EQ(Pulled(&policy, 0, 1), ActionKind::kReply);
  Clocked(&policy, 0, 2, 20);
  EXPECT_EQ(Pulled(&policy, 0, 2), ActionKind::kPark);  // the slow one has not clocked twice
}

TEST(DynamicGateTest, ASlowReaderIsNeverParked) {
  Policy policy = MakeGate("dssp:lower=0,upper=3", 2);
  for (Clock c = 1; c <= 3; ++c) Clocked(&policy, 0, c, c);
  EXPECT_EQ(Pulled(&policy, 1, 0), ActionKind::kReply);
}

double Choose(int n, int k) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1));
}

// Of 20 others 5 lag; 3 are asked: passes with probability C(15, 3) / C(20, 3) = 0.399.
TEST(SampledGateTest, PspPassesWithTheHypergeometricProbability) {
  constexpr int kDraws = 4000;
  Policy policy = MakeGate("psp:sample=3,s=0", 21);
  for (uint32_t w = 1; w <= 15; ++w) Clocked(&policy, w, kDraws);
  int passed = 0;
  for (Clock c = 1; c <= kDraws; ++c) {
    Clocked(&policy, 0, c);
    if (Pulled(&policy, 0, c) == ActionKind::kReply) ++passed;
  }
  const double p = Choose(15, 3) / Choose(20, 3);
  EXPECT_NEAR(passed, kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p)));
}

TEST(SampledGateTest, PsspBlocksWithItsProbability) {
  constexpr int kDraws = 4000;
  Policy policy = MakeGate("pssp:s=2,p=0.3", 2);
  int blocked = 0;
  for (Clock c = 3; c < 3 + kDraws; ++c) {
    Clocked(&policy, 0, c);
    if (Pulled(&policy, 0, c) == ActionKind::kPark) ++blocked;
  }
  EXPECT_NEAR(blocked, 0.3 * kDraws, 4 * std::sqrt(kDraws * 0.3 * 0.7));
}

TEST(SampledGateTest, EveryShardDrawsAlikeAndSeedsDiffer) {
  const auto decisions = [](std::string_view spec) {
    Policy policy = MakeGate(spec, 9);
    for (uint32_t w = 1; w <= 4; ++w) Clocked(&policy, w, 100);
    std::vector<bool> passed;
    for (Clock c = 1; c <= 64; ++c) {
      Clocked(&policy, 0, c);
      passed.push_back(Pulled(&policy, 0, c) == ActionKind::kReply);
    }
    return passed;
  };
  EXPECT_EQ(decisions("psp:sample=2,s=0"), decisions("psp:sample=2,s=0"));
  EXPECT_NE(decisions("psp:sample=2,s=0"), decisions("psp:sample=2,s=0,seed=2"));
}

TEST(BatchGateTest, TakesFloorOfPOverNArrivals) {
  Policy policy = MakeGate("softsync:n=2", 5);  // floor(5 / 2) = 2
  EXPECT_THAT(Pushed(&policy, 3, 0, 1), ElementsAre(Action{ActionKind::kHold, Ticket{1}}));
  EXPECT_THAT(
      Pushed(&policy, 0, 0, 2),
      ElementsAre(Action{ActionKind::kHold, Ticket{2}}, Action{ActionKind::kGather, Ticket{1}},
                  Action{ActionKind::kGather, Ticket{2}}, Action{ActionKind::kApplyGathered}));
}

TEST(BatchGateTest, WeightsAreNOverTheStaleness) {
  Policy policy = MakeGate("softsync:n=4,rate=each", 4);
  EXPECT_EQ(Pushed(&policy, 0, 0, 1, 1, 0)[1].weight, 4);
  EXPECT_EQ(Pushed(&policy, 1, 0, 2, 1, 1)[1].weight, 4);
  EXPECT_EQ(Pushed(&policy, 2, 0, 3, 1, 8)[1].weight, 0.5);
}

TEST(ValueGateTest, AnUpdateWaitsUntilThePeersHaveSeenWhatWasBefore) {
  Policy policy = MakeGate("value:v0=1.5", 2);
  EXPECT_EQ(Pulled(&policy, 0, 0), ActionKind::kReply);
  EXPECT_EQ(Pulled(&policy, 1, 0), ActionKind::kReply);
  EXPECT_EQ(Pushed(&policy, 0, 0, 1, 1.0).back().kind, ActionKind::kApply);
  Clocked(&policy, 0, 1);
  EXPECT_EQ(Pulled(&policy, 0, 1), ActionKind::kReply);
  // 1.0 unseen and 0.2 more: more than 1.5 / sqrt(2).
  EXPECT_EQ(Pushed(&policy, 0, 1, 2, 0.2).back().kind, ActionKind::kHold);
  EXPECT_EQ(policy.UnseenMax(), 1.0);
  Clocked(&policy, 0, 2);
  EXPECT_EQ(Pulled(&policy, 0, 2), ActionKind::kPark);  // its own update is not in yet
  Pushed(&policy, 1, 0, 3, 0.1);
  // Worker 1 is done with what it had read: everything fits, in the order of arrival.
  EXPECT_THAT(Clocked(&policy, 1, 1), ElementsAre(Action{ActionKind::kApply, Ticket{2}},
                                                  Action{ActionKind::kApply, Ticket{3}},
                                                  Action{ActionKind::kReply, Ticket{1000}}));
}

TEST(ValueGateTest, ASingleUpdateMayExceedTheBound) {
  Policy policy = MakeGate("value:v0=0.1", 2);
  Pulled(&policy, 0, 0);
  Pulled(&policy, 1, 0);
  EXPECT_EQ(Pushed(&policy, 0, 0, 1, 50.0).back().kind, ActionKind::kApply);
}

TEST(SubscribedGateTest, SendsTheNextClockUnaskedAndFresherValuesLater) {
  Policy policy = MakeGate("essp:s=1", 2);
  EXPECT_EQ(Pulled(&policy, 0, 0), ActionKind::kReply);
  EXPECT_EQ(Pulled(&policy, 1, 0), ActionKind::kReply);
  const auto send = [](uint32_t worker, Clock clock) {
    return Action{.kind = ActionKind::kSend, .worker = WorkerId{worker}, .clock = clock};
  };
  EXPECT_THAT(Clocked(&policy, 0, 1), ElementsAre(send(0, 1)));
  EXPECT_THAT(Clocked(&policy, 0, 2), ElementsAre());  // beyond the bound
  EXPECT_THAT(Clocked(&policy, 1, 1), ElementsAre(send(0, 2), send(1, 1)));
}

std::vector<ActionKind> Kinds(const Actions& actions) {
  std::vector<ActionKind> kinds;
  for (const Action& action : actions) kinds.push_back(action.kind);
  return kinds;
}

TEST(BackupGateTest, TheLastIsLeftOut) {
  Policy policy = MakeGate("backup:b=1", 3);
  for (const uint32_t w : {2, 0, 1}) Pushed(&policy, w, 0, w);
  EXPECT_EQ(Clocked(&policy, 2, 1), Actions{});
  EXPECT_THAT(Kinds(Clocked(&policy, 1, 1)),
              ElementsAre(ActionKind::kLeaveOut, ActionKind::kGather, ActionKind::kGather,
                          ActionKind::kApplyGathered));
  EXPECT_THAT(policy.chosen(), ElementsAre(WorkerId{1}, WorkerId{2}));
  EXPECT_EQ(policy.Frontier(), 1);
  EXPECT_EQ(Clocked(&policy, 0, 1), Actions{});  // too late
  EXPECT_EQ(Pulled(&policy, 0, 1), ActionKind::kReply);
  EXPECT_EQ(Pulled(&policy, 0, 2), ActionKind::kPark);
}

TEST(BackupGateTest, ALateUpdateIsLeftOut) {
  Policy policy = MakeGate("backup:b=1", 2);
  Pushed(&policy, 0, 0, 1);
  Clocked(&policy, 0, 1);
  EXPECT_THAT(Kinds(Pushed(&policy, 1, 0, 2)), ElementsAre(ActionKind::kLeaveOut));
  EXPECT_THAT(Kinds(Pushed(&policy, 1, 2, 3)), ElementsAre(ActionKind::kReject));  // too early
}

// Shard 1 reports; shard 0 chooses when both hold two workers' updates.
TEST(BackupGateTest, ShardZeroChoosesForAll) {
  const PolicyTraits traits = *ParsePolicy("backup:b=1");
  Policy lead(traits, 1, 3, {ShardId{0}, 2}), other(traits, 1, 3, {ShardId{1}, 2});
  for (Policy* policy : {&lead, &other}) {
    for (uint32_t w = 0; w < 3; ++w) {
      policy->OnJoin(WorkerId{w}, 0);
      Pushed(policy, w, 0, w);
    }
  }
  for (uint32_t w = 0; w < 3; ++w) EXPECT_EQ(Clocked(&lead, w, 1), Actions{});
  EXPECT_THAT(Kinds(Clocked(&other, 2, 1)), ElementsAre(ActionKind::kTellHeld));
  EXPECT_EQ(lead.OnHeld(ShardId{1}, WorkerId{2}, 0), Actions{});
  EXPECT_EQ(lead.OnHeld(ShardId{1}, WorkerId{2}, 0), Actions{});  // a second time
  EXPECT_EQ(lead.OnHeld(ShardId{1}, WorkerId{0}, 0).front().kind, ActionKind::kTellChosen);
  EXPECT_EQ(lead.Frontier(), 1);
  EXPECT_EQ(other.Frontier(), 0);
  EXPECT_THAT(Kinds(other.OnChosen(0, lead.chosen())),
              ElementsAre(ActionKind::kGather, ActionKind::kLeaveOut, ActionKind::kGather,
                          ActionKind::kApplyGathered));
  EXPECT_EQ(other.OnChosen(0, lead.chosen()), Actions{});
  EXPECT_EQ(lead.OnHeld(ShardId{1}, WorkerId{1}, 0), Actions{});  // too late
}

// A push of `micro_batches` of round 0; what is said of which ticket.
std::vector<std::pair<ActionKind, uint64_t>> NodePushed(Policy* policy, uint32_t worker,
                                                        MicroBatchRange micro_batches,
                                                        uint64_t ticket) {
  std::vector<std::pair<ActionKind, uint64_t>> said;
  for (const Action& action : policy->OnPush({.worker = WorkerId{worker},
                              .clock = 0,
                              .micro_batches = micro_batches,
                              .ticket = Ticket{ticket}})) {
    said.emplace_back(action.kind, static_cast<uint64_t>(action.ticket));
  }
  return said;
}

// Micro-batches of a lost worker that another one had supplied in part, and was lost too: who takes
// over both sums all of them.
TEST(RoundGateTest, ALargerNodeTakesThePlaceOfItsParts) {
  Policy policy(*ParsePolicy("bsp"), 1, 4);
  for (uint32_t w = 0; w < 2; ++w) policy.OnJoin(WorkerId{w}, 0);
  using enum ActionKind;
  EXPECT_THAT(NodePushed(&policy, 1, {2, 3}, 11), ElementsAre(std::pair(kHold, 11u)));
  policy.OnLeave(WorkerId{1});
  EXPECT_THAT(NodePushed(&policy, 0, {0, 2}, 12), ElementsAre(std::pair(kHold, 12u)));
  EXPECT_THAT(NodePushed(&policy, 0, {2, 4}, 13),
              ElementsAre(std::pair(kDrop, 11u), std::pair(kHold, 13u)));
  std::vector<uint64_t> gathered;
  for (const Action& action : Clocked(&policy, 0, 1)) {
    if (action.kind == kGather) gathered.push_back(static_cast<uint64_t>(action.ticket));
  }
  EXPECT_THAT(gathered, ElementsAre(12u, 13u));
  EXPECT_EQ(policy.Frontier(), 1);
}

TEST(RoundGateTest, WhatIsHereAlreadyIsDropped) {
  Policy policy(*ParsePolicy("bsp"), 1, 4);
  for (uint32_t w = 0; w < 2; ++w) policy.OnJoin(WorkerId{w}, 0);
  using enum ActionKind;
  NodePushed(&policy, 0, {2, 4}, 11);
  EXPECT_THAT(NodePushed(&policy, 1, {2, 3}, 12), ElementsAre(std::pair(kDrop, 12u)));
  EXPECT_THAT(NodePushed(&policy, 1, {2, 4}, 13), ElementsAre(std::pair(kDrop, 13u)));
  NodePushed(&policy, 0, {0, 1}, 14);
  NodePushed(&policy, 0, {1, 2}, 15);
  EXPECT_THAT(NodePushed(&policy, 1, {0, 2}, 16), ElementsAre(std::pair(kDrop, 16u)));  // in parts
}

}  // namespace
}  // namespace soapstone::consistency
