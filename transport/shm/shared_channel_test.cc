#include "transport/shm/shared_channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

// Both ends in one process; segments are handed over by a call instead of a socket.
class SharedChannelTest : public ::testing::Test {
 protected:
  SharedChannelTest() {
    EXPECT_TRUE(SharedArena::Enable());
    const int fd = SharedChannel::MakeMemory();
    ours_ = *SharedChannel::Map(fd, true, [this](const SharedArena::Segment& segment) {
      ++shown_;
      return !withhold_ && theirs_->AddSegment(segment.id, segment.size, segment.fd);
    });
    theirs_ = *SharedChannel::Map(fd, false, [this](const SharedArena::Segment& segment) {
      return ours_->AddSegment(segment.id, segment.size, segment.fd);
    });
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, SharedChannel::MemoryBytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
  }
  ~SharedChannelTest() override { munmap(memory_, SharedChannel::MemoryBytes()); }

  absl::Status Send(const std::string& header, const Buffers& payload) {
    bool ring = false;
    return ours_->Send(header, payload, &ring);
  }
  Buffer Pooled(size_t bytes, char fill) {
    const BufferPool::Block block = pool_.Take(bytes);
    std::memset(block.data, fill, bytes);
    return block.View(0, bytes);
  }

  BufferPool pool_;
  std::unique_ptr<SharedChannel> ours_, theirs_;
  std::byte* memory_ = nullptr;
  int shown_ = 0;
  bool withhold_ = false;
  bool ring_ = false;
  Buffers frames_;
};

TEST_F(SharedChannelTest, WhatIsInTheArenaIsReadWhereItLies) {
  const Buffer large = Pooled(1 << 20, 'x');
  ASSERT_TRUE(Send("header", {large, Buffer(), Buffer::CopyOf("small")}).ok());
  ASSERT_TRUE(theirs_->Receive(&frames_));
  ASSERT_EQ(frames_.size(), 4u);
  EXPECT_EQ(frames_[0], Buffer::CopyOf("header"));
  EXPECT_EQ(frames_[1], large);
  EXPECT_EQ(frames_[2].size(), 0u);
  EXPECT_EQ(frames_[3], Buffer::CopyOf("small"));
  // The same memory, seen twice: what is written by the one is read by the other.
  const_cast<std::byte*>(large.data())[77] = std::byte{'y'};
  EXPECT_EQ(frames_[1].data()[77], std::byte{'y'});
  EXPECT_NE(frames_[1].data(), large.data());
  EXPECT_FALSE(theirs_->Receive(&frames_));
  EXPECT_FALSE(theirs_->broken());
}

TEST_F(SharedChannelTest, ABlockIsLentUntilTheLastViewHasDied) {
  std::weak_ptr<int> watch;
  {
    const BufferPool::Block block = pool_.Take(1 << 16);
    auto owner = std::shared_ptr<int>(new int(1), [block](const int* p) { delete p; });
    watch = owner;
    ASSERT_TRUE(Send("h", {Buffer(owner, block.data, 1 << 16)}).ok());
  }
  ASSERT_TRUE(theirs_->Receive(&frames_));
  Buffer view = frames_[1].Slice(100, 200);
  frames_.clear();
  Buffers nothing;
  EXPECT_FALSE(ours_->Receive(&nothing));
  EXPECT_FALSE(watch.expired());
  view = Buffer();
  EXPECT_FALSE(ours_->Receive(&nothing));  // hears of the lease
  EXPECT_TRUE(watch.expired());
}

