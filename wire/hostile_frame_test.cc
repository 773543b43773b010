// What comes from a peer that lies: whatever the bytes, what comes out is what Validate lets pass.
#include <zlib.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/random.h"
#include "gtest/gtest.h"
#include "wire/example_frames.h"
#include "wire/frame.pb.h"

namespace soapstone::wire {
namespace {

template <class... Bodies>
std::vector<Body> OneOfEach(const std::variant<Bodies...>* /*all*/) {
  return {Bodies()...};
}

// What an actor may rely on when it asks for the body of a type.
TEST(HostileFrameTest, OfATypeOnlyItsOwnBodyIsValidAndComesOut) {
  std::set<std::pair<MessageType, size_t>> allowed;
  for (const Message& message : Examples()) allowed.insert({message.type, message.body.index()});
  EXPECT_GE(allowed.size(), 33u);  // a heartbeat has one of four, or none
  std::vector<Body> bodies = OneOfEach(static_cast<const Body*>(nullptr));
  for (Body& body : bodies) {
    if (std::holds_alternative<Push>(body)) body = Push{{}, {0, 1}, 1};
    if (std::holds_alternative<LostLink>(body)) body = LostLink{Address::Of(ServerId{0}), ""};
    if (std::holds_alternative<Roster>(body)) body = Roster{.worker_count = 1};
  }
  std::set<size_t> read;  // bodies that a type's header says all of
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<MessageType>(number);
    read.insert(BodyFrom(type, {}).index());
    for (const Body& body : bodies) {
      Message message;
      message.type = type;
      message.from = kSender;
      message.body = body;
      SCOPED_TRACE(ToString(message));
      EXPECT_EQ(Validate(message).ok(), allowed.contains({type, body.index()}));
      for (const bool local : {false, true}) {
        const auto decoded =
            local ? DecodeLocal(LocalFrames(message)) : Decode(Frames(message, kSender));
        if (!decoded.ok()) continue;
        EXPECT_TRUE(allowed.contains({type, decoded->message.body.index()}));
      }
    }
  }
  for (const Body& body : bodies) {
    EXPECT_EQ(read.contains(body.index()), IsInHeader(body)) << body.index();
  }
}

TEST(HostileFrameTest, MutationsOfCompactHeadersAreRefusedOrValid) {
  const CounterRandom random(7, RandomUse::kTest);
  const Message push = Example(MessageType::kPush, {}, {Buffer::CopyOf("abcd")});
  const Buffers frames = LocalFrames(push);
  size_t refused = 0;
  for (uint64_t i = 0; i < 20'000; ++i) {
    std::string bytes(reinterpret_cast<const char*>(frames[0].data()), frames[0].size());
    for (uint64_t k = 0; k <= random.Bits(10 * i) % 3; ++k) {
      bytes[random.Bits(10 * i + k + 1) % bytes.size()] =
          static_cast<char>(random.Bits(10 * i + k + 5));
    }
    if (i % 10 == 0) bytes.resize(random.Bits(10 * i + 9) % bytes.size());
    const auto decoded = DecodeLocal({Buffer::CopyOf(bytes), frames[1]});
    refused += decoded.ok() ? 0 : 1;
    EXPECT_TRUE(!decoded.ok() || Validate(decoded->message).ok());
  }
  EXPECT_GT(refused, 4000u);
}

TEST(HostileFrameTest, EveryFlippedBitOfTheHeaderIsNoticed) {
  const std::string header = EncodeHeader(Examples()[0], kSender);
  for (size_t bit = 0; bit < header.size() * 8; ++bit) {
    std::string flipped = header;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(Decode({Buffer::CopyOf(flipped)}).ok()) << "bit " << bit;
  }
}

// Gives the prefix the length and checksum of what follows it, so that mutations reach the parser.
void Seal(std::string* header) {
  if (header->size() < kFramePrefixBytes) return;
  const uint32_t bytes = static_cast<uint32_t>(header->size() - kFramePrefixBytes);
  const uint32_t crc = static_cast<uint32_t>(
      crc32(0, reinterpret_cast<const Bytef*>(header->data() + kFramePrefixBytes), bytes));
  std::memcpy(header->data() + 8, &bytes, 4);
  std::memcpy(header->data() + 12, &crc, 4);
}

std::string RandomBytes(const CounterRandom& random, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random.Bits(1000 + i));
  return bytes;
}

