#include "transport/tcp/stream_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr size_t kMb = size_t{1} << 20;

std::string Bytes(uint64_t stream, size_t size) {
  const CounterRandom random(7, RandomUse::kTest, stream);
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(i < 64 ? random.Bits(i) : (stream + i / 8));
  }
  return bytes;
}

std::string Text(const Buffer& buffer) {
  return std::string(reinterpret_cast<const char*>(buffer.data()), buffer.size());
}

class StreamChannelTest : public testing::Test {
 protected:
  void SetUp() override { Connect({}); }

  void Connect(const StreamLimits& limits) {
    sender_ = std::make_unique<StreamChannel>(1, limits, &pool_);
    receiver_ = std::make_unique<StreamChannel>(2, limits, &pool_);
    Reconnect();
  }
  // A new connection between the two, whatever became of the one before.
  void Reconnect() {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    const wire::SessionGreeting of_sender = sender_->greeting();
    ASSERT_TRUE(sender_->Attach(ends[0], receiver_->greeting()));
    ASSERT_TRUE(receiver_->Attach(ends[1], of_sender));
  }

  // The next message, moved through the socket as far as it needs to be.
  bool Receive(Buffers* frames) {
    for (int tries = 0; tries < 100'000 && !receiver_->broken(); ++tries) {
      sender_->Flush();
      receiver_->SetReadable();
      if (receiver_->Receive(frames)) return true;
    }
    return false;
  }
  // The receiver says what it has in hand, and the sender hears it.
  void Acknowledge() {
    sender_->Flush();
    receiver_->Acknowledge();
    receiver_->Flush();
    Buffers none;
    sender_->SetReadable();
    sender_->Receive(&none);
  }
  std::string ReceiveHeader() {
    Buffers frames;
    return Receive(&frames) ? Text(frames[0]) : "none";
  }
  // Raw bytes arrive at the receiver. True: they broke it.
  bool Breaks(const std::string& bytes) {
    EXPECT_EQ(write(sender_->fd(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    receiver_->SetReadable();
    Buffers frames;
    while (receiver_->Receive(&frames)) {
    }
    return receiver_->broken() && receiver_->broke_rules();
  }

  BufferPool pool_;
  std::unique_ptr<StreamChannel> sender_, receiver_;
};

struct Sent {
  std::string header;
  std::vector<std::string> payload;
};

TEST_F(StreamChannelTest, MessagesOfAnySizeArriveWholeAndInOrder) {
  const CounterRandom random(1, RandomUse::kTest, 0);
  constexpr size_t kLargest[] = {0, 9, 600, 5000, 20'000, 70'000, 3 * kMb};
  std::map<uint32_t, std::deque<Sent>> sent;
  size_t waiting = 0;
  uint64_t at = 0;
  std::vector<std::pair<Sent, Buffers>> kept;
  for (int round = 0; round < 400; ++round) {
    Sent message{
        .header = absl::StrCat("header ", round, std::string(random.Below(++at, 200), 'h')),
        .payload = {}};
    const auto priority = static_cast<uint32_t>(random.Below(++at, 4));
    message.header[0] = static_cast<char>('0' + priority);
    for (uint64_t f = random.Below(++at, 4); f > 0; --f) {
      const size_t largest = kLargest[random.Below(++at, 7)];
      message.payload.push_back(Bytes(at, random.Below(at + 1, largest + 1)));
      ++at;
    }
    Buffers payload;
    for (const std::string& frame : message.payload) payload.push_back(Buffer::CopyOf(frame));
    ASSERT_TRUE(sender_->Send(message.header, payload, priority).ok());
    sent[priority].push_back(std::move(message));
    ++waiting;
    for (uint64_t n = round == 399 ? waiting : random.Below(++at, 3); n > 0 && waiting > 0; --n) {
      Buffers frames;
      ASSERT_TRUE(Receive(&frames));
      std::deque<Sent>& expected = sent[Text(frames[0])[0] - '0'];
      ASSERT_FALSE(expected.empty());
      kept.emplace_back(std::move(expected.front()), frames);
      expected.pop_front();
      --waiting;
    }
  }
  // Nothing that came later was written over what came before.
  for (const auto& [expected, frames] : kept) {
    ASSERT_EQ(Text(frames[0]), expected.header);
    ASSERT_EQ(frames.size(), expected.payload.size() + 1);
    for (size_t f = 0; f < expected.payload.size(); ++f) {
      ASSERT_EQ(Text(frames[f + 1]), expected.payload[f]);
    }
  }
  EXPECT_EQ(sender_->unsent_messages(), 0u);
  EXPECT_EQ(sender_->more_bytes(), receiver_->more_bytes_in());
  EXPECT_GT(sender_->more_bytes(), 0);
}

// Connections end at any byte, on either side first or on both at once.
TEST_F(StreamChannelTest, EachMessageArrivesOnceOverConnectionsThatBreak) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const CounterRandom random(seed, RandomUse::kTest, 5);
    Connect({});
    constexpr size_t kLargest[] = {0, 9, 600, 20'000, 300'000, 3 * kMb};
    std::map<uint32_t, std::deque<std::string>> sent;
    uint64_t at = 0;
    size_t waiting = 0, breaks = 0;
    for (int turn = 0; turn < 3000 && (turn < 60 || waiting > 0); ++turn) {
      if (turn < 60) {
        const auto priority = static_cast<uint32_t>(random.Below(++at, 3));
        const std::string header = absl::StrCat(priority, " message ", turn);
        const uint64_t largest = kLargest[random.Below(++at, 6)];
        const Buffers payload = {Buffer::CopyOf(Bytes(at, random.Below(at, largest + 1)))};
        ASSERT_TRUE(sender_->Send(header, payload, priority).ok());
        sent[priority].push_back(header);
        ++waiting;
      }
      if (random.Below(++at, 4) > 0) sender_->Flush();
      Buffers frames;
      receiver_->SetReadable();
      for (uint64_t n = random.Below(++at, 3); n > 0 && receiver_->Receive(&frames); --n) {
        std::deque<std::string>& expected = sent[Text(frames[0])[0] - '0'];
        ASSERT_FALSE(expected.empty()) << "seed " << seed << ": once more: " << Text(frames[0]);
        ASSERT_EQ(Text(frames[0]), expected.front()) << "seed " << seed;
        expected.pop_front();
        --waiting;
      }
      if (random.Below(++at, 3) == 0) receiver_->Flush();
      sender_->SetReadable();
      ASSERT_FALSE(sender_->Receive(&frames)) << "acknowledgements are no messages";
      if (turn < 2000 && random.Below(++at, 12) == 0) {
        if (random.Below(++at, 2) == 0) sender_->Detach();
        if (random.Below(++at, 2) == 0) receiver_->Detach();
        Reconnect();
        ++breaks;
      }
    }
    EXPECT_EQ(waiting, 0u) << "seed " << seed;
    EXPECT_GT(breaks, 0u);
    Acknowledge();
    EXPECT_TRUE(sender_->all_acknowledged()) << "seed " << seed;
    EXPECT_EQ(sender_->given_bytes() - sender_->connection_bytes() + sender_->taken_bytes(),
              sender_->given_bytes());
  }
}

TEST_F(StreamChannelTest, OnlyTheSameProcessGoesOn) {
  ASSERT_TRUE(sender_->Send("kept", {}, 0).ok());
  sender_->Detach();
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  EXPECT_FALSE(sender_->Attach(ends[0], {.self = 3, .other = 1})) << "a successor";
  EXPECT_FALSE(sender_->Attach(ends[0], {.self = 2, .other = 9})) << "takes us for another";
  EXPECT_FALSE(sender_->Attach(ends[0], {.self = 2, .other = 1, .received = 1})) << "never sent";
  EXPECT_FALSE(sender_->Attach(ends[0], {})) << "nobody";
  EXPECT_EQ(sender_->queued_messages(), 1u);
  EXPECT_TRUE(sender_->Attach(ends[0], {.self = 2, .other = 1}));
  close(ends[1]);
}

// What the other side has not said to have in hand counts against the bounds, and it is asked.
TEST_F(StreamChannelTest, ABoundOfOneMessageIsKeptAndPassed) {
  Connect({.queue_messages_max = 1});
  int refused = 0;
  for (int i = 0; i < 50; ++i) {
    for (int tries = 0;; ++tries) {
      ASSERT_LT(tries, 100) << i;
      if (sender_->Send(absl::StrCat(i), {}, 0).ok()) break;
      ++refused;
      Buffers frames;
      receiver_->SetReadable();
      receiver_->Receive(&frames);
      receiver_->Flush();
      sender_->SetReadable();
      sender_->Receive(&frames);
    }
    ASSERT_EQ(sender_->queued_messages(), 1u);
  }
  EXPECT_GE(refused, 49);
}

TEST_F(StreamChannelTest, AcknowledgingWhatWasNeverSentBreaks) {
  const uint32_t ack[4] = {0x4B434153, 0, 7, 0};
  EXPECT_TRUE(Breaks(std::string(reinterpret_cast<const char*>(ack), sizeof(ack))));
}

TEST_F(StreamChannelTest, PayloadsAreAlignedForFloats) {
  for (const size_t size : {4, 100, 4096, 100'000}) {
    const Buffers payload = {Buffer::CopyOf(Bytes(1, 3)), Buffer::CopyOf(Bytes(2, size))};
    ASSERT_TRUE(sender_->Send("odd", payload, 0).ok());
    Buffers frames;
    ASSERT_TRUE(Receive(&frames));
    EXPECT_TRUE(frames[2].IsFloatAligned()) << size;
  }
}

// A large payload of which the first read brought an odd number of bytes, and what comes behind it.
TEST_F(StreamChannelTest, PayloadsAreAlignedWhereverReadsEnd) {
  ASSERT_TRUE(sender_->Send("large", {Buffer::CopyOf(Bytes(1, 40'000))}, 0).ok());
  ASSERT_TRUE(sender_->Send("small", {Buffer::CopyOf(Bytes(2, 9756))}, 0).ok());
  sender_->Flush();
  std::string stream(80'000, '\0');
  const ssize_t size = read(receiver_->fd(), stream.data(), stream.size());
  ASSERT_GT(size, 40'000 + 9756);
  for (ssize_t cut = 1; cut < 200; ++cut) {
    SCOPED_TRACE(cut);
    Connect({});
    Buffers frames;
    ASSERT_EQ(write(sender_->fd(), stream.data(), static_cast<size_t>(cut)), cut);
    receiver_->SetReadable();
    ASSERT_FALSE(receiver_->Receive(&frames));
    ASSERT_EQ(write(sender_->fd(), stream.data() + cut, static_cast<size_t>(size - cut)),
              size - cut);
    for (const uint64_t number : {1, 2}) {
      receiver_->SetReadable();
      ASSERT_TRUE(receiver_->Receive(&frames));
      EXPECT_TRUE(frames[1].IsFloatAligned());
      EXPECT_EQ(Text(frames[1]), Bytes(number, number == 1 ? 40'000 : 9756));
    }
  }
}

TEST_F(StreamChannelTest, AnUrgentMessagePassesALargeOne) {
  const Buffers large = {Buffer::CopyOf(Bytes(1, 16 * kMb))};
  ASSERT_TRUE(sender_->Send("large", large, 7).ok());
  ASSERT_TRUE(sender_->Send("large too", large, 7).ok());
  ASSERT_TRUE(sender_->Send("urgent", {}, 3).ok());
  ASSERT_TRUE(sender_->Send("most urgent", {}, 0).ok());
  EXPECT_EQ(ReceiveHeader(), "most urgent");
  EXPECT_EQ(ReceiveHeader(), "urgent");
  EXPECT_EQ(ReceiveHeader(), "large");
  EXPECT_EQ(ReceiveHeader(), "large too");
}

TEST_F(StreamChannelTest, MorePrioritiesThanMayBeBegunAtOnce) {
  constexpr uint32_t kCount = 30;
  const Buffers large = {Buffer::CopyOf(Bytes(1, 2 * kMb))};
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(sender_->Send(absl::StrCat(kCount - i), large, kCount - i).ok());
    sender_->Flush();
    // Some of it moves, so that it has been begun when the next comes.
    receiver_->SetReadable();
    Buffers frames;
    ASSERT_FALSE(receiver_->Receive(&frames) && i == 0);
  }
  size_t received = 0;
  while (received < kCount && ReceiveHeader() != "none") ++received;
  EXPECT_EQ(sender_->unsent_messages(), 0u);
  EXPECT_FALSE(receiver_->broken());
}

TEST_F(StreamChannelTest, AFullQueueIsAnError) {
  Connect({.queue_messages_max = 50});
  const Buffers payload = {Buffer::CopyOf(Bytes(1, 100'000))};
  absl::Status status;
  int sent = 0;
  while (status.ok() && sent < 1000) {
    status = sender_->Send("x", payload, 0);
    if (status.ok()) ++sent;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(sender_->queued_messages(), 50u);
  for (int i = 0; i < sent; ++i) ASSERT_EQ(ReceiveHeader(), "x");
  Acknowledge();
  EXPECT_TRUE(sender_->Send("x", payload, 0).ok());
}

TEST_F(StreamChannelTest, QueuedBytesAreBoundedButOneMessageAlwaysGoes) {
  Connect({.queue_bytes_max = 2 * kMb});
  const Buffers large = {Buffer::CopyOf(Bytes(1, 10 * kMb))};
  ASSERT_TRUE(sender_->Send("large", large, 0).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(sender_->Send("small", {}, 0)));
  EXPECT_EQ(ReceiveHeader(), "large");
  Acknowledge();
  EXPECT_TRUE(sender_->Send("small", {}, 0).ok());
}

TEST_F(StreamChannelTest, WhatWasSentBeforeTheEndIsGivenOut) {
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(sender_->Send(absl::StrCat(i), {}, 0).ok());
  sender_->Flush();
  sender_.reset();
  receiver_->SetReadable();
  Buffers frames;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(receiver_->Receive(&frames));
    ASSERT_EQ(Text(frames[0]), absl::StrCat(i));
  }
  receiver_->SetReadable();
  EXPECT_FALSE(receiver_->Receive(&frames));
  EXPECT_TRUE(receiver_->broken());
  EXPECT_FALSE(receiver_->broke_rules());
  EXPECT_FALSE(receiver_->can_send());
  EXPECT_TRUE(receiver_->Send("x", {}, 0).ok()) << "it goes by the next connection";
}

TEST_F(StreamChannelTest, WhoSendsToAnEndLearnsOfIt) {
  receiver_.reset();
  ASSERT_TRUE(sender_->Send("x", {}, 0).ok());
  sender_->Flush();
  EXPECT_FALSE(sender_->can_send());
  EXPECT_TRUE(sender_->Send("x", {}, 0).ok()) << "it goes by the next connection";
  EXPECT_EQ(sender_->queued_messages(), 2u);
}

// magic, bytes in the chunk, of the header, frames; then sizes and header.
std::string Chunk(const std::vector<uint32_t>& head, const std::vector<uint64_t>& sizes = {},
                  const std::string& rest = "") {
  return std::string(reinterpret_cast<const char*>(head.data()), head.size() * sizeof(uint32_t)) +
         std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint64_t)) +
         rest;
}

TEST_F(StreamChannelTest, WhatBreaksTheRulesIsRefused) {
  constexpr uint32_t kBegin = 0x47454253, kMore = 0x524F4D53;
  const StreamLimits limits = {.frame = {.header_bytes_max = 1000,
                                         .payload_frames_max = 10,
                                         .frame_bytes_max = 100'000,
                                         .message_bytes_max = 150'000}};
  const std::string header(8, 'h');
  const std::vector<std::string> wrong = {
      Bytes(3, 4096),
      Chunk({kBegin + 1, 0, 8, 0}, {}, header),
      Chunk({kBegin, 0, 1001, 0}),                          // header too large
      Chunk({kBegin, 0, 8, 11}),                            // too many frames
      Chunk({kBegin, 8, 8, 1}, {100'001}, header),          // a frame too large
      Chunk({kBegin, 8, 8, 2}, {80'000, 80'000}, header),   // a message too large
      Chunk({kBegin, 8, 8, 2}, {~uint64_t{0}, 2}, header),  // no sum that wraps
      Chunk({kBegin, 16, 8, 1}, {8}, header),               // more than the message has
      Chunk({kBegin, 0, 8, 1}, {8}, header),                // a message that begins with nothing
      Chunk({kBegin, 3, 8, 1}, {3}, header),                // not rounded up
      Chunk({kMore, 8, 0, 0}),                              // of no message
      Chunk({kBegin, 8, 8, 1}, {90'000}, header + header) + Chunk({kMore, 0, 0, 0}),
      Chunk({kBegin, 8, 8, 1}, {90'000}, header + header) + Chunk({kMore, 90'000, 0, 0}),
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    Connect(limits);
    EXPECT_TRUE(Breaks(wrong[i])) << i;
  }
  Connect(limits);
  std::string deep;
  for (size_t i = 0; i <= kBegunMax; ++i) {
    EXPECT_FALSE(Breaks(deep)) << i;
    deep = Chunk({kBegin, 8, 8, 1}, {90'000}, header + header);
  }
  EXPECT_TRUE(Breaks(deep));
}

// Memory is taken as bytes come, not because they are announced.
TEST_F(StreamChannelTest, AnAnnouncedMessageTakesNoMemoryBeforeItsBytesCome) {
  constexpr uint32_t kBegin = 0x47454253;
  constexpr uint64_t kAnnounced = uint64_t{1} << 30;
  size_t taken = 0;
  BufferPool pool(0, [&taken](size_t bytes) -> std::shared_ptr<void> {
    taken += bytes;
    return {std::aligned_alloc(64, bytes), std::free};
  });
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  StreamChannel receiver(1, {}, &pool);
  ASSERT_TRUE(receiver.Attach(ends[0], {.self = 2}));
  const auto give = [&](const std::string& bytes) {
    Buffers frames;
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t written = write(ends[1], bytes.data() + at, bytes.size() - at);
      if (written > 0) at += static_cast<size_t>(written);
      receiver.SetReadable();
      EXPECT_FALSE(receiver.Receive(&frames));
    }
  };
  give(Chunk({kBegin, static_cast<uint32_t>(kAnnounced), 8, 1}, {kAnnounced}, std::string(8, 'h')));
  EXPECT_LE(taken, ChunkReader::kAheadMax + kMb);
  give(std::string(70 * kMb, 'p'));
  EXPECT_LE(taken, (1 + ChunkReader::kAheadFactor) * ChunkReader::kAheadMax + kMb);
  EXPECT_FALSE(receiver.broken());
  close(ends[1]);
}

TEST_F(StreamChannelTest, AMessageBeyondWhatIsTakenAheadArrivesWhole) {
  const Buffers payload = {Buffer::CopyOf(Bytes(1, 70 * kMb + 3)),
                           Buffer::CopyOf(Bytes(2, kMb + 1))};
  ASSERT_TRUE(sender_->Send("large", payload, 3).ok());
  ASSERT_TRUE(sender_->Send("after", {}, 3).ok());
  Buffers frames;
  ASSERT_TRUE(Receive(&frames));
  EXPECT_EQ(Text(frames[0]), "large");
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_TRUE(frames[1] == payload[0]);
  EXPECT_TRUE(frames[2] == payload[1]);
  EXPECT_EQ(ReceiveHeader(), "after");
}

TEST_F(StreamChannelTest, FlippedBitsDoNoHarm) {
  std::string good;
  for (int i = 0; i < 20; ++i) {
    const Buffers payload = {Buffer::CopyOf(Bytes(i, 100 * i)), Buffer::CopyOf(Bytes(i, 17))};
    ASSERT_TRUE(sender_->Send("a header", payload, 0).ok());
  }
  sender_->Flush();
  good.resize(size_t{1} << 18);
  const ssize_t got = read(receiver_->fd(), good.data(), good.size());
  ASSERT_GT(got, 0);
  good.resize(static_cast<size_t>(got));
  for (uint64_t i = 0; i < 2000; ++i) {
    const CounterRandom random(4, RandomUse::kTest, i);
    std::string bad = good;
    bad[random.Below(1, bad.size())] ^= static_cast<char>(1 << random.Below(2, 8));
    Connect({.frame = {.frame_bytes_max = kMb, .message_bytes_max = kMb}});
    Breaks(bad);
  }
}

}  // namespace
}  // namespace soapstone::transport
