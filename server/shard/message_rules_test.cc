#include "server/shard/message_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "consistency/catalogue.h"
#include "wire/header_fields.h"

namespace soapstone::server {
namespace {

using ::testing::HasSubstr;
using wire::Message;
using wire::MessageType;

class MessageRulesTest : public ::testing::Test {
 protected:
  MessageRulesTest() : MessageRulesTest("bsp", {}) {}
  MessageRulesTest(const std::string& policy, std::vector<TableSpec> tables) {
    options_.layout = std::make_shared<const wire::Layout>(
        *wire::Layout::Build({{.name = "w", .shape = {8}}}, {.tables = std::move(tables)}));
    options_.policy = *consistency::ParsePolicy(policy);
    options_.micro_batch_count = 4;
    options_.final_clock = 10;
    store_.emplace(TensorStoreOptions{.layout = options_.layout,
                                      .optimizer = *compute::ParseOptimizer("sgd:lr=1"),
                                      .schedule = *compute::ParseSchedule("constant"),
                                      .total_clocks = 10,
                                      .rule = options_.policy.store,
                                      .fixed_tree = options_.policy.fixed_tree});
    push_.type = MessageType::kPush;
    push_.clock = 0;
    push_.body = wire::Push{
        .micro_batches = {0, 2}, .micro_batch_count = 4, .samples = 2, .batch_samples = 4};
    push_.payload = {Values(8)};
  }

  static Buffer Values(size_t elements) {
    return Buffer::CopyOf<float>(std::vector<float>(elements));
  }
  std::string WhyNot(const Message& message) const {
    return WhyMalformed(message, options_, *store_, /*worker_count=*/2);
  }

  wire::Push& body() { return wire::As<wire::Push>(&push_); }

  ShardOptions options_;
  std::optional<Store> store_;
  Message push_;
};

TEST_F(MessageRulesTest, AWellFormedPushIsTaken) { EXPECT_EQ(WhyNot(push_), ""); }

TEST_F(MessageRulesTest, AClockIsOneOfTheRun) {
  for (const MessageType type : {MessageType::kPush, MessageType::kClock, MessageType::kPull}) {
    Message message = type == MessageType::kPush ? push_ : Message();
    message.type = type;
    if (type != MessageType::kPush) message.body = wire::BodyFrom(type, {});
    message.clock = 10;
    EXPECT_EQ(WhyNot(message), "");
    message.clock = 11;
    EXPECT_THAT(WhyNot(message), HasSubstr("clock 11 is outside [0, 10]"));
    message.clock = -1;
    EXPECT_THAT(WhyNot(message), HasSubstr("clock -1"));
  }
}

TEST_F(MessageRulesTest, MicroBatchesAreANodeOfTheJobsTree) {
  for (const MicroBatchRange micro_batches : {MicroBatchRange{0, 0}, MicroBatchRange{1, 3},
                                              MicroBatchRange{2, 5}, MicroBatchRange{3, 1}}) {
    body().micro_batches = micro_batches;
    EXPECT_THAT(WhyNot(push_), HasSubstr("micro-batches")) << micro_batches.begin;
  }
  body().micro_batches = {0, 2};
  body().micro_batch_count = 8;
  EXPECT_THAT(WhyNot(push_), HasSubstr("of 8; the job has 4"));
}

TEST_F(MessageRulesTest, SamplesArePartOfABatch) {
  body().samples = 5;
  EXPECT_THAT(WhyNot(push_), HasSubstr("5 samples of a batch of 4"));
  body().samples = body().batch_samples = 0;
  EXPECT_THAT(WhyNot(push_), HasSubstr("0 samples of a batch of 0"));
}

TEST_F(MessageRulesTest, ABucketIsOneOfTheShard) {
  body().bucket = BucketId{1};
  EXPECT_THAT(WhyNot(push_), HasSubstr("no bucket 1"));
}

TEST_F(MessageRulesTest, APayloadFitsTheSlices) {
  push_.payload = {};
  EXPECT_THAT(WhyNot(push_), HasSubstr("0 payload frames for 1 slices"));
  push_.payload = {Values(7)};
  EXPECT_THAT(WhyNot(push_), HasSubstr("frame 0 has 28 bytes"));
  push_.payload = {Values(9).Slice(2, 32)};
  EXPECT_THAT(WhyNot(push_), HasSubstr("not aligned"));
  // Counts stand for values of any length.
  EXPECT_EQ(WhyMalformed(push_, options_, Store(CountStore(1)), 2), "");
}

TEST_F(MessageRulesTest, WithoutTablesAPullAsksForNoRows) {
  Message pull;
  pull.type = MessageType::kPull;
  pull.body = wire::Pull{};
  pull.clock = 0;
  EXPECT_EQ(WhyNot(pull), "");
  pull.payload = {Values(2)};
  EXPECT_THAT(WhyNot(pull), HasSubstr("no table"));
}

TEST_F(MessageRulesTest, ARootsAnswerHoldsEverySlice) {
  Message reply;
  EXPECT_FALSE(HoldsSlices(reply, options_, *store_));
  reply.payload = {Values(8)};
  EXPECT_TRUE(HoldsSlices(reply, options_, *store_));
  reply.payload = {Values(8), Values(8)};
  EXPECT_FALSE(HoldsSlices(reply, options_, *store_));
  reply.payload = {Values(7)};
  EXPECT_FALSE(HoldsSlices(reply, options_, *store_));
  EXPECT_TRUE(HoldsSlices(reply, options_, Store(CountStore(1))));
}

// Of elastic differences there is one a worker, and no samples.
class ElasticRulesTest : public MessageRulesTest {
 protected:
  ElasticRulesTest() : MessageRulesTest("easgd:tau=2,mode=async", {}) {}
};

TEST_F(ElasticRulesTest, LeavesAreRanks) {
  EXPECT_THAT(WhyNot(push_), HasSubstr("of 4; the job has 2"));
  body().micro_batch_count = 2;
  body().micro_batches = {1, 2};
  body().samples = body().batch_samples = 0;
  EXPECT_EQ(WhyNot(push_), "");
}

class TableRulesTest : public MessageRulesTest {
 protected:
  TableRulesTest() : MessageRulesTest("bsp", {{.name = "t", .dim = 2}}) {}
};

TEST_F(TableRulesTest, KeysAndRowsAreTheTables) {
  const std::vector<uint64_t> keys = {3, 5};
  body().bucket = BucketId{1};
  push_.payload = {Buffer::CopyOf(keys.data(), 16), Values(4)};
  EXPECT_EQ(WhyNot(push_), "");
  push_.payload = {Buffer::CopyOf(keys.data(), 16), Values(3)};
  EXPECT_NE(WhyNot(push_), "");
  Message pull;
  pull.type = MessageType::kPull;
  pull.body = wire::Pull{};
  pull.clock = 0;
  pull.payload = {Buffer::CopyOf(keys.data(), 16)};
  EXPECT_EQ(WhyNot(pull), "");
  pull.payload = {Buffer::CopyOf(keys.data(), 12)};
  EXPECT_NE(WhyNot(pull), "");
}

}  // namespace
}  // namespace soapstone::server
