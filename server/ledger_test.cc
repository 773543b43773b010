#include "server/ledger.h"

#include "consistency/catalogue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

constexpr WorkerId kFirst{0}, kSecond{1};

Ledger LedgerOf(const std::string& policy) {
  Ledger ledger(ShardId{2}, consistency::ParsePolicy(policy)->guarantee);
  ledger.OnMember(kFirst, 0);
  ledger.OnMember(kSecond, 0);
  return ledger;
}

// One update of `worker` at `clock`, applied at once, and the clock after it.
void Step(WorkerId worker, Clock clock, Ledger* ledger) {
  ledger->OnTaken(worker, clock);
  ledger->OnApplied(worker, clock, 0);
  ledger->OnClock(worker, clock + 1);
}

TEST(Ledger, LagIsToTheSlowestMember) {
  Ledger ledger = LedgerOf("ssp:s=2");
  for (Clock c = 0; c < 2; ++c) Step(kFirst, c, &ledger);
  ledger.OnRead(kFirst, 2);
  ledger.OnRead(kSecond, 0);
  EXPECT_EQ(ledger.rows()[0].read_lags.CountIn(2), 1u);
  EXPECT_EQ(ledger.rows()[1].read_lags.CountIn(0), 1u);
  EXPECT_EQ(ledger.Total().read_lags.count(), 2u);
  EXPECT_EQ(ledger.first_violation(), std::nullopt);
}

TEST(Ledger, LagBeyondTheBoundIsAViolation) {
  Ledger ledger = LedgerOf("ssp:s=2");
  for (Clock c = 0; c < 3; ++c) Step(kFirst, c, &ledger);
  ledger.OnRead(kFirst, 3);
  ledger.OnRead(kFirst, 3);
  EXPECT_EQ(ledger.Total().violations, 2u);
  EXPECT_THAT(ledger.first_violation(), Optional(Violation{.kind = Violation::Kind::kReadLag,
                                                           .shard = ShardId{2},
                                                           .worker = kFirst,
                                                           .clock = 3,
                                                           .seen = 3,
                                                           .bound = 2}));
  EXPECT_EQ(ledger.first_violation()->ToString(),
            "shard 2: a read of worker 0 at clock 3 lags by 3; the bound is 2");
}

TEST(Ledger, AnUpdateInHandHoldsBackItsWorker) {
  Ledger ledger = LedgerOf("ssp:s=0");
  Step(kFirst, 0, &ledger);
  ledger.OnTaken(kSecond, 0);
  ledger.OnClock(kSecond, 1);
  Ledger applied = ledger;
  ledger.OnRead(kFirst, 1);
  EXPECT_EQ(ledger.Total().violations, 1u);
  applied.OnApplied(kSecond, 0, 0);
  applied.OnRead(kFirst, 1);
  EXPECT_EQ(applied.Total().violations, 0u);
}

TEST(Ledger, ADroppedUpdateHoldsBackNobody) {
  Ledger ledger = LedgerOf("ssp:s=0");
  for (const WorkerId worker : {kFirst, kSecond}) Step(worker, 0, &ledger);
  ledger.OnTaken(kFirst, 0);
  ledger.OnDropped(kFirst, 0);
  ledger.OnRead(kSecond, 1);
  EXPECT_EQ(ledger.Total().violations, 0u);
}

TEST(Ledger, AMemberThatIsGoneCountsNoMore) {
  Ledger ledger = LedgerOf("ssp:s=0");
  Step(kFirst, 0, &ledger);
  ledger.OnGone(kSecond);
  ledger.OnRead(kFirst, 1);
  EXPECT_EQ(ledger.Total().violations, 0u);
}

TEST(Ledger, AReplacementIsNotHeldBackByItsPredecessorsUpdates) {
  Ledger ledger = LedgerOf("ssp:s=0");
  ledger.OnTaken(kSecond, 0);
  ledger.OnGone(kSecond);
  Step(kFirst, 0, &ledger);
  ledger.OnMember(kSecond, 1);
  ledger.OnRead(kSecond, 1);
  ledger.OnApplied(kSecond, 0, 0);
  EXPECT_EQ(ledger.Total().violations, 0u);
}

TEST(Ledger, ASnapshotHoldsNothingNewer) {
  Ledger ledger = LedgerOf("bsp");
  ledger.OnTaken(kFirst, 0);
  ledger.OnApplied(kFirst, 0, 0);
  ledger.OnRead(kSecond, 0);
  ASSERT_TRUE(ledger.first_violation().has_value());
  EXPECT_EQ(ledger.first_violation()->kind, Violation::Kind::kSnapshot);
  EXPECT_THAT(ledger.first_violation()->ToString(), HasSubstr("holds an update of clock 0"));
}

TEST(Ledger, OwnWritesAreMissedWhereTheyArePromised) {
  for (const auto& [policy, violations] : {std::pair("async", 1u), std::pair("softsync", 0u)}) {
    Ledger ledger = LedgerOf(policy);
    ledger.OnTaken(kFirst, 0);
    ledger.OnClock(kFirst, 1);
    ledger.OnRead(kFirst, 1);
    EXPECT_EQ(ledger.Total().violations, violations) << policy;
  }
}

TEST(Ledger, TheGapOfClocksIsBounded) {
  Ledger ledger = LedgerOf("ssp:s=0");
  Step(kFirst, 0, &ledger);
  EXPECT_EQ(ledger.Total().violations, 0u);
  Step(kFirst, 1, &ledger);
  ASSERT_TRUE(ledger.first_violation().has_value());
  EXPECT_EQ(ledger.first_violation()->kind, Violation::Kind::kClockGap);
  EXPECT_EQ(ledger.first_violation()->seen, 2);
}

}  // namespace
}  // namespace soapstone::server
