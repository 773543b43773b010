#include "consistency/policy.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::consistency {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Policy Make(std::string_view spec, uint32_t members, uint32_t buckets = 1,
            uint32_t micro_batches = 2) {
  Policy policy(*ParsePolicy(spec), buckets, micro_batches);
  for (uint32_t w = 0; w < members; ++w) policy.OnJoin(WorkerId{w}, 0);
  return policy;
}

PushEvent Push(uint32_t worker, Clock clock, MicroBatchRange micro_batches, uint64_t ticket,
               uint32_t bucket = 0) {
  return {.worker = WorkerId{worker},
          .clock = clock,
          .bucket = BucketId{bucket},
          .micro_batches = micro_batches,
          .ticket = Ticket{ticket}};
}

PullEvent Pull(uint32_t worker, Clock clock, uint64_t ticket) {
  return {.worker = WorkerId{worker}, .clock = clock, .ticket = Ticket{ticket}};
}

Action Do(ActionKind kind, uint64_t ticket = 0) { return {kind, Ticket{ticket}}; }

TEST(ParsePolicyTest, CanonicalSpecsParseToThemselves) {
  for (const char* spec : {"bsp", "ssp:s=2", "async", "easgd:tau=4,beta=0.9,mode=sync"}) {
    EXPECT_EQ(ParsePolicy(spec)->spec, spec);
  }
}

TEST(ParsePolicyTest, ErrorsNameWhatIsWrongAndWhatThereIs) {
  EXPECT_THAT(ParsePolicy("bps").status().message(), HasSubstr("there are bsp ssp:s=N"));
  EXPECT_THAT(ParsePolicy("ssp:s=-1").status().message(), HasSubstr("s=-1 is outside [0"));
  EXPECT_THAT(ParsePolicy("ssp").status().message(), HasSubstr("needs its staleness bound"));
  EXPECT_THAT(ParsePolicy("ssp:k=1").status().message(), HasSubstr("unknown argument 'k'"));
  EXPECT_THAT(ParsePolicy("easgd:mode=often").status().message(), HasSubstr("sync or async"));
  EXPECT_THAT(ParsePolicy("bsp:s=1").status().message(), HasSubstr("unknown argument"));
}

TEST(ParsePolicyTest, GuaranteesAreDeclared) {
  EXPECT_EQ(ParsePolicy("ssp:s=3")->guarantee.read_lag_max, 3);
  EXPECT_EQ(ParsePolicy("ssp:s=3")->guarantee.clock_gap_max, 4);
  EXPECT_FALSE(ParsePolicy("async")->guarantee.read_lag_max.has_value());
  EXPECT_TRUE(ParsePolicy("bsp")->guarantee.sequential_bits);
  EXPECT_TRUE(ParsePolicy("easgd")->guarantee.conserves_sum);
}

TEST(ParsePolicyTest, RoundsOfElasticAveragingCountTheLastPartialRound) {
  EXPECT_EQ(ParsePolicy("easgd:tau=4")->Rounds(9), 3);
  EXPECT_EQ(ParsePolicy("ssp:s=1")->Rounds(9), 9);
}

TEST(BspTest, RoundIsAppliedInTheOrderOfLeavesNotOfArrival) {
  Policy policy = Make("bsp", 2);
  EXPECT_THAT(policy.OnPush(Push(1, 0, {1, 2}, 11)), ElementsAre(Do(ActionKind::kHold, 11)));
  EXPECT_THAT(policy.OnClock({.worker = WorkerId{1}, .completed = 1}), IsEmpty());
  EXPECT_THAT(policy.OnPush(Push(0, 0, {0, 1}, 10)), ElementsAre(Do(ActionKind::kHold, 10)));
  EXPECT_THAT(policy.OnClock({.worker = WorkerId{0}, .completed = 1}),
              ElementsAre(Do(ActionKind::kGather, 10), Do(ActionKind::kGather, 11),
                          Do(ActionKind::kApplyGathered)));
  EXPECT_EQ(policy.Frontier(), 1);
}

TEST(BspTest, ReadOfTheNextVersionWaitsForTheWholeRound) {
  Policy policy = Make("bsp", 2);
  policy.OnPush(Push(0, 0, {0, 1}, 1));
  policy.OnClock({.worker = WorkerId{0}, .completed = 1});
  EXPECT_THAT(policy.OnPull(Pull(0, 1, 5)), ElementsAre(Do(ActionKind::kPark, 5)));
  EXPECT_THAT(policy.OnPull(Pull(1, 0, 6)), ElementsAre(Do(ActionKind::kReply, 6)));
  policy.OnPush(Push(1, 0, {1, 2}, 2));
  EXPECT_EQ(policy.OnClock({.worker = WorkerId{1}, .completed = 1}).back(),
            Do(ActionKind::kReply, 5));
}

