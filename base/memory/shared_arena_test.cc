#include "base/memory/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>

#include "base/memory/buffer.h"
#include "gtest/gtest.h"

namespace soapstone {
namespace {

constexpr size_t kMb = size_t{1} << 20;

TEST(SharedArena, BlocksDoNotOverlapAndAreFound) {
  SharedArena arena;
  std::set<void*> blocks;
  for (int i = 0; i < 40; ++i) {
    void* block = arena.Allocate(4 * kMb);
    ASSERT_NE(block, nullptr);
    ASSERT_TRUE(blocks.insert(block).second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 4096, 0u);
    std::memset(block, i, 4 * kMb);
    const auto place = arena.Find(static_cast<char*>(block) + 100, 4 * kMb - 100);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->segment->data + place->offset, static_cast<std::byte*>(block) + 100);
  }
  int i = 0;
  for (void* block : blocks) {
    EXPECT_EQ(static_cast<char*>(block)[0], static_cast<char*>(block)[4 * kMb - 1]) << i++;
    arena.Free(block, 4 * kMb);
  }
  EXPECT_TRUE(blocks.contains(arena.Allocate(4 * kMb)));  // used again
}

TEST(SharedArena, WhatLiesElsewhereIsNotFound) {
  SharedArena arena;
  auto* block = static_cast<char*>(arena.Allocate(64 * kMb));  // a segment of its own
  ASSERT_NE(block, nullptr);
  int outside = 0;
  EXPECT_FALSE(arena.Find(&outside, sizeof(outside)).has_value());
  EXPECT_FALSE(arena.Find(block + 1, 64 * kMb).has_value());
  EXPECT_TRUE(arena.Find(block, 64 * kMb).has_value());
}

// Another process sees what is written, through the segment's descriptor, and cannot be cut off.
TEST(SharedArena, ASegmentIsTheSameMemoryElsewhereAndKeepsItsSize) {
  SharedArena arena;
  auto* block = static_cast<char*>(arena.Allocate(4096));
  ASSERT_NE(block, nullptr);
  const auto place = arena.Find(block, 4096);
  ASSERT_TRUE(place.has_value());
  EXPECT_TRUE(SharedArena::IsSealed(place->segment->fd, place->segment->size));
  EXPECT_FALSE(SharedArena::IsSealed(place->segment->fd, place->segment->size + 1));
  EXPECT_NE(ftruncate(place->segment->fd, 0), 0);
  void* seen = mmap(nullptr, place->segment->size, PROT_READ, MAP_SHARED, place->segment->fd, 0);
  ASSERT_NE(seen, MAP_FAILED);
  std::strcpy(block, "here");
  EXPECT_STREQ(static_cast<char*>(seen) + place->offset, "here");
  munmap(seen, place->segment->size);
}

// What a process that borrows a segment tries with its descriptor, for blocks of either kind.
class BorrowerTest : public testing::TestWithParam<size_t> {
 protected:
  BorrowerTest()
      : block_(static_cast<char*>(arena_.Allocate(GetParam()))),
        segment_(*arena_.Find(block_, GetParam())->segment) {}

  void* Map(int protection) const {
    return mmap(nullptr, segment_.size, protection, MAP_SHARED, segment_.fd, 0);
  }

  SharedArena arena_;
  char* const block_;
  const SharedArena::Segment& segment_;
};

TEST_P(BorrowerTest, ReadsWhatTheOwnerWritesLaterAndCannotWrite) {
  EXPECT_EQ(Map(PROT_READ | PROT_WRITE), MAP_FAILED);
  void* seen = Map(PROT_READ);
  ASSERT_NE(seen, MAP_FAILED);
  EXPECT_NE(mprotect(seen, segment_.size, PROT_READ | PROT_WRITE), 0);
  EXPECT_LT(pwrite(segment_.fd, "x", 1, 0), 0);
  EXPECT_NE(fallocate(segment_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  std::strcpy(block_, "written later");
  const auto offset = static_cast<size_t>(reinterpret_cast<std::byte*>(block_) - segment_.data);
  EXPECT_STREQ(static_cast<char*>(seen) + offset, "written later");
  munmap(seen, segment_.size);
}

INSTANTIATE_TEST_SUITE_P(Blocks, BorrowerTest, testing::Values(4096, 4 * kMb));

// A process of the same user may open the memory anew, whatever descriptor it was handed.
TEST(SharedArena, SmallBlocksCannotBeWrittenByADescriptorOpenedAnewEither) {
  SharedArena arena;
  const auto place = arena.Find(arena.Allocate(4096), 4096);
  const int fd = open(("/proc/self/fd/" + std::to_string(place->segment->fd)).c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(mmap(nullptr, place->segment->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
            MAP_FAILED);
  EXPECT_LT(pwrite(fd, "x", 1, 0), 0);
  close(fd);
}

TEST(SharedArena, LargeBlocksGiveTheirMemoryBack) {
  SharedArena arena;
  void* block = arena.Allocate(4 * kMb);
  const auto place = arena.Find(block, 4 * kMb);
  const auto held = [&] {
    struct stat facts = {};
    EXPECT_EQ(fstat(place->segment->fd, &facts), 0);
    return static_cast<size_t>(facts.st_blocks) * 512;
  };
  std::memset(block, 1, 4 * kMb);
  EXPECT_GE(held(), 4 * kMb);
  arena.Free(block, 4 * kMb);
  EXPECT_LT(held(), 4 * kMb);
}

TEST(SharedArena, PlainMemoryIsNotSealed) {
  const int fd = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 4096), 0);
  EXPECT_FALSE(SharedArena::IsSealed(fd, 4096));
  close(fd);
}

// Last: it stays on for the rest of this program.
TEST(SharedArenaEnabled, PoolsTakeTheirBlocksFromIt) {
  ASSERT_TRUE(SharedArena::Enable());
  ASSERT_TRUE(SharedArena::Enable());
  BufferPool pool;
  const BufferPool::Block large = pool.Take(100'000);
  const BufferPool::Block small = pool.Take(100);
  EXPECT_TRUE(SharedArena::Get()->Find(large.data, large.size).has_value());
  EXPECT_FALSE(SharedArena::Get()->Find(small.data, small.size).has_value());
}

}  // namespace
}  // namespace soapstone
