#include "server/store/count_store.h"

#include "gtest/gtest.h"

namespace soapstone::server {
namespace {

TEST(CountStoreTest, CountsContributionsAndSumsTheirIntegers) {
  CountStore store(2);
  const int64_t delta = 41;
  const Contribution part = {.payload = {Buffer::CopyOf(&delta, sizeof(delta))}};
  store.Apply(BucketId{1}, {part, part});
  EXPECT_EQ(store.buckets()[1].applied, 2u);
  EXPECT_EQ(store.buckets()[1].sum, 82);
  EXPECT_EQ(store.buckets()[0].applied, 0u);
}

}  // namespace
}  // namespace soapstone::server
