#include "transport/shm/shared_ring.h"

#include <sched.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr size_t kCapacity = 4096;
constexpr size_t kHome = 256;

class SharedRingTest : public ::testing::Test {
 protected:
  bool Write(const std::string& text) {
    std::byte* record = writer_.Reserve(text.size());
    if (record == nullptr) return false;
    std::memcpy(record, text.data(), text.size());
    writer_.Publish();
    return true;
  }
  std::optional<std::string> Read() {
    const auto record = reader_.Peek();
    if (!record.has_value()) return std::nullopt;
    std::string text(reinterpret_cast<const char*>(record->data()), record->size());
    reader_.Pop();
    return text;
  }

  alignas(64) std::byte memory_[SharedRing::BytesFor(kCapacity)] = {};
  SharedRing writer_{memory_, kCapacity, kHome}, reader_{memory_, kCapacity, kHome};
  SharedRing::Head* head() { return reinterpret_cast<SharedRing::Head*>(memory_); }
};

TEST_F(SharedRingTest, RecordsOfAllSizesComeOutAsTheyWent) {
  const CounterRandom random(1, RandomUse::kTest);
  std::vector<std::string> waiting;
  size_t read = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    const size_t size = random.Bits(2 * i) % (SharedRing::RecordMax(kCapacity) + 1);
    const std::string text(size, static_cast<char>('a' + i % 26));
    while (!Write(text)) {
      const auto got = Read();
      ASSERT_TRUE(got.has_value());
      ASSERT_EQ(*got, waiting[read++]);
    }
    waiting.push_back(text);
  }
  while (const auto got = Read()) ASSERT_EQ(*got, waiting[read++]);
  EXPECT_EQ(read, waiting.size());
  EXPECT_FALSE(reader_.broken() || writer_.broken());
}

// A link on which little is on its way at a time has little memory.
TEST_F(SharedRingTest, WhoseReaderKeepsUpTouchesTheFirstPartOnly) {
  for (int i = 0; i < 1000; ++i) {
    const std::string text(static_cast<size_t>(i % 60), 'x');
    ASSERT_TRUE(Write(text));
    ASSERT_EQ(Read(), text);
  }
  const std::byte* bytes = memory_ + sizeof(SharedRing::Head);
  for (size_t at = kHome + 128; at < kCapacity; ++at) {
    ASSERT_EQ(bytes[at], std::byte{0}) << at;
  }
}

// Wherever the writer is when its reader stops.
TEST_F(SharedRingTest, TheFirstPartsBytesFindRoomWhileNothingIsRead) {
  for (int before = 0; before < 200; ++before) {
    for (int i = 0; i < before; ++i) {
      ASSERT_TRUE(Write("four"));
      ASSERT_EQ(Read(), "four");
    }
    for (size_t bytes = 0; bytes < kHome; bytes += SharedRing::Taking(4)) {
      ASSERT_TRUE(Write("four")) << before << " before, " << bytes;
    }
    while (Read().has_value()) continue;
  }
}

TEST_F(SharedRingTest, ARecordThatIsTooLargeIsNotTaken) {
  EXPECT_EQ(writer_.Reserve(SharedRing::RecordMax(kCapacity) + 1), nullptr);
}

TEST_F(SharedRingTest, WhoSleepsIsRungOnce) {
  EXPECT_FALSE(reader_.PrepareToSleep());
  ASSERT_NE(writer_.Reserve(4), nullptr);
  EXPECT_TRUE(writer_.Publish());
  ASSERT_NE(writer_.Reserve(4), nullptr);
  EXPECT_FALSE(writer_.Publish());
  EXPECT_TRUE(reader_.PrepareToSleep());  // something is there
}

TEST_F(SharedRingTest, SaysWhereTheWriterRan) {
  EXPECT_EQ(reader_.writer_cpu(), -1);
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    std::jthread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      ASSERT_TRUE(Write("x"));
    }).join();
    EXPECT_EQ(reader_.writer_cpu(), cpu);
    EXPECT_EQ(Read(), "x");
  }
}

// One writer, one reader, each on its own thread, sleeping by spinning: every record once, in
// order.
TEST_F(SharedRingTest, TwoThreads) {
  constexpr uint64_t kRecords = 200'000;
  std::jthread writing([this] {
    for (uint64_t i = 0; i < kRecords;) {
      std::byte* record = writer_.Reserve(sizeof(i));
      if (record == nullptr) {
        std::this_thread::yield();
        continue;
      }
      std::memcpy(record, &i, sizeof(i));
      writer_.Publish();
      ++i;
    }
  });
  for (uint64_t i = 0; i < kRecords;) {
    const auto record = reader_.Peek();
    if (!record.has_value()) {
      std::this_thread::yield();
      continue;
    }
    uint64_t got = 0;
    std::memcpy(&got, record->data(), sizeof(got));
    ASSERT_EQ(got, i);
    reader_.Pop();
    ++i;
  }
}

// ---- The other side writes what it likes

TEST_F(SharedRingTest, PositionsThatCannotBeBreakTheRing) {
  for (const uint64_t written : {kCapacity + 8, size_t{3}, ~size_t{0}}) {
    SharedRing reader(memory_, kCapacity, kHome);
    head()->written = written;
    EXPECT_FALSE(reader.Peek().has_value());
    EXPECT_TRUE(reader.broken()) << written;
  }
  SharedRing writer(memory_, kCapacity, kHome);
  head()->taken = 1;
  EXPECT_EQ(writer.Reserve(8), nullptr);
  EXPECT_TRUE(writer.broken());
}

TEST_F(SharedRingTest, SizesThatCannotBeBreakTheRing) {
  for (const uint32_t size : {uint32_t{9}, uint32_t{4000}, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
    SharedRing reader(memory_, kCapacity, kHome);
    head()->written = 16;
    std::memcpy(memory_ + sizeof(SharedRing::Head), &size, sizeof(size));
    EXPECT_FALSE(reader.Peek().has_value());
    EXPECT_TRUE(reader.broken()) << size;
  }
}

}  // namespace
}  // namespace soapstone::transport
