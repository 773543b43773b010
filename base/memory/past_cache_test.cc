#include "base/memory/past_cache.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(PastCacheTest, CopiesWhereverBothBeginAndNothingElse) {
  constexpr size_t kSize = 70;
  std::vector<float> from(kSize + 20);
  std::iota(from.begin(), from.end(), 1.0f);
  for (size_t n = 0; n <= kSize; ++n) {
    for (size_t begin = 0; begin < 17; ++begin) {
      for (const size_t whole : {n * sizeof(float), kPastCacheMin}) {
        std::vector<float> to(kSize + 20, 0.0f), expected = to;
        std::copy_n(from.begin() + 3, n, expected.begin() + static_cast<ptrdiff_t>(begin));
        CopyPart(to.data() + begin, from.data() + 3, n, whole);
        ASSERT_EQ(to, expected) << n << " to " << begin;
      }
    }
  }
}

}  // namespace
}  // namespace soapstone