TEST_F(SharedChannelTest, WhatLiesElsewhereIsCopied) {
  const Buffer heap = Buffer::CopyOf(std::string(100'000, 'h'));
  ASSERT_TRUE(Send("h", {heap}).ok());
  ASSERT_TRUE(theirs_->Receive(&frames_));
  EXPECT_EQ(frames_[1], heap);
}

TEST_F(SharedChannelTest, ASegmentIsShownOnce) {
  const Buffer a = Pooled(1 << 16, 'a');
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(Send("h", {a}).ok());
    ASSERT_TRUE(theirs_->Receive(&frames_));
  }
  EXPECT_EQ(shown_, 1);
}

// A header, and so many frames, that no record has room for them.
TEST_F(SharedChannelTest, HugeHeadersAndManyFramesTravelInABlock) {
  const std::string header(5 << 20, 'H');
  Buffers payload;
  payload.reserve(20'001);
  for (int i = 0; i < 20'000; ++i) payload.push_back(Buffer::CopyOf(std::string(1 + i % 3, 'f')));
  payload.push_back(Pooled(1 << 18, 'L'));
  ASSERT_TRUE(Send(header, payload).ok());
  ASSERT_TRUE(theirs_->Receive(&frames_));
  ASSERT_EQ(frames_.size(), payload.size() + 1);
  EXPECT_EQ(frames_[0], Buffer::CopyOf(header));
  for (size_t i = 0; i < payload.size(); ++i) ASSERT_EQ(frames_[i + 1], payload[i]) << i;
}

TEST_F(SharedChannelTest, NoMoreIsLentThanTheBounds) {
  const Buffer block = Pooled(1 << 16, 'b');
  size_t sent = 0;
  std::vector<Buffers> held;
  for (;; ++sent) {
    const absl::Status status = Send("h", {block});
    if (!status.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
      break;
    }
  }
  EXPECT_EQ(sent, SharedChannel::kLeasesMax);
  while (theirs_->Receive(&frames_)) held.push_back(frames_);
  EXPECT_EQ(held.size(), sent);
  held.clear();
  frames_.clear();
  EXPECT_TRUE(Send("h", {block}).ok());  // all came back
}

// Does something at the moment when this process next looks at the first ring of a link: its page
// can be neither read nor written until then.
class AtNextLook {
 public:
  explicit AtNextLook(std::function<void()> what) {
    what_ = std::move(what);
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      void* begin = nullptr;
      if (line.find("soapstone-link") == std::string::npos) continue;
      EXPECT_EQ(std::sscanf(line.c_str(), "%p-", &begin), 1);
      pages_.push_back(begin);
    }
    struct sigaction action = {};
    action.sa_handler = [](int) { OnLook(); };
    sigaction(SIGSEGV, &action, &before_);
    Protect(PROT_NONE);
  }
  ~AtNextLook() {
    Protect(PROT_READ | PROT_WRITE);
    sigaction(SIGSEGV, &before_, nullptr);
    pages_.clear();
  }
  AtNextLook(const AtNextLook&) = delete;
  AtNextLook& operator=(const AtNextLook&) = delete;

 private:
  static void Protect(int how) {
    for (void* page : pages_) mprotect(page, 4096, how);
  }
  static void OnLook() {
    Protect(PROT_READ | PROT_WRITE);
    what_();
  }
  static inline std::vector<void*> pages_;
  static inline std::function<void()> what_;
  struct sigaction before_ = {};
};

// A worker that hears of new values takes a block for the next gradient at once. Where that of the
// last was still lent, though its server had let go of it, the job held a model more.
TEST_F(SharedChannelTest, WhatWasGivenBackBeforeAMessageIsFreeWhenItIsReceived) {
  Buffers gradient;
  bool looked = false;
  bool ring = false;
  ASSERT_TRUE(theirs_->Send("gradient", {Pooled(1 << 16, 'g')}, &ring).ok());
  ASSERT_TRUE(ours_->Receive(&gradient));
  EXPECT_EQ(pool_.idle_bytes(), 0u);
  {
    const AtNextLook both([&] {
      looked = true;
      gradient.clear();
      EXPECT_TRUE(Send("values", {}).ok());
    });
    ASSERT_TRUE(theirs_->Receive(&frames_));
  }
  EXPECT_TRUE(looked);
  EXPECT_EQ(frames_[0], Buffer::CopyOf("values"));
  EXPECT_EQ(pool_.idle_bytes(), size_t{1} << 16);
}

// Every block comes back, however many are given back while their owner computes. Once some were
// lost, each a gradient's block for good, where a look had found the ring of leases empty before.
TEST_F(SharedChannelTest, EveryLeaseComesBackThoughNobodyLooksForIt) {
  const BufferPool::Block block = pool_.Take(1 << 16);
  const auto owner = std::make_shared<int>(0);
  for (const size_t count : {size_t{600}, SharedChannel::kHeldMax, SharedChannel::kLeasesMax}) {
    std::vector<Buffers> kept;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(Send("h", {Buffer(owner, block.data, block.size)}).ok()) << i;
      ASSERT_TRUE(theirs_->Receive(&frames_));
      kept.push_back(frames_);
    }
    frames_.clear();
    kept.clear();
    Buffers nothing;
    EXPECT_FALSE(ours_->Receive(&nothing));  // hears of the leases
    EXPECT_EQ(owner.use_count(), 1) << count;
  }
}

// As a shard does under bsp, which lets go of the first push when the last is here.
TEST_F(SharedChannelTest, WhoKeepsAllThatComesDoesNotHoldUpTheSender) {
  std::vector<Buffers> kept;
  for (size_t i = 0; i < 2 * SharedChannel::kLeasesMax; ++i) {
    ASSERT_TRUE(Send("h", {Pooled(SharedChannel::kInlineMax + 1, static_cast<char>(i))}).ok()) << i;
    ASSERT_TRUE(theirs_->Receive(&frames_));
    kept.push_back(frames_);
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    ASSERT_EQ(kept[i][1].data()[0], static_cast<std::byte>(i)) << i;
    ASSERT_EQ(kept[i][1].data()[SharedChannel::kInlineMax], static_cast<std::byte>(i)) << i;
  }
}

// The bound is five messages here.
class SmallSharedChannelTest : public SharedChannelTest {
 protected:
  static constexpr size_t kSize = 1 << 20;
  SmallSharedChannelTest() {
    const int fd = SharedChannel::MakeMemory();
    from_ = *SharedChannel::Map(
        fd, true,
        [this](const SharedArena::Segment& segment) {
          return to_->AddSegment(segment.id, segment.size, segment.fd);
        },
        5 * kSize);
    to_ = *SharedChannel::Map(fd, false, [](const SharedArena::Segment&) { return false; });
    close(fd);
  }
  absl::Status Lend(const Buffer& payload) {
    bool ring = false;
    return from_->Send("h", {payload}, &ring);
  }
  std::unique_ptr<SharedChannel> from_, to_;
};

// What is read and kept is not in the way of what comes next, nor copied.
TEST_F(SmallSharedChannelTest, NorDoesWhoKeepsLargeMessages) {
  std::vector<Buffers> kept;
  for (int i = 0; i < 20; ++i) {
    const Buffer large = Pooled(kSize, static_cast<char>('a' + i));
    ASSERT_TRUE(Lend(large).ok()) << i;
    ASSERT_TRUE(to_->Receive(&frames_));
    kept.push_back(frames_);
    const_cast<std::byte*>(large.data())[0] = std::byte{'!'};  // seen by whom it is lent to
    EXPECT_EQ(kept[i][1].data()[0], std::byte{'!'}) << i;
    EXPECT_EQ(kept[i][1].data()[kSize - 1], static_cast<std::byte>('a' + i));
  }
}

TEST_F(SmallSharedChannelTest, OfWhatIsNotReadNoMoreIsLentThanTheBound) {
  const Buffer block = Pooled(kSize, 'b');
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(Lend(block).ok()) << i;
  EXPECT_TRUE(absl::IsResourceExhausted(Lend(block)));
  EXPECT_EQ(from_->unread_bytes(), 5 * kSize);
  ASSERT_TRUE(from_->Send("control", {}, &ring_).ok());  // what lends nothing passes
  std::vector<Buffers> kept;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(to_->Receive(&frames_));
    kept.push_back(frames_);
  }
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Lend(block).ok()) << i;
  EXPECT_TRUE(absl::IsResourceExhausted(Lend(block)));
}