Buffers Mutate(const Message& message, const CounterRandom& random) {
  std::string header = EncodeHeader(message, kSender);
  const uint64_t changes = 1 + random.Below(0, 4);
  for (uint64_t c = 0; c < changes; ++c) {
    const uint64_t at = random.Below(10 + 4 * c, header.size() + 1);
    switch (random.Below(11 + 4 * c, 5)) {
      case 0:
        header.resize(at);
        break;
      case 1:
        header.insert(at, RandomBytes(random, random.Below(12 + 4 * c, 9)));
        break;
      case 2:
        header.erase(at, random.Below(12 + 4 * c, 5));
        break;
      default:
        if (at < header.size()) header[at] = static_cast<char>(random.Bits(13 + 4 * c));
    }
    if (header.empty()) break;
  }
  if (random.Below(1, 4) != 0) Seal(&header);
  Buffers frames = {Buffer::CopyOf(header)};
  frames.insert(frames.end(), message.payload.begin(), message.payload.end());
  if (random.Below(2, 8) == 0) frames.resize(random.Below(3, frames.size() + 3));
  return frames;
}

// Lists of a server's progress that are not of one length, or longer than any may be: nothing is
// made of them, whatever is left.
TEST(HostileFrameTest, ReadersOfAShardAreListsOfOneLength) {
  const Message message =
      Example(MessageType::kHeartbeat,
              ServerProgress{{{ShardId{0}, 1, 1, 0, {{WorkerId{0}, 4, 3, 2, 1, 0}}}}});
  const std::string good = EncodeHeader(message, kSender);
  const auto refused = [&](auto change) {
    frame::Header header;
    EXPECT_TRUE(header.ParseFromString(good.substr(kFramePrefixBytes)));
    change(header.mutable_server_progress());
    std::string bytes = good.substr(0, kFramePrefixBytes) + header.SerializeAsString();
    Seal(&bytes);
    return !Decode({Buffer::CopyOf(bytes)}).ok();
  };
  EXPECT_FALSE(refused([](frame::ServerProgress*) {}));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_shards(0)->add_workers(1); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_shards(0)->clear_clocks(); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_shards(0)->add_reads(1); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_shards(0)->clear_lag_sums(); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_shards(0)->add_lag_maxima(1); }));
  EXPECT_TRUE(refused([](auto* p) { p->mutable_shards(0)->clear_parked_ms(); }));
  EXPECT_TRUE(refused([](auto* p) {
    for (size_t i = 0; i < ServerProgress::kShardsMax; ++i) p->add_shards()->set_shard(1 + i);
  }));
}

TEST(HostileFrameTest, MutationsAreRefusedOrValid) {
  const std::vector<Message> examples = Examples();
  int accepted = 0;
  for (uint64_t i = 0; i < 80'000; ++i) {
    const CounterRandom random(1, RandomUse::kTest, i);
    const Buffers frames = Mutate(examples[i % examples.size()], random);
    const absl::StatusOr<Received> decoded = Decode(frames);
    if (!decoded.ok()) continue;
    ++accepted;
    ASSERT_TRUE(Validate(decoded->message).ok());
    // What was accepted is a message like any other: it survives another trip.
    const absl::StatusOr<Received> again = Decode(Frames(decoded->message, decoded->sender));
    ASSERT_TRUE(again.ok()) << again.status();
    ASSERT_EQ(again->message, decoded->message);
  }
  EXPECT_GT(accepted, 1000);  // the mutations reach past the prefix
}

TEST(HostileFrameTest, RandomBytesAreRefused) {
  for (uint64_t i = 0; i < 20'000; ++i) {
    const CounterRandom random(2, RandomUse::kTest, i);
    std::string header = RandomBytes(random, random.Below(0, 200));
    if (i % 2 == 0 && header.size() >= kFramePrefixBytes) {
      const std::string good = EncodeHeader(Message(), kSender);
      header.replace(0, 8, good, 0, 8);
      Seal(&header);
    }
    const absl::StatusOr<Received> decoded = Decode({Buffer::CopyOf(header)});
    if (decoded.ok()) {
      ASSERT_TRUE(Validate(decoded->message).ok());
    }
  }
}

}  // namespace
}  // namespace soapstone::wire
