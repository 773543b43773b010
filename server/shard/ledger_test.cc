#include "server/shard/ledger.h"

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

Ledger::Update Of(WorkerId worker, Clock clock) {
  return {worker, clock, BucketId{0}, {Index(worker), Index(worker) + 1}};
}

// A ledger beside a store that keeps its word.
struct Books {
  explicit Books(const std::string& policy) : ledger(LedgerOf(policy)) {}
  void Take(WorkerId worker, Clock clock) { ledger.OnTaken(Of(worker, clock)); }
  void Apply(WorkerId worker, Clock clock) {
    const Ledger::Update update = Of(worker, clock);
    Store::StampWith(worker, update.micro_batches, clock, &stamp);
    ledger.OnApplied(update, 0);
    ledger.OnStored(BucketId{0}, stamp);
  }
  // One update of `worker` at `clock`, applied at once, and the clock after it.
  void Step(WorkerId worker, Clock clock) {
    Take(worker, clock);
    Apply(worker, clock);
    ledger.OnClock(worker, clock + 1);
  }
  void Read(WorkerId worker, Clock clock) {
    ledger.OnRead({worker, clock, /*oldest=*/0, stamp.updates});
  }
  uint64_t violations() const { return ledger.Total().violations; }

  Ledger ledger;
  Store::Stamp stamp;
};

TEST(Ledger, LagIsToTheSlowestMember) {
  Books books("ssp:s=2");
  for (Clock c = 0; c < 2; ++c) books.Step(kFirst, c);
  books.Read(kFirst, 2);
  books.Read(kSecond, 0);
  EXPECT_EQ(books.ledger.rows()[0].read_lags.CountIn(2), 1u);
  EXPECT_EQ(books.ledger.rows()[1].read_lags.CountIn(0), 1u);
  EXPECT_EQ(books.ledger.Total().read_lags.count(), 2u);
  EXPECT_EQ(books.ledger.rows()[0].lag_sum, 2u);
  EXPECT_EQ(books.ledger.Total().lag_sum, 2u);
  EXPECT_EQ(books.ledger.first_violation(), std::nullopt);
}

TEST(Ledger, LagBeyondTheBoundIsAViolation) {
  Books books("ssp:s=2");
  for (Clock c = 0; c < 3; ++c) books.Step(kFirst, c);
  books.Read(kFirst, 3);
  books.Read(kFirst, 3);
  EXPECT_EQ(books.violations(), 2u);
  EXPECT_THAT(books.ledger.first_violation(), Optional(Violation{.kind = Violation::Kind::kReadLag,
                                                                 .shard = ShardId{2},
                                                                 .worker = kFirst,
                                                                 .clock = 3,
                                                                 .seen = 3,
                                                                 .bound = 2}));
  EXPECT_EQ(books.ledger.first_violation()->ToString(),
            "shard 2: a read of worker 0 at clock 3 lags by 3; the bound is 2");
}

TEST(Ledger, AnUpdateInHandHoldsBackItsWorker) {
  Books books("ssp:s=0");
  books.Step(kFirst, 0);
  books.Take(kSecond, 0);
  books.ledger.OnClock(kSecond, 1);
  Books applied = books;
  books.Read(kFirst, 1);
  EXPECT_EQ(books.violations(), 1u);
  applied.Apply(kSecond, 0);
  applied.Read(kFirst, 1);
  EXPECT_EQ(applied.violations(), 0u);
}

TEST(Ledger, ADroppedUpdateIsNotApplied) {
  Books books("ssp:s=0");
  for (const WorkerId worker : {kFirst, kSecond}) {
    books.Take(worker, 0);
    books.ledger.OnDropped(Of(worker, 0));
    books.ledger.OnClock(worker, 1);
  }
  EXPECT_EQ(books.ledger.first_violation()->kind, Violation::Kind::kDropped);
  EXPECT_EQ(books.violations(), 2u);
  books.Read(kFirst, 1);  // at a lag of 1
  EXPECT_EQ(books.violations(), 3u);
}

