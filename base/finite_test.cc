#include "base/finite.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kOdd[] = {std::nanf(""), -std::nanf(""), std::numeric_limits<float>::signaling_NaN(),
                      kInf, -kInf};

TEST(FiniteTest, OneOddValueAnywhereIsFound) {
  for (const size_t n : {1u, 3u, 16u, 1000u, 40'000u}) {
    std::vector<float> values(n, 1.5f);
    EXPECT_TRUE(AllFinite(values));
    for (const size_t at : {size_t{0}, n / 2, n - 1}) {
      for (const float odd : kOdd) {
        values[at] = odd;
        EXPECT_FALSE(AllFinite(values)) << n << " " << at << " " << odd;
        EXPECT_EQ(GreatestMagnitude(values), kInf);
      }
      values[at] = 1.5f;
    }
  }
}

TEST(FiniteTest, ExtremesAreFinite) {
  const float max = std::numeric_limits<float>::max();
  const std::vector<float> values = {max,
                                     -max,
                                     0,
                                     -0.0f,
                                     std::numeric_limits<float>::min(),
                                     std::numeric_limits<float>::denorm_min()};
  EXPECT_TRUE(AllFinite(values));
  EXPECT_EQ(GreatestMagnitude(values), max);
  EXPECT_TRUE(AllFinite({}));
  EXPECT_EQ(GreatestMagnitude({}), 0);
}

TEST(FiniteTest, TheGreatestMagnitudeHasNoSign) {
  EXPECT_EQ(GreatestMagnitude(std::vector<float>{1, -3, 2}), 3);
}

}  // namespace
}  // namespace soapstone
