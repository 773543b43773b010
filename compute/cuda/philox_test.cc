#include "compute/cuda/philox.h"

#include "base/random.h"
#include "compute/dropout_mask.h"
#include "gtest/gtest.h"

namespace soapstone::compute {
namespace {

TEST(PhiloxTest, TheDevicesWordsAreTheHosts) {
  int compared = 0;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{0x123456789abcdef0}}) {
    for (uint64_t step : {uint64_t{0}, uint64_t{5}, uint64_t{1} << 40}) {
      for (uint32_t op : {0u, 3u, 65535u}) {
        const CounterRandom host = DropoutStream(seed, step, op);
        const uint64_t top =
            PhiloxTop(static_cast<uint32_t>(RandomUse::kDropout), (step << 16) ^ op);
        for (uint64_t index : {uint64_t{0}, uint64_t{77}, uint64_t{0xfffffffff}}) {
          const auto expected = host.Block(index);
          const PhiloxWords words = PhiloxBlock(seed, top, index);
          for (size_t w = 0; w < 4; ++w, ++compared) EXPECT_EQ(words.word[w], expected[w]);
        }
      }
    }
  }
  EXPECT_EQ(compared, 3 * 3 * 3 * 3 * 4);
}

}  // namespace
}  // namespace soapstone::compute
