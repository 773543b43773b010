#include "base/memory/page_block.h"

#include <cstdint>
#include <utility>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(PageBlock, IsZerosAndWritableToItsEnd) {
  for (const bool huge : {false, true}) {
    const PageBlock block = PageBlock::Map(3'000'001, huge);
    ASSERT_FALSE(block.empty());
    ASSERT_GE(block.size(), 3'000'001u);
    EXPECT_EQ(block.data()[0], std::byte{0});
    EXPECT_EQ(block.data()[block.size() - 1], std::byte{0});
    block.data()[block.size() - 1] = std::byte{1};
    if (huge) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data()) % PageBlock::kHugePage, 0u);
    }
  }
}

TEST(PageBlock, MovesWithItsMemory) {
  PageBlock from = PageBlock::Map(4096, false);
  from.data()[7] = std::byte{9};
  const PageBlock to = std::move(from);
  EXPECT_EQ(to.data()[7], std::byte{9});
  EXPECT_EQ(to.size(), 4096u);
}

TEST(PageBlock, IsEmptyWithoutMemory) {
  EXPECT_TRUE(PageBlock::Map(size_t{1} << 60, true).empty());
  EXPECT_TRUE(PageBlock().empty());
}

}  // namespace
}  // namespace soapstone
