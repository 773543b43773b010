// The ZeroMQ transport with streams: that they come about, and that order, counts and peers that
// end are as without them.
#include <zmq.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/node_transport.h"
#include "transport/node/numbered_links.h"
#include "transport/tcp/handshake.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint64_t kStreamsSession = 77;
constexpr Address kStreamsServer = {Role::kServer, 0};
constexpr Address kStreamsWorker = {Role::kWorker, 0};

SteadyTime StreamsSoon() { return SteadyNow() + absl::Seconds(60); }

Message PushOf(Clock clock, size_t bytes) {
  Message message;
  message.type = MessageType::kPush;
  message.clock = clock;
  message.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  message.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
  return message;
}

std::unique_ptr<Transport> Make(ZmqOptions options, Address self) {
  options.streams = true;
  absl::StatusOr<std::unique_ptr<Transport>> made = MakeNodeTransport(options);
  EXPECT_TRUE(made.ok()) << made.status();
  (*made)->SetSelf(self);
  (*made)->SetSession(kStreamsSession);
  return *std::move(made);
}

class ZmqStreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    server_ = Make({.listen = "tcp://127.0.0.1:0"}, kStreamsServer);
    worker_ = Make({}, kStreamsWorker);
    ASSERT_TRUE(worker_->Connect(kStreamsServer, server_->endpoint()).ok());
  }
  // A message and its answer.
  void Trip(Clock clock) {
    ASSERT_TRUE(worker_->Send(kStreamsServer, PushOf(clock, 100)).ok());
    Pass(worker_.get(), server_.get(), clock);
    ASSERT_TRUE(server_->Send(kStreamsWorker, PushOf(clock, 200)).ok());
    Pass(server_.get(), worker_.get(), clock);
  }
  // What was sent arrives; the sender's loop turns meanwhile.
  static void Pass(Transport* from, Transport* to, Clock clock) {
    std::optional<Message> message;
    for (const SteadyTime end = StreamsSoon(); !message.has_value() && SteadyNow() < end;) {
      ASSERT_FALSE(from->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
      message = to->Receive(SteadyNow() + absl::Milliseconds(1));
    }
    ASSERT_TRUE(message.has_value());
    ASSERT_EQ(message->clock, clock);
  }
  bool BothStream() const {
    return worker_->stats().streamed_messages > 0 && server_->stats().streamed_messages > 0;
  }
  void OpenStream() {
    Clock clock = 0;
    for (const SteadyTime end = StreamsSoon(); !BothStream() && SteadyNow() < end;) Trip(clock++);
    ASSERT_TRUE(BothStream());
  }

  std::unique_ptr<Transport> server_, worker_;
};

TEST_F(ZmqStreamsTest, AStreamComesAbout) {
  OpenStream();
  for (const size_t bytes : {0, 4, 5000, 70'000, 10'000'000}) {
    ASSERT_TRUE(worker_->Send(kStreamsServer, PushOf(7, bytes)).ok());
    Pass(worker_.get(), server_.get(), 7);
  }
}

TEST_F(ZmqStreamsTest, AMessageAtOtherTypesStaysWithZmq) {
  Message beat;
  beat.type = MessageType::kHeartbeat;
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(worker_->Send(kStreamsServer, beat).ok());
    ASSERT_TRUE(server_->Receive(StreamsSoon()).has_value());
  }
  EXPECT_EQ(worker_->stats().sent.control, server_->stats().received.control);
  worker_->Close(absl::Seconds(1));
  EXPECT_EQ(worker_->stats().streamed_messages, 0u);
}

