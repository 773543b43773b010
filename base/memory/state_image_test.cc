#include "base/memory/state_image.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "gtest/gtest.h"

namespace soapstone {
namespace {

struct Inner {
  WorkerId worker{};
  std::optional<double> mass;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.worker, self.mass);
  }
  friend bool operator==(const Inner&, const Inner&) = default;
};

struct Everything {
  Clock clock = kNoClock;
  bool flag = false;
  std::string text;
  std::vector<Inner> inner;
  std::vector<bool> bits;
  std::map<std::pair<Clock, WorkerId>, Inner> by_key;
  std::set<ShardId> shards;
  std::pair<uint32_t, MicroBatchRange> range;
  std::vector<uint64_t> by_bucket = std::vector<uint64_t>(3);
  std::vector<Buffer> payload;
  template <class Self, class Visitor>
  static void Visit(Self& self, Visitor&& visit) {
    visit(self.clock, self.flag, self.text, self.inner, self.bits, self.by_key, self.shards,
          self.range, Fixed(self.by_bucket), self.payload);
  }
  friend bool operator==(const Everything&, const Everything&) = default;
};

Everything Example() {
  Everything e;
  e.clock = 7;
  e.flag = true;
  e.text = "a name";
  e.inner = {{WorkerId{1}, 2.5}, {WorkerId{2}, std::nullopt}};
  e.bits = {true, false, true};
  e.by_key[{3, WorkerId{1}}] = {WorkerId{9}, 1.0};
  e.shards = {ShardId{1}, ShardId{4}};
  e.range = {5, {1, 2}};
  e.by_bucket = {1, 2, 3};
  e.payload = {Buffer::CopyOf("abc"), Buffer()};
  return e;
}

TEST(StateImage, WhatIsReadIsWhatWasWritten) {
  const Everything example = Example();
  StateWriter writer;
  writer.Write(example);
  const std::string bytes = writer.TakeBytes();
  StateReader reader(bytes, writer.TakeBuffers());
  Everything read;
  reader.Read(&read);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(read, example);
}

TEST(StateImage, PayloadsAreNotCopied) {
  const Everything example = Example();
  StateWriter writer;
  writer.Write(example);
  const Buffers buffers = writer.TakeBuffers();
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].data(), example.payload[0].data());
}

TEST(StateImage, AnyPrefixIsAnErrorAndNoMoreIsRead) {
  StateWriter writer;
  writer.Write(Example());
  const std::string bytes = writer.TakeBytes();
  const Buffers buffers = writer.TakeBuffers();
  for (size_t size = 0; size < bytes.size(); ++size) {
    StateReader reader(std::string_view(bytes).substr(0, size), buffers);
    Everything read;
    reader.Read(&read);
    EXPECT_FALSE(reader.done()) << size;
  }
}

TEST(StateImage, CountsThatCannotBeAreErrors) {
  StateWriter writer;
  writer.Write(Example());
  const std::string whole = writer.TakeBytes();
  const Buffers buffers = writer.TakeBuffers();
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0xFF);
    StateReader reader(bytes, buffers);
    Everything read;
    reader.Read(&read);  // ends, whatever comes of it
    EXPECT_TRUE(!reader.ok() || read.by_bucket.size() == 3u);
  }
}

TEST(StateImage, AnotherLengthThanTheJobsIsRefused) {
  StateWriter writer;
  writer.Write(std::vector<int>{1, 2});
  const std::string bytes = writer.TakeBytes();
  StateReader reader(bytes, {});
  std::vector<int> three(3);
  auto fixed = Fixed(three);
  reader.Read(&fixed);
  EXPECT_FALSE(reader.ok());
}

TEST(StateImage, MissingAndSurplusPayloadsAreErrors) {
  StateWriter writer;
  writer.Write(Example());
  const std::string bytes = writer.TakeBytes();
  const Buffers buffers = writer.TakeBuffers();
  Everything read;
  StateReader missing(bytes, {buffers[0]});
  missing.Read(&read);
  EXPECT_FALSE(missing.ok());
  StateReader surplus(bytes, {buffers[0], buffers[1], buffers[0]});
  surplus.Read(&read);
  EXPECT_TRUE(surplus.ok());
  EXPECT_FALSE(surplus.done());
}

}  // namespace
}  // namespace soapstone
