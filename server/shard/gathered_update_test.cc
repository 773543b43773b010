#include "server/shard/gathered_update.h"

#include <gtest/gtest.h>

#include <cmath>

namespace soapstone::server {
namespace {

wire::Message ValuesOf(uint32_t worker, Clock clock, const std::vector<float>& values) {
  wire::Message push;
  push.worker = WorkerId{worker};
  push.clock = clock;
  push.body = wire::Push{.bucket = BucketId{3},
                         .micro_batches = {worker, worker + 1},
                         .micro_batch_count = 4,
                         .samples = 10 + worker,
                         .batch_samples = 40};
  push.payload.push_back(Buffer::CopyOf<float>(values));
  return push;
}

TEST(GatheredUpdateTest, PartsAreThoseAddedInThatOrder) {
  GatheredUpdate update;
  EXPECT_TRUE(update.empty());
  update.Add(ValuesOf(2, 6, {1}), 0.5f);
  update.Add(ValuesOf(0, 5, {2}), 1);
  ASSERT_EQ(update.parts().size(), 2u);
  const Contribution& first = update.parts()[0];
  EXPECT_EQ(first.worker, WorkerId{2});
  EXPECT_EQ(first.micro_batches, (MicroBatchRange{2, 3}));
  EXPECT_EQ(first.samples, 12u);
  EXPECT_EQ(first.batch_samples, 40u);
  EXPECT_EQ(first.weight, 0.5f);
  EXPECT_EQ(first.payload.at(0).floats()[0], 1);
  EXPECT_EQ(update.parts()[1].worker, WorkerId{0});
}

TEST(GatheredUpdateTest, ItIsOfTheClockOfItsLastPart) {
  GatheredUpdate update;
  update.Add(ValuesOf(2, 6, {1}), 1);
  EXPECT_EQ(update.clock(), 6);
  update.Add(ValuesOf(0, 5, {2}), 1);
  EXPECT_EQ(update.clock(), 5);
  EXPECT_EQ(update.bucket(), BucketId{3});
  EXPECT_EQ(update.micro_batch_count(), 4u);
}

TEST(GatheredUpdateTest, AClearedOneHasNoParts) {
  GatheredUpdate update;
  update.Add(ValuesOf(2, 6, {1}), 1);
  update.Clear();
  EXPECT_TRUE(update.empty());
  update.Add(ValuesOf(0, 7, {1}), 1);
  ASSERT_EQ(update.parts().size(), 1u);
  EXPECT_EQ(update.parts()[0].worker, WorkerId{0});
}

TEST(GatheredUpdateTest, TheGreatestIsWhoseNumberIsTheLargestOfAnySign) {
  GatheredUpdate update;
  update.Add(ValuesOf(0, 0, {1, 2}), 1);
  update.Add(ValuesOf(1, 0, {-3, 0}), 1);
  update.Add(ValuesOf(2, 0, {3, 0}), 1);
  EXPECT_EQ(update.Greatest(/*of_table=*/false), WorkerId{1});
  update.Add(ValuesOf(3, 0, {0, NAN}), 1);
  EXPECT_EQ(update.Greatest(/*of_table=*/false), WorkerId{3});
}

}  // namespace
}  // namespace soapstone::server