// It must pass, and does when nothing else waits to be read.
TEST_F(SmallSharedChannelTest, AMessageAboveTheBoundPassesAlone) {
  const Buffer whole = Pooled(8 * kSize, 'w'), small = Pooled(kSize, 's');
  ASSERT_TRUE(Lend(small).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Lend(whole)));
  ASSERT_TRUE(to_->Receive(&frames_));
  ASSERT_TRUE(Lend(whole).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Lend(small)));
  Buffers kept;
  ASSERT_TRUE(to_->Receive(&kept));
  EXPECT_EQ(kept[1].size(), 8 * kSize);
  EXPECT_TRUE(Lend(whole).ok());  // though the first is kept
}

// A reader that says it has read what was never written is not believed.
TEST_F(SmallSharedChannelTest, AReaderAheadOfItsWriterHasBrokenTheLink) {
  const int fd = SharedChannel::MakeMemory();
  auto ours = *SharedChannel::Map(fd, true, [](const auto&) { return true; });
  PageBlock memory = PageBlock::MapShared(fd, SharedChannel::MemoryBytes(), true);
  close(fd);
  reinterpret_cast<SharedRing::Head*>(memory.data())->taken = 1 << 30;
  EXPECT_FALSE(ours->Send("h", {Pooled(kSize, 'x')}, &ring_).ok());
  EXPECT_TRUE(ours->broken());
}

TEST_F(SharedChannelTest, AFullRingIsAnErrorAndLendsNothing) {
  size_t sent = 0;
  while (Send(std::string(1000, 'h'), {}).ok()) ++sent;
  EXPECT_GT(sent, 900u);
  EXPECT_LT(sent, 1100u);
  size_t got = 0;
  while (theirs_->Receive(&frames_)) ++got;
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(Send("h", {}).ok());
}

