// Shard: what its ledger sees of a gate that keeps less than is claimed of it.
#include "server/shard/hand_fed_shard.h"

namespace soapstone::server {
namespace {

// What a shard does when its gate keeps less than it claims: the ledger must see it.
class ClaimTest : public ShardTest {
 protected:
  // Worker 0 makes up to two steps, as far as its reads are answered, while worker 1 makes none.
  void RunAhead() {
    for (Clock c = 0; !Send(Data(MessageType::kPull, 0, c)).messages.empty() && c < 2; ++c) {
      Send(Push(0, c, {0, 1}, 1.0f));
      Send(Clocked(0, c + 1, 1));
    }
  }
  uint64_t Violations() const { return shard_->ledger().Total().violations; }
};

TEST_F(ClaimTest, WhatTheGateKeepsIsNoViolation) {
  for (const char* policy : {"ssp:s=0", "ssp:s=1", "ssp:s=2", "async", "bsp", "softsync:n=1"}) {
    roster_ = {};
    Start(policy, 2, 2);
    RunAhead();
    EXPECT_EQ(Violations(), 0u) << policy;
  }
}

TEST_F(ClaimTest, ALooserGateThanClaimedIsSeen) {
  for (const char* gate : {"ssp:s=2", "ssp:s=3", "async", "essp:s=2"}) {
    roster_ = {};
    Start(gate, 2, 2, "ssp:s=1");
    RunAhead();
    EXPECT_GE(Violations(), 1u) << gate;
    EXPECT_EQ(shard_->ledger().first_violation()->kind, Violation::Kind::kReadLag);
    EXPECT_EQ(shard_->ledger().first_violation()->clock, 2);
  }
}

TEST_F(ClaimTest, LiveReadsAreNoSnapshots) {
  Start("ssp:s=0", 2, 2, "bsp");
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Data(MessageType::kPull, 1, 0));
  EXPECT_EQ(shard_->ledger().first_violation()->kind, Violation::Kind::kSnapshot);
}

TEST_F(ClaimTest, OwnUpdatesThatArePendingAreMissed) {
  Start("softsync:n=1", 2, 2, "async");
  Send(Push(0, 0, {0, 1}, 1.0f));
  Send(Clocked(0, 1, 1));
  Send(Data(MessageType::kPull, 0, 1));
  EXPECT_EQ(shard_->ledger().first_violation()->kind, Violation::Kind::kOwnWrites);
}

TEST_F(ShardTest, TheLedgerCountsReadsAndUpdatesOfEachWorker) {
  Start("async", 2, 2);
  for (uint32_t w = 0; w < 2; ++w) Send(Data(MessageType::kPull, w, 0));
  for (uint32_t w = 0; w < 2; ++w) Send(Push(w, 0, {w, w + 1}, 1.0f));
  const std::vector<Ledger::Row>& rows = shard_->ledger().rows();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].read_lags.count(), 1u);
  EXPECT_EQ(rows[0].stalenesses.CountIn(0), 1u);
  EXPECT_EQ(rows[1].stalenesses.CountIn(1), 1u);
}

}  // namespace
}  // namespace soapstone::server