TEST(BspTest, MicroBatchesThatAreHereAlreadyAreDropped) {
  Policy policy = Make("bsp", 2);
  policy.OnPush(Push(0, 0, {0, 2}, 1));
  EXPECT_THAT(policy.OnPush(Push(1, 0, {1, 2}, 2)), ElementsAre(Do(ActionKind::kDrop, 2)));
}

TEST(BspTest, RoundWaitsForLeavesOfALostMemberAndForNothingElse) {
  Policy policy = Make("bsp", 2);
  policy.OnPush(Push(0, 0, {0, 1}, 1));
  policy.OnClock({.worker = WorkerId{0}, .completed = 1});
  EXPECT_THAT(policy.OnLeave(WorkerId{1}), IsEmpty());  // its micro-batch is missing still
  const Actions actions = policy.OnPush(Push(0, 0, {1, 2}, 3));
  EXPECT_EQ(actions.back(), Do(ActionKind::kApplyGathered));
  EXPECT_EQ(policy.Frontier(), 1);
}

TEST(BspTest, PushOfAFutureRoundIsRejected) {
  Policy policy = Make("bsp", 2);
  EXPECT_THAT(policy.OnPush(Push(0, 1, {0, 1}, 1)), ElementsAre(Do(ActionKind::kReject, 1)));
}

TEST(SspTest, ReadWaitsUntilTheSlowestIsWithinTheBound) {
  Policy policy = Make("ssp:s=1", 2);
  policy.OnClock({.worker = WorkerId{0}, .completed = 2});
  EXPECT_THAT(policy.OnPull(Pull(0, 2, 7)), ElementsAre(Do(ActionKind::kPark, 7)));
  EXPECT_THAT(policy.OnClock({.worker = WorkerId{1}, .completed = 1}),
              ElementsAre(Do(ActionKind::kReply, 7)));
}

TEST(SspTest, LeaveOfTheSlowestReleasesTheParked) {
  Policy policy = Make("ssp:s=0", 2);
  policy.OnClock({.worker = WorkerId{0}, .completed = 1});
  policy.OnPull(Pull(0, 1, 7));
  EXPECT_THAT(policy.OnLeave(WorkerId{1}), ElementsAre(Do(ActionKind::kReply, 7)));
}

TEST(SspTest, UpdatesOfAnEarlierClockAreDuplicates) {
  Policy policy = Make("ssp:s=1", 1);
  EXPECT_THAT(policy.OnPush(Push(0, 0, {0, 1}, 1)), ElementsAre(Do(ActionKind::kApply, 1)));
  policy.OnClock({.worker = WorkerId{0}, .completed = 1});
  EXPECT_THAT(policy.OnPush(Push(0, 0, {0, 1}, 2)), ElementsAre(Do(ActionKind::kDrop, 2)));
}

TEST(SspTest, WithoutBoundTheTraceIsThatOfAsync) {
  Policy ssp = Make("ssp:s=1000000000", 2);
  Policy async = Make("async", 2);
  for (Clock clock = 0; clock < 20; ++clock) {
    const uint64_t ticket = static_cast<uint64_t>(clock);
    EXPECT_EQ(ssp.OnPull(Pull(0, clock, ticket)), async.OnPull(Pull(0, clock, ticket)));
    EXPECT_EQ(ssp.OnPush(Push(0, clock, {0, 1}, ticket)),
              async.OnPush(Push(0, clock, {0, 1}, ticket)));
    EXPECT_EQ(ssp.OnClock({.worker = WorkerId{0}, .completed = clock + 1}),
              async.OnClock({.worker = WorkerId{0}, .completed = clock + 1}));
  }
}

TEST(PolicyTest, EqualHistoriesGiveEqualValues) {
  Policy a = Make("ssp:s=1", 2);
  Policy b = a;
  EXPECT_EQ(a, b);
  a.OnClock({.worker = WorkerId{0}, .completed = 1});
  EXPECT_FALSE(a == b);
  b.OnClock({.worker = WorkerId{0}, .completed = 1});
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace soapstone::consistency