TEST_F(SharedChannelTest, AMessageWaitsForItsSegment) {
  withhold_ = true;
  const Buffer block = Pooled(size_t{128} << 20, 'w');  // a segment that nobody has seen
  EXPECT_FALSE(Send("h", {block}).ok());
  withhold_ = false;
  ASSERT_TRUE(Send("h", {block}).ok());
  EXPECT_TRUE(theirs_->Receive(&frames_));
}

TEST_F(SharedChannelTest, WhatIsLentToOneWhoIsLeftStaysAsItIs) {
  ASSERT_TRUE(Send("h", {Pooled(size_t{1} << 20, 'k')}).ok());
  ASSERT_TRUE(theirs_->Receive(&frames_));
  ours_->Abandon();
  ours_.reset();
  pool_ = BufferPool(0);
  EXPECT_EQ(frames_[1].data()[12345], std::byte{'k'});
}

// The other process overwrites the memory of the link at random: refused or broken, never a crash.
TEST_F(SharedChannelTest, GarbageInTheLinkIsNeverFollowed) {
  const CounterRandom random(5, RandomUse::kTest);
  size_t broken = 0, received = 0;
  volatile std::byte last{};  // reads what was given out
  for (uint64_t round = 0; round < 300; ++round) {
    const int fd = SharedChannel::MakeMemory();
    auto theirs = *SharedChannel::Map(fd, false, [](const auto&) { return true; });
    auto ours = *SharedChannel::Map(fd, true, [&](const SharedArena::Segment& segment) {
      return theirs->AddSegment(segment.id, segment.size, segment.fd);
    });
    auto* bytes = static_cast<std::byte*>(
        mmap(nullptr, SharedChannel::MemoryBytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    close(fd);
    const Buffer block = Pooled(1 << 16, 'g');
    bool ring = false;
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(ours->Send("header", {block, Buffer::CopyOf("inline")}, &ring).ok());
    }
    for (uint64_t k = 0; k < 1 + round % 8; ++k) {
      const uint64_t draw = random.Bits(round * 100 + k);
      // Among the positions and the first records.
      bytes[draw % (sizeof(SharedRing::Head) + 20 * 96)] = static_cast<std::byte>(draw >> 32);
    }
    std::vector<Buffers> kept;
    while (theirs->Receive(&frames_)) {
      for (const Buffer& frame : frames_) {
        last = frame.size() > 0 ? frame.data()[frame.size() - 1] : last;
      }
      kept.push_back(std::exchange(frames_, {}));
      ++received;
    }
    broken += theirs->broken() ? 1 : 0;
    kept.clear();
    ours->Send("more", {}, &ring).IgnoreError();
    munmap(bytes, SharedChannel::MemoryBytes());
  }
  EXPECT_GT(broken, 50u);
  EXPECT_GT(received, 100u);
}

// What lies in a block is copied out before it is parsed, so it must not be of any size: a segment
// costs its owner nothing.
TEST_F(SharedChannelTest, ARecordInABlockIsOfBoundedSize) {
  constexpr uint64_t kLarge = uint64_t{64} << 20;
  const int fd = SharedChannel::MakeMemory();
  auto theirs = *SharedChannel::Map(fd, false, [](const auto&) { return true; });
  PageBlock memory = PageBlock::MapShared(fd, SharedChannel::MemoryBytes(), true);
  close(fd);
  const int segment = SharedArena::MakeSealed("segment", kLarge);
  ASSERT_TRUE(theirs->AddSegment(1, kLarge, segment));
  close(segment);
  SharedRing ring(memory.data(), SharedChannel::kRingBytes, SharedChannel::kRingBytes / 16);
  struct {
    uint32_t header_bytes = 8, frames = 0, lease = 1, indirect = 1;
    uint64_t segment = 1, offset = 0, size = 0;
  } record;
  for (const uint64_t size : {uint64_t{8}, kLarge}) {
    record.size = size;
    std::memcpy(ring.Reserve(sizeof(record)), &record, sizeof(record));
    ring.Publish();
    EXPECT_EQ(theirs->Receive(&frames_), size == 8);
  }
  EXPECT_TRUE(theirs->broken());
}

TEST_F(SharedChannelTest, MemoryThatCouldShrinkIsNotMapped) {
  const int fd = memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, static_cast<off_t>(SharedChannel::MemoryBytes())), 0);
  EXPECT_FALSE(SharedChannel::Map(fd, true, [](const auto&) { return true; }).ok());
  EXPECT_FALSE(theirs_->AddSegment(99, 4096, fd));
  close(fd);
}

}  // namespace
}  // namespace soapstone::transport
