#include "server/peer/final_read.h"

#include <gtest/gtest.h>

#include <cstring>

namespace soapstone::server {
namespace {

constexpr uint32_t kServers = 3;
constexpr uint64_t kModelElements = 5000;

class FinalReadTest : public ::testing::Test {
 protected:
  FinalReadTest()
      : layout_(std::make_shared<const wire::Layout>(
            *wire::Layout::Build({{.name = "a", .shape = {3000}}, {.name = "b", .shape = {2000}}},
                                 {.shard_count = kServers}))),
        offsets_(ParamOffsets(layout_->params())),
        vectors_(MakeDoubleVectors(std::vector<double>(kModelElements), {})),
        read_(layout_) {}

  // Each element is its own place in the flat vector.
  Buffers AnswerOf(uint32_t shard) const {
    Buffers answer;
    for (const wire::Slice& slice : layout_->slices(ShardId{shard})) {
      std::vector<double> values(slice.elements());
      for (size_t e = 0; e < values.size(); ++e) {
        values[e] = static_cast<double>(offsets_[Index(slice.param)] + slice.begin + e);
      }
      answer.push_back(Buffer::CopyOf(values.data(), values.size() * sizeof(double)));
    }
    return answer;
  }

  std::shared_ptr<const wire::Layout> layout_;
  std::vector<uint64_t> offsets_;
  std::unique_ptr<PeerVectors> vectors_;
  FinalRead read_;
};

TEST_F(FinalReadTest, ItWaitsOnceForEachShardFromTheQuestionOn) {
  EXPECT_FALSE(read_.WaitsFor(ShardId{0}));
  read_.Ask(10);
  for (uint32_t k = 0; k < kServers; ++k) EXPECT_TRUE(read_.WaitsFor(ShardId{k}));
  EXPECT_FALSE(read_.WaitsFor(ShardId{kServers}));
  for (const uint32_t k : {1u, 0u, 2u}) {
    EXPECT_FALSE(read_.complete());
    read_.Take(ShardId{k}, AnswerOf(k));
    EXPECT_FALSE(read_.WaitsFor(ShardId{k}));
  }
  EXPECT_TRUE(read_.complete());
  EXPECT_EQ(read_.Finish(), 10);
}

TEST_F(FinalReadTest, AskedAgainForTheSameClockWhatHasComeStays) {
  read_.Ask(10);
  read_.Take(ShardId{1}, AnswerOf(1));
  read_.Ask(10);
  EXPECT_FALSE(read_.WaitsFor(ShardId{1}));
  EXPECT_TRUE(read_.WaitsFor(ShardId{0}));
  read_.Ask(11);
  EXPECT_TRUE(read_.WaitsFor(ShardId{1}));
}

TEST_F(FinalReadTest, AfterTheAnswerItBeginsAnew) {
  read_.Ask(10);
  for (uint32_t k = 0; k < kServers; ++k) read_.Take(ShardId{k}, AnswerOf(k));
  read_.Finish();
  EXPECT_FALSE(read_.WaitsFor(ShardId{0}));
  read_.Ask(10);
  for (uint32_t k = 0; k < kServers; ++k) EXPECT_TRUE(read_.WaitsFor(ShardId{k}));
}

TEST_F(FinalReadTest, TheFlatVectorHasEachElementInItsPlace) {
  read_.Ask(10);
  for (uint32_t k = 0; k < kServers; ++k) read_.Take(ShardId{k}, AnswerOf(k));
  const Buffer flat = read_.Flat(offsets_, *vectors_);
  ASSERT_EQ(flat.size(), kModelElements * sizeof(double));
  for (uint64_t e = 0; e < kModelElements; ++e) {
    double value = 0;
    std::memcpy(&value, flat.data() + e * sizeof(double), sizeof(double));
    ASSERT_EQ(value, static_cast<double>(e));
  }
}

TEST_F(FinalReadTest, AnAnswerFitsItsShardsSlices) {
  Buffers answer = AnswerOf(0);
  EXPECT_TRUE(read_.Fits(ShardId{0}, answer, *vectors_));
  answer.back() = answer.back().Slice(0, answer.back().size() - sizeof(double));
  EXPECT_FALSE(read_.Fits(ShardId{0}, answer, *vectors_));
  answer.pop_back();
  EXPECT_FALSE(read_.Fits(ShardId{0}, answer, *vectors_));
}

}  // namespace
}  // namespace soapstone::server
