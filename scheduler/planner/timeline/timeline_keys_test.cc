#include "scheduler/planner/timeline/timeline_keys.h"

#include <tuple>

#include "gtest/gtest.h"
#include "scheduler/planner/search/random_source.h"

namespace soapstone::planner {
namespace {

TEST(TimelineKeysTest, GiveBackWhatTheyAreOfAndOrderByIt) {
  for (const size_t slots : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
    for (const uint32_t iterations : {0u, 1u, 42u}) {
      const TimelineKeys keys(slots, iterations);
      RandomSource random(slots, iterations);
      using Parts = std::tuple<Nanos, uint32_t, uint32_t>;
      const auto key_of = [&](const Parts& parts) {
        const auto [at, iteration, slot] = parts;
        return keys.Of(at, keys.IterationPart(iteration), slot);
      };
      Parts last = {keys.last_time(), iterations, static_cast<uint32_t>(slots) - 1};
      EXPECT_EQ(key_of(last) >> 63, 0u);
      for (int i = 0; i < 1000; ++i) {
        // Often of one time or iteration with the one before.
        Parts parts = {random.Below(3) == 0 ? std::get<0>(last) : random.Below(1000),
                       random.Below(iterations + 1), random.Below(static_cast<uint32_t>(slots))};
        const uint64_t key = key_of(parts);
        ASSERT_EQ(parts, Parts(keys.ReadyOf(key), keys.IterationOf(key), keys.SlotOf(key)));
        ASSERT_EQ(parts < last, key < key_of(last));
        last = parts;
      }
    }
  }
}

TEST(TimelineKeysTest, TheLatestTimeFits) {
  const TimelineKeys keys(1000, 5);
  EXPECT_TRUE(keys.Fits(keys.last_time()));
  EXPECT_FALSE(keys.Fits(keys.last_time() + 1));
}

}  // namespace
}  // namespace soapstone::planner
