#include "server/peer/peer_ledger.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

using Kind = consistency::PeerActionKind;

constexpr WorkerId kSelf{1}, kOther{2};
constexpr uint64_t kFirstProcess = uint64_t{1} << PeerLedger::kProcessShift;

TEST(PeerLedger, ParcelsComeWithoutAGap) {
  PeerLedger ledger(kSelf);
  ledger.OnParcel(kOther, 0, kFirstProcess + 4);  // what came before it was born is lost
  ledger.OnParcel(kOther, kFirstProcess + 4, kFirstProcess + 5);
  ledger.OnParcel(kOther, kFirstProcess + 5, 2 * kFirstProcess + 1);  // another process
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnParcel(kOther, 2 * kFirstProcess + 1, 2 * kFirstProcess + 3);
  EXPECT_EQ(ledger.violations().first(),
            "peer 1: parcels of peer 2 are missing: number 3 came after 1");
}

TEST(PeerLedger, TheVectorsMakeEachStepInOrder) {
  PeerLedger ledger(kSelf);
  uint64_t order = 0;
  for (const Clock round : {0, 1}) {
    ledger.OnStep(round);
    order = PeerLedger::OrderWith(order, Kind::kApplySum, round);
  }
  ledger.OnMade(2, order);
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnMade(1, order);
  const uint64_t turned = PeerLedger::OrderWith(0, Kind::kApplySum, 1);
  ledger.OnMade(2, PeerLedger::OrderWith(turned, Kind::kApplySum, 0));
  EXPECT_EQ(ledger.violations().count(), 2u);
}

TEST(PeerLedger, AReadHoldsTheNewestStep) {
  PeerLedger ledger(kSelf);
  ledger.OnStep(0);
  ledger.OnRead(1, 1);
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnRead(1, 0);
  EXPECT_EQ(ledger.violations().first(),
            "peer 1: a read at clock 1 holds the values of 0 steps; 1 are made");
}

TEST(PeerLedger, TheVectorsTakeInEachParcel) {
  PeerLedger ledger(kSelf);
  ledger.OnAsked(Kind::kAddParcel, 8);
  ledger.OnMade(0, PeerLedger::OrderWith(0, Kind::kAddParcel, 8));
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnAsked(Kind::kAddParcel, 16);
  ledger.OnMade(0, PeerLedger::OrderWith(0, Kind::kAddParcel, 8));
  EXPECT_THAT(*ledger.violations().first(), ::testing::HasSubstr("left out a parcel"));
}

TEST(PeerLedger, ReplicasBeginARoundWithTheSameValues) {
  PeerLedger ledger(kSelf);
  ledger.OnValues(3, 77);
  ledger.OnOthersValues(kOther, 3, 77);
  ledger.OnOthersValues(kOther, 2, 5);   // of a round that is over
  ledger.OnOthersValues(kOther, 4, 78);  // that waits
  EXPECT_EQ(ledger.violations().count(), 0u);
  PeerLedger other = ledger, group = ledger;
  ledger.OnValues(4, 78);
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnOthersValues(kOther, 4, 79);
  EXPECT_EQ(ledger.violations().first(),
            "peer 1: peer 2 began round 4 with other values than this one");
  other.OnValues(4, 80);
  EXPECT_EQ(other.violations().count(), 1u);
  group.OnGroup();  // members are others: what was said is void
  group.OnValues(4, 80);
  EXPECT_EQ(group.violations().count(), 0u);
}

TEST(PeerLedger, AFinalAnswerIsOfTheEndAndWhatWasWritten) {
  const std::vector<float> values = {1, 2};
  wire::Message reply;
  reply.from = wire::Address::Of(ShardId{1});
  reply.clock = 1;
  reply.payload = {Buffer::CopyOf(absl::MakeConstSpan(values))};
  reply.body = wire::PullReply{.oldest = 1, .checksum = wire::SumOf(reply.payload)};
  PeerLedger ledger(kSelf);
  ledger.OnFinalReply(reply);
  EXPECT_EQ(ledger.violations().count(), 0u);
  ++wire::As<wire::PullReply>(&reply).checksum;
  ledger.OnFinalReply(reply);
  EXPECT_THAT(*ledger.violations().first(), ::testing::HasSubstr("other values"));
  wire::As<wire::PullReply>(&reply).oldest = 0;
  ledger.OnFinalReply(reply);
  EXPECT_EQ(ledger.violations().rows()[1].kind, "final");
}

}  // namespace
}  // namespace soapstone::server
