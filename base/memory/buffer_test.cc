#include "base/memory/buffer.h"

#include <new>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone {
namespace {

TEST(Buffer, CopyHoldsTheBytes) {
  std::vector<float> values = {1, 2, 3};
  const Buffer buffer = Buffer::CopyOf(absl::Span<const float>(values));
  values.assign(3, 0);
  EXPECT_EQ(buffer.size(), 12u);
  EXPECT_EQ(buffer.floats()[2], 3.0f);
}

TEST(Buffer, SliceKeepsTheOwnerAlive) {
  std::weak_ptr<int> watch;
  Buffer slice;
  {
    auto owner = std::make_shared<int>(42);
    watch = owner;
    const Buffer whole(owner, owner.get(), sizeof(int));
    slice = whole.Slice(1, 2);
  }
  EXPECT_FALSE(watch.expired());
  slice = Buffer();
  EXPECT_TRUE(watch.expired());
}

TEST(Buffer, EqualityIsOfBytes) {
  EXPECT_EQ(Buffer::CopyOf("abc"), Buffer::CopyOf("abc"));
  EXPECT_FALSE(Buffer::CopyOf("abc") == Buffer::CopyOf("abd"));
  EXPECT_FALSE(Buffer::CopyOf("abc") == Buffer::CopyOf("ab"));
  EXPECT_EQ(Buffer(), Buffer::CopyOf(""));
}

TEST(Buffer, OddOffsetIsNotFloatAligned) {
  const Buffer buffer = Buffer::CopyOf("12345678");
  EXPECT_TRUE(buffer.Slice(4, 4).IsFloatAligned());
  EXPECT_FALSE(buffer.Slice(1, 4).IsFloatAligned());
  EXPECT_FALSE(buffer.Slice(0, 3).IsFloatAligned());
}

TEST(BufferDeathTest, SliceOutsideTheViewDies) {
  const Buffer buffer = Buffer::CopyOf("1234");
  EXPECT_DEATH(buffer.Slice(3, 2), "size");
}

TEST(BufferPool, BlocksAreAligned) {
  BufferPool pool;
  for (size_t size : {1u, 100u, 5000u}) {
    const auto block = pool.Take(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % 64, 0u);
    EXPECT_EQ(block.size, size);
  }
}

TEST(BufferPool, BlockReturnsWhenItsLastViewDies) {
  BufferPool pool;
  auto block = pool.Take(1000);
  const std::byte* memory = block.data;
  Buffer view = block.View(10, 20);
  block = {};
  EXPECT_EQ(pool.idle_bytes(), 0u);
  view = Buffer();
  EXPECT_EQ(pool.idle_bytes(), 1024u);
  EXPECT_EQ(pool.Take(600).data, memory);
}

TEST(BufferPool, KeepsNoMoreThanItsMaximum) {
  BufferPool pool(1024);
  auto a = pool.Take(1024);
  auto b = pool.Take(1024);
  a = {};
  b = {};
  EXPECT_EQ(pool.idle_bytes(), 1024u);
}

TEST(BufferPool, BlocksOfASourceAreKeptAndUsedAgain) {
  int taken = 0;
  const auto count = std::make_shared<int>(0);
  Buffer view;
  {
    BufferPool pool(2048, [&](size_t bytes) -> std::shared_ptr<void> {
      ++taken;
      if (bytes > 1024) return nullptr;  // it has no more: the heap's then
      return std::shared_ptr<void>(::operator new(bytes, std::align_val_t(64)), [count](void* p) {
        ::operator delete(p, std::align_val_t(64));
        ++*count;
      });
    });
    view = pool.Take(1000).View();
    const std::byte* memory = view.data();
    view = Buffer();
    auto block = pool.Take(1000);
    EXPECT_EQ(block.data, memory);
    EXPECT_EQ(taken, 1);
    EXPECT_NE(pool.Take(2000).data, nullptr);
    view = block.View();
  }
  EXPECT_EQ(*count, 0);
  view = Buffer();
  EXPECT_EQ(*count, 1);
}

TEST(BufferPool, BlockOutlivesThePool) {
  Buffer view;
  {
    BufferPool pool;
    auto block = pool.Take(8);
    block.floats()[1] = 4.0f;
    view = block.View();
  }
  EXPECT_EQ(view.floats()[1], 4.0f);
}

}  // namespace
}  // namespace soapstone
