#include "apps/predict/graph_predictor.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

TEST(SoftmaxTest, SumsToOneWhateverTheSize) {
  std::vector<float> logits = {1000, 1000 + std::log(3.0f), -1000};
  Softmax(absl::MakeSpan(logits));
  EXPECT_NEAR(logits[0], 0.25, 1e-4);
  EXPECT_NEAR(logits[1], 0.75, 1e-4);
  EXPECT_EQ(logits[2], 0);
}

TEST(LargestTest, OfEqualOnesTheFirstComeFirst) {
  EXPECT_THAT(Largest({1, 3, 2, 3}, 3), testing::ElementsAre(1, 3, 2));
  EXPECT_THAT(Largest({1, 3}, 9), testing::ElementsAre(1, 0));
}

TEST(EvenBatchesTest, EachSampleIsThereOnceAndThenTheLastAgain) {
  for (const uint64_t n : {0, 1, 5, 255, 256, 257, 512, 513, 1797}) {
    const auto batches = EvenBatches(n, 256);
    std::vector<uint64_t> all;
    for (const auto& batch : batches) {
      EXPECT_LE(batch.size(), 256u);
      EXPECT_EQ(batch.size(), batches[0].size());
      all.insert(all.end(), batch.begin(), batch.end());
    }
    ASSERT_GE(all.size(), n);
    EXPECT_LE(all.size() - n, batches.size());
    for (uint64_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], std::min(i, n - 1)) << n;
  }
}

}  // namespace
}  // namespace soapstone::apps
