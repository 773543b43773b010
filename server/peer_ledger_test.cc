#include "server/peer_ledger.h"

#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

constexpr WorkerId kSelf{1}, kOther{2};
constexpr uint64_t kFirstProcess = uint64_t{1} << PeerLedger::kProcessShift;

TEST(PeerLedger, ParcelsComeWithoutAGap) {
  PeerLedger ledger(kSelf);
  ledger.OnParcel(kOther, 0, kFirstProcess + 4);  // what came before it was born is lost
  ledger.OnParcel(kOther, kFirstProcess + 4, kFirstProcess + 5);
  ledger.OnParcel(kOther, kFirstProcess + 5, 2 * kFirstProcess + 1);  // another process
  EXPECT_EQ(ledger.violations(), 0u);
  ledger.OnParcel(kOther, 2 * kFirstProcess + 1, 2 * kFirstProcess + 3);
  EXPECT_EQ(ledger.first_violation(),
            "peer 1: parcels of peer 2 are missing: number 3 came after 1");
}

TEST(PeerLedger, TheVectorsMakeEachStepInOrder) {
  PeerLedger ledger(kSelf);
  uint64_t order = 0;
  for (const Clock round : {0, 1}) {
    ledger.OnStep(round);
    order = PeerLedger::OrderWith(order, round);
  }
  ledger.OnMade(2, order);
  EXPECT_EQ(ledger.violations(), 0u);
  ledger.OnMade(1, order);
  ledger.OnMade(2, PeerLedger::OrderWith(PeerLedger::OrderWith(0, 1), 0));
  EXPECT_EQ(ledger.violations(), 2u);
}

TEST(PeerLedger, AReadHoldsTheNewestStep) {
  PeerLedger ledger(kSelf);
  ledger.OnStep(0);
  ledger.OnRead(1, 1);
  EXPECT_EQ(ledger.violations(), 0u);
  ledger.OnRead(1, 0);
  EXPECT_EQ(ledger.first_violation(),
            "peer 1: a read at clock 1 holds the values of 0 steps; 1 are made");
}

}  // namespace
}  // namespace soapstone::server