TEST(Ledger, AMicroBatchThatIsHereAlreadyMayBeDropped) {
  Books books("bsp");
  Ledger ledger(ShardId{0}, consistency::ParsePolicy("bsp")->guarantee,
                /*shares_micro_batches=*/true);
  ledger.OnMember(kFirst, 0);
  ledger.OnMember(kSecond, 0);
  const Ledger::Update taken_over = {kFirst, 0, BucketId{0}, {1, 2}};
  ledger.OnTaken(Of(kFirst, 0));
  ledger.OnTaken(Of(kSecond, 0));
  ledger.OnTaken(taken_over);
  ledger.OnDropped(taken_over);
  EXPECT_EQ(ledger.Total().violations, 0u);
  ledger.OnDropped(Of(kSecond, 0));  // of which there is no other
  EXPECT_EQ(ledger.Total().violations, 1u);
}

TEST(Ledger, RoundsGoInByAscendingLeaves) {
  for (const bool ascending : {true, false}) {
    Ledger ledger(ShardId{0}, consistency::ParsePolicy("bsp")->guarantee,
                  /*shares_micro_batches=*/true);
    ledger.OnMember(kFirst, 0);
    ledger.OnMember(kSecond, 0);
    for (const WorkerId worker : {kFirst, kSecond}) ledger.OnTaken(Of(worker, 0));
    ledger.OnApplied(Of(ascending ? kFirst : kSecond, 0), 0);
    ledger.OnApplied(Of(ascending ? kSecond : kFirst, 0), 0);
    EXPECT_EQ(ledger.Total().violations, ascending ? 0u : 1u);
  }
}

TEST(Ledger, UpdatesOfAWorkerGoInByAscendingClocks) {
  Books books("async");
  for (const Clock clock : {0, 1}) books.Take(kFirst, clock);
  books.Apply(kFirst, 1);
  EXPECT_EQ(books.violations(), 0u);
  books.Apply(kFirst, 0);
  EXPECT_EQ(books.ledger.first_violation()->kind, Violation::Kind::kOrder);
}

TEST(Ledger, TheStoreMustHaveAppliedWhatItWasGiven) {
  Books books("softsync:n=1");
  books.Take(kFirst, 0);
  books.ledger.OnApplied(Of(kFirst, 0), 0);
  books.ledger.OnStored(BucketId{0}, {});
  EXPECT_EQ(books.ledger.first_violation()->ToString(),
            "shard 2: the store has 0 updates where 1 are due, or applied them in another order; "
            "last an update of worker 0 of clock 0");
}

TEST(Ledger, AReadHoldsTheNewestValues) {
  Books books("async");
  books.Step(kFirst, 0);
  books.ledger.OnRead({kSecond, 0, 0, /*version=*/0});
  EXPECT_EQ(books.ledger.first_violation()->ToString(),
            "shard 2: a read of worker 1 at clock 0 holds the values of 0 updates; 1 are applied");
}

TEST(Ledger, AReplyClaimsNoMoreThanIsApplied) {
  Books books("ssp:s=1");
  books.Step(kFirst, 0);
  books.ledger.OnRead({kFirst, 1, /*oldest=*/1, books.stamp.updates});
  EXPECT_EQ(books.ledger.first_violation()->kind, Violation::Kind::kOldest);
}

TEST(Ledger, AFinalReadHasEveryLastUpdate) {
  Books books("async");
  books.Step(kFirst, 0);
  books.ledger.OnFinalRead({kFirst, 1, 1, books.stamp.updates});
  EXPECT_EQ(books.ledger.first_violation()->kind, Violation::Kind::kFinal);
  Books done("async");
  for (const WorkerId worker : {kFirst, kSecond}) done.Step(worker, 0);
  done.ledger.OnFinalRead({kFirst, 1, 1, done.stamp.updates});
  EXPECT_EQ(done.violations(), 0u);
}