TEST_F(ZmqStreamsTest, OrderIsKeptOverTheSwitchUnderLoad) {
  static constexpr Clock kCount = 30'000;
  std::thread sender([this] {
    Clock next_answer = 0;
    const auto answer = [&](SteadyTime deadline) {
      if (const std::optional<Message> message = worker_->Receive(deadline)) {
        ASSERT_EQ(message->clock, next_answer);
        ++next_answer;
      }
    };
    for (Clock clock = 0; clock < kCount;) {
      if (worker_->Send(kStreamsServer, PushOf(clock, clock % 50 == 0 ? 50'000 : 64)).ok()) ++clock;
      answer(SteadyTime::InfinitePast());
    }
    for (const SteadyTime end = StreamsSoon(); next_answer < kCount && SteadyNow() < end;)
      answer(end);
    EXPECT_EQ(next_answer, kCount);
    worker_->Close(absl::Seconds(60));  // says that it has them
  });
  for (Clock clock = 0; clock < kCount; ++clock) {
    const std::optional<Message> message = server_->Receive(StreamsSoon());
    ASSERT_TRUE(message.has_value());
    ASSERT_EQ(message->clock, clock);
    for (const SteadyTime end = StreamsSoon();
         !server_->Send(kStreamsWorker, PushOf(clock, 10)).ok() && SteadyNow() < end;) {
    }
  }
  // The last answers leave as the loop turns.
  server_->Close(absl::Seconds(60));
  sender.join();
  EXPECT_TRUE(BothStream());
}

TEST_F(ZmqStreamsTest, TheKernelCountsWhatWeCount) {
  OpenStream();
  for (const size_t size : {0, 1, 255, 256, 5'000'000}) {
    ASSERT_TRUE(worker_->Send(kStreamsServer, PushOf(1, size)).ok());
    Pass(worker_.get(), server_.get(), 1);
    ASSERT_TRUE(server_->Send(kStreamsWorker, PushOf(2, size)).ok());
    Pass(server_.get(), worker_.get(), 2);
  }
  worker_->Close(absl::Seconds(1));
  server_->Close(absl::Seconds(1));
  for (const Transport* transport : {worker_.get(), server_.get()}) {
    const TransportStats stats = transport->stats();
    EXPECT_EQ(stats.sockets.connections, 2u);
    // The server's "bye" may find a connection that has ended: given, and taken by nobody.
    const uint64_t bye = transport == server_.get() ? NumberedLinks::kNoteBytes + 2 : 0;
    EXPECT_LE(stats.sockets.taken_bytes, stats.sockets.given_bytes);
    EXPECT_GE(stats.sockets.taken_bytes + bye, stats.sockets.given_bytes);
    EXPECT_EQ(stats.sockets.given_bytes, stats.sent.total());
    EXPECT_GT(stats.sockets.taken_bytes, 5'000'000u);
  }
}

TEST_F(ZmqStreamsTest, WhatLingersIsHandedOver) {
  OpenStream();
  ASSERT_TRUE(worker_->Send(kStreamsServer, PushOf(1, 50'000'000)).ok());
  ASSERT_TRUE(worker_->Send(kStreamsServer, PushOf(2, 10)).ok());
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    worker_->Close(absl::Seconds(60));
    closed = true;
  });
  for (const Clock clock : {1, 2}) {
    const std::optional<Message> message = server_->Receive(StreamsSoon());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->clock, clock);
  }
  // It is over when the server has said that it has them.
  while (!closed) server_->Receive(SteadyNow() + absl::Milliseconds(1));
  closer.join();
  EXPECT_EQ(worker_->stats().dropped_messages, 0u);
}

TEST_F(ZmqStreamsTest, APeerThatEndsInTheMiddleLeavesNothingStuck) {
  OpenStream();
  ASSERT_TRUE(worker_->Send(kStreamsServer, PushOf(1, 100'000'000)).ok());
  worker_->Receive(SteadyTime::InfinitePast());
  server_->Receive(SteadyTime::InfinitePast());
  worker_.reset();  // without lingering: in the middle of the message
  absl::Status status;
  for (const SteadyTime end = StreamsSoon(); !absl::IsNotFound(status) && SteadyNow() < end;) {
    status = server_->Send(kStreamsWorker, PushOf(1, 1));
    EXPECT_FALSE(server_->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
  }
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  // Another one with its rank is served.
  worker_ = Make({}, kStreamsWorker);
  ASSERT_TRUE(worker_->Connect(kStreamsServer, server_->endpoint()).ok());
  Trip(1);
}

TEST_F(ZmqStreamsTest, AServerThatComesBackIsReachedAgain) {
  OpenStream();
  const std::string endpoint = server_->endpoint();
  server_.reset();
  server_ = Make({.listen = endpoint}, kStreamsServer);
  std::optional<Message> message;
  for (const SteadyTime end = StreamsSoon(); !message.has_value() && SteadyNow() < end;) {
    (void)worker_->Send(kStreamsServer, PushOf(3, 10)).ok();
    worker_->Receive(SteadyTime::InfinitePast());
    message = server_->Receive(SteadyNow() + absl::Milliseconds(1));
  }
  EXPECT_TRUE(message.has_value());
}

TEST_F(ZmqStreamsTest, AnUrgentMessagePassesALargeOne) {
  OpenStream();
  Message large = PushOf(1, 100'000'000);
  large.priority = 5;
  Message urgent = PushOf(2, 10);
  ASSERT_TRUE(worker_->Send(kStreamsServer, large).ok());
  ASSERT_TRUE(worker_->Send(kStreamsServer, urgent).ok());
  Pass(worker_.get(), server_.get(), 2);
  Pass(worker_.get(), server_.get(), 1);
}

TEST_F(ZmqStreamsTest, NotesOfStrangersAreRejected) {
  void* context = zmq_ctx_new();
  {
    ZmqSocket stranger = *ZmqSocket::Open(context, ZMQ_DEALER, {});
    ASSERT_TRUE(stranger.Connect(server_->endpoint()).ok());
    const Handshake ask = {
        .word = Handshake::Word::kAsk, .session = kStreamsSession + 1, .number = 1};
    ASSERT_TRUE(stranger.Send("", EncodeNote(ask), {}).ok());
    for (const SteadyTime end = StreamsSoon();
         server_->stats().rejected_messages == 0 && SteadyNow() < end;) {
      server_->Receive(SteadyNow() + absl::Milliseconds(1));
    }
    EXPECT_EQ(server_->stats().rejected_messages, 1u);
  }
  zmq_ctx_term(context);
  OpenStream();
}

}  // namespace
}  // namespace soapstone::transport
