#include "worker/reply_ledger.h"

#include "base/frame_sums.h"
#include "consistency/catalogue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Optional;

ReplyLedger LedgerOf(const std::string& policy) {
  return ReplyLedger(*consistency::ParsePolicy(policy), /*keepers=*/1);
}

wire::Message Reply(Clock clock, Clock oldest, uint64_t version) {
  wire::Message reply;
  reply.type = wire::MessageType::kPullReply;
  reply.from = wire::Address::Of(ShardId{0});
  reply.epoch = 1;
  reply.clock = clock;
  reply.body = wire::PullReply{.oldest = oldest, .version = version};
  return reply;
}

TEST(ReplyLedger, AReplyThatLagsTooFarIsAViolation) {
  ReplyLedger ledger = LedgerOf("ssp:s=1");
  ledger.OnReply(0, Reply(2, 1, 3));
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnReply(0, Reply(3, 1, 4));
  EXPECT_EQ(ledger.violations().first(),
            "worker 0: the answer of shard-0 for clock 3 lags by 2; the bound is 1");
}

TEST(ReplyLedger, VersionsDoNotGoBack) {
  ReplyLedger ledger = LedgerOf("softsync:n=1");
  ledger.OnReply(0, Reply(0, 0, 3));
  ledger.OnReply(0, Reply(0, 0, 3));  // twice the same
  EXPECT_EQ(ledger.violations().count(), 0u);
  ledger.OnReply(0, Reply(1, 0, 2));
  EXPECT_THAT(ledger.violations().first(), Optional(HasSubstr("one before held 3")));
}

TEST(ReplyLedger, OwnUpdatesAreInWhereThatIsPromised) {
  for (const auto& [policy, violations] : {std::pair("async", 1u), std::pair("softsync:n=1", 0u)}) {
    ReplyLedger ledger = LedgerOf(policy);
    ledger.OnReply(0, Reply(0, 0, 5));
    ledger.OnPush(0, 0);
    ledger.OnPush(0, 0);
    ReplyLedger kept = ledger;
    ledger.OnReply(0, Reply(1, 0, 6));
    EXPECT_EQ(ledger.violations().count(), violations) << policy;
    kept.OnReply(0, Reply(1, 0, 7));
    EXPECT_EQ(kept.violations().count(), 0u);
  }
}

TEST(ReplyLedger, WhoReadsAheadLacksSoManyOfItsClocksAndNoMore) {
  ReplyLedger ledger(*consistency::ParsePolicy("async"), 1, {}, /*own_lags=*/{1});
  ledger.OnReply(0, Reply(0, 0, 5));
  ledger.OnReply(0, Reply(1, 0, 5));
  ledger.OnPush(0, 0);
  ReplyLedger lacks = ledger;
  ledger.OnReply(0, Reply(2, 1, 6));
  EXPECT_EQ(ledger.violations().count(), 0u);
  lacks.OnReply(0, Reply(2, 0, 5));
  EXPECT_EQ(lacks.violations().count(), 1u);
}

TEST(ReplyLedger, AFinalReplyIsOfTheEnd) {
  ReplyLedger ledger = LedgerOf("async");
  wire::Message reply = Reply(4, 4, 9);
  wire::As<wire::PullReply>(&reply).final = true;
  ledger.OnReply(0, reply);
  EXPECT_EQ(ledger.violations().count(), 0u);
  wire::As<wire::PullReply>(&reply).oldest = 3;
  ledger.OnReply(0, reply);
  EXPECT_EQ(ledger.violations().count(), 1u);
}

TEST(ReplyLedger, ContentIsWhatTheChecksumWasTakenOf) {
  ReplyLedger ledger = LedgerOf("async");
  const std::vector<float> values = {1, 2, 3};
  wire::Message reply = Reply(0, 0, 0);
  reply.payload = {Buffer::CopyOf(absl::MakeConstSpan(values))};
  FrameSums all;
  all.Add(ContentSum(values.data(), values.size() * sizeof(float)));
  wire::As<wire::PullReply>(&reply).checksum = all.value();
  ledger.OnReply(0, reply);
  EXPECT_EQ(ledger.violations().count(), 0u);
  reply.payload = {Buffer::CopyOf(absl::MakeConstSpan(std::vector<float>{1, 2, 4}))};
  ledger.OnReply(0, reply);
  EXPECT_THAT(ledger.violations().first(), Optional(HasSubstr("other values")));
}

}  // namespace
}  // namespace soapstone::worker