TEST(Ledger, PeersWithTheSameReplicasHandInTheSameValues) {
  Ledger ledger = LedgerOf("allreduce");
  ledger.OnHandIn(kFirst, BucketId{0}, 7);
  ledger.OnHandIn(kFirst, BucketId{1}, 8);
  ledger.OnHandIn(kSecond, BucketId{0}, 7);
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnHandIn(kSecond, BucketId{1}, 9);
  EXPECT_EQ(ledger.first_violation()->ToString(),
            "shard 2: worker 1 hands in other values than worker 0");
  ASSERT_EQ(ledger.violations().rows().size(), 1u);
  EXPECT_EQ(ledger.violations().rows()[0].kind, "replicas");
}

TEST(Ledger, ViolationsAreKeptByTheirKind) {
  Books books("ssp:s=0");
  for (Clock c = 0; c < 2; ++c) books.Step(kFirst, c);
  for (const Clock c : {1, 2}) books.Read(kFirst, c);
  const auto& rows = books.ledger.violations().rows();
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(books.ledger.violations().count(), books.violations());
  const auto lags = std::find_if(rows.begin(), rows.end(),
                                 [](const auto& row) { return row.kind == "read_lag"; });
  ASSERT_NE(lags, rows.end());
  EXPECT_EQ(lags->times, 2u);
  EXPECT_EQ(lags->clock, 1);
  EXPECT_THAT(lags->first, HasSubstr("lags by 1"));
}

TEST(Ledger, AMemberThatIsGoneCountsNoMore) {
  Books books("ssp:s=0");
  books.Step(kFirst, 0);
  books.ledger.OnGone(kSecond);
  books.Read(kFirst, 1);
  EXPECT_EQ(books.violations(), 0u);
}

TEST(Ledger, AReplacementIsNotHeldBackByItsPredecessorsUpdates) {
  Books books("ssp:s=0");
  books.Take(kSecond, 0);
  books.ledger.OnGone(kSecond);
  books.Step(kFirst, 0);
  books.ledger.OnMember(kSecond, 1);
  books.Read(kSecond, 1);
  books.Apply(kSecond, 0);
  EXPECT_EQ(books.violations(), 0u);
}

TEST(Ledger, ASnapshotHoldsNothingNewer) {
  Books books("bsp");
  books.Take(kFirst, 0);
  books.Apply(kFirst, 0);
  books.Read(kSecond, 0);
  ASSERT_TRUE(books.ledger.first_violation().has_value());
  EXPECT_EQ(books.ledger.first_violation()->kind, Violation::Kind::kSnapshot);
  EXPECT_THAT(books.ledger.first_violation()->ToString(), HasSubstr("holds an update of clock 0"));
}

TEST(Ledger, WhoReadsAheadMayLackSoManyOfItsClocksAndNoMore) {
  for (const Clock lead : {2, 3}) {
    Ledger ledger(ShardId{2}, consistency::ParsePolicy("async")->guarantee, false, /*own_lag=*/2);
    ledger.OnMember(kFirst, 0);
    ledger.OnRead({kFirst, lead, /*oldest=*/0, 0});
    EXPECT_EQ(ledger.Total().violations, lead == 2 ? 0u : 1u);
  }
}

TEST(Ledger, OwnWritesAreMissedWhereTheyArePromised) {
  for (const auto& [policy, violations] : {std::pair("async", 1u), std::pair("softsync", 0u)}) {
    Books books(policy);
    books.Take(kFirst, 0);
    books.ledger.OnClock(kFirst, 1);
    books.Read(kFirst, 1);
    EXPECT_EQ(books.violations(), violations) << policy;
  }
}

TEST(Ledger, TheGapOfClocksIsBounded) {
  Books books("ssp:s=0");
  books.Step(kFirst, 0);
  EXPECT_EQ(books.violations(), 0u);
  books.Step(kFirst, 1);
  ASSERT_TRUE(books.ledger.first_violation().has_value());
  EXPECT_EQ(books.ledger.first_violation()->kind, Violation::Kind::kClockGap);
  EXPECT_EQ(books.ledger.first_violation()->seen, 2);
}

}  // namespace
}  // namespace soapstone::server
