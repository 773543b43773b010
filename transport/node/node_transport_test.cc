// What strangers can do to the socket that a node listens on: nothing.
#include "transport/node/node_transport.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/numbered_links.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint64_t kZmqSession = 77;
constexpr Address kZmqServer = {Role::kServer, 0};
constexpr Address kZmqWorker = {Role::kWorker, 0};

SteadyTime ZmqSoon() { return SteadyNow() + absl::Seconds(60); }

Message ZmqPull(Clock clock) {
  Message message;
  message.type = MessageType::kPull;
  message.body = wire::Pull{};
  message.clock = clock;
  return message;
}

std::string RandomBytes(const CounterRandom& random, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(random.Bits(100 + i));
  return bytes;
}

class NodeTransportTest : public testing::Test {
 protected:
  void SetUp() override {
    // Here strangers may stay, so that each message of theirs is looked at
    // (transport/zmq/door_watch.h would hold them).
    constexpr DoorLimits kOpenDoor = {.bytes_max = 1 << 30, .total_bytes_max = 1 << 30};
    server_ = Make({.listen = "tcp://127.0.0.1:0", .door = kOpenDoor}, kZmqServer);
    worker_ = Make({}, kZmqWorker);
    ASSERT_TRUE(worker_->Connect(kZmqServer, server_->endpoint()).ok());
    context_ = zmq_ctx_new();
  }
  void TearDown() override { zmq_ctx_term(context_); }

  static std::unique_ptr<Transport> Make(const ZmqOptions& options, Address self) {
    absl::StatusOr<std::unique_ptr<Transport>> made = MakeNodeTransport(options);
    EXPECT_TRUE(made.ok()) << made.status();
    (*made)->SetSelf(self);
    (*made)->SetSession(kZmqSession);
    return *std::move(made);
  }

  // A stranger's socket, connected to the server.
  ZmqSocket Stranger(const std::string& routing_id = "") {
    ZmqSocket socket = *ZmqSocket::Open(context_, ZMQ_DEALER, {.routing_id = routing_id});
    EXPECT_TRUE(socket.Connect(server_->endpoint()).ok());
    return socket;
  }

  // A message and its answer go through.
  void ExpectServes() {
    ASSERT_TRUE(worker_->Send(kZmqServer, ZmqPull(5)).ok());
    const std::optional<Message> request = server_->Receive(ZmqSoon());
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->from, kZmqWorker);
    ASSERT_TRUE(server_->Send(kZmqWorker, ZmqPull(6)).ok());
    const std::optional<Message> reply = worker_->Receive(ZmqSoon());
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->clock, 6);
  }

  std::unique_ptr<Transport> server_;
  std::unique_ptr<Transport> worker_;
  void* context_ = nullptr;
};

TEST_F(NodeTransportTest, RawTcpGarbageDoesNotDisturb) {
  server_ = Make({.listen = "tcp://127.0.0.1:0"}, kZmqServer);
  ASSERT_TRUE(worker_->Connect(kZmqServer, server_->endpoint()).ok());
  const std::string endpoint = server_->endpoint();
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port));
  for (uint64_t i = 0; i < 20; ++i) {
    const CounterRandom random(1, RandomUse::kTest, i);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    std::string bytes = RandomBytes(random, 20'000);
    if (i % 3 == 0) bytes = "GET / HTTP/1.1\r\nHost: soapstone\r\n\r\n";
    // A greeting of ZMTP 3.0 with the NULL mechanism, and nonsense after it.
    if (i % 3 == 1) {
      std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
      greeting.resize(64, '\0');
      bytes.insert(0, greeting);
    }
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
    ASSERT_NO_FATAL_FAILURE(ExpectServes());
  }
}

// An empty message is the knock of a connection, and no garbage.
TEST_F(NodeTransportTest, GarbageMessagesAreCountedAndDisturbNobody) {
  constexpr uint64_t kCount = 10'000;
  ZmqSocket stranger = Stranger();
  const std::string good = wire::EncodeHeader(ZmqPull(1), kZmqWorker);
  for (uint64_t i = 0; i < kCount; ++i) {
    const CounterRandom random(2, RandomUse::kTest, i);
    std::string header = RandomBytes(random, 1 + random.Below(0, 80));
    if (i % 2 == 0) {  // almost right
      header = good;
      header[random.Below(1, header.size())] ^= static_cast<char>(1 + random.Below(2, 255));
    }
    const Buffers payload(random.Below(3, 4),
                          Buffer::CopyOf(RandomBytes(random, random.Below(4, 700))));
    ASSERT_TRUE(stranger.Send("", header, payload).ok());
    if (i % 500 == 0) {
      ASSERT_NO_FATAL_FAILURE(ExpectServes());
    }
  }
  const SteadyTime deadline = ZmqSoon();
  while (server_->stats().rejected_messages < kCount && SteadyNow() < deadline) {
    EXPECT_FALSE(server_->Receive(SteadyNow() + absl::Milliseconds(10)).has_value());
  }
  EXPECT_EQ(server_->stats().rejected_messages, kCount);
  ExpectServes();
}

TEST_F(NodeTransportTest, AFloodOfGarbageDoesNotHoldReceive) {
  ZmqSocket stranger = Stranger();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(stranger.Send("", "garbage", {}).ok());
  const SteadyTime deadline = ZmqSoon();
  while (server_->stats().rejected_messages < 1000 && SteadyNow() < deadline) {
    const uint64_t before = server_->stats().rejected_messages;
    EXPECT_FALSE(server_->Receive(SteadyTime::InfinitePast()).has_value());
    EXPECT_LE(server_->stats().rejected_messages, before + 1);
  }
  EXPECT_EQ(server_->stats().rejected_messages, 1000u);
}

TEST_F(NodeTransportTest, AStrangerCannotTakeAMembersRoute) {
  ExpectServes();
  ZmqSocket stranger = Stranger("S-the-stranger");
  Message hello;
  hello.type = MessageType::kHello;
  hello.from = kZmqWorker;
  hello.body = wire::Hello{.role = Role::kWorker};
  ASSERT_TRUE(stranger.Send("", wire::EncodeHeader(hello, kZmqWorker), {}).ok());
  const SteadyTime deadline = ZmqSoon();
  while (server_->stats().rejected_messages == 0 && SteadyNow() < deadline) {
    EXPECT_FALSE(server_->Receive(SteadyNow() + absl::Milliseconds(10)).has_value());
  }
  ASSERT_EQ(server_->stats().rejected_messages, 1u);
  ASSERT_TRUE(server_->Send(kZmqWorker, ZmqPull(9)).ok());
  ASSERT_TRUE(worker_->Receive(ZmqSoon()).has_value());
}

TEST_F(NodeTransportTest, NobodySpeaksInTheSchedulersName) {
  auto scheduler = Make({.listen = "tcp://127.0.0.1:0"}, Address::Scheduler());
  ASSERT_TRUE(server_->Connect(Address::Scheduler(), scheduler->endpoint()).ok());
  ASSERT_TRUE(server_->Send(Address::Scheduler(), ZmqPull(1)).ok());
  ASSERT_TRUE(scheduler->Receive(ZmqSoon()).has_value());
  // Even with the session.
  Message shutdown;
  shutdown.type = MessageType::kShutdown;
  shutdown.from = Address::Scheduler();
  shutdown.session = kZmqSession;
  shutdown.body = wire::Notice{.code = 0, .text = "stop"};
  ZmqSocket stranger = Stranger();
  ASSERT_TRUE(stranger.Send("", wire::EncodeHeader(shutdown, Address::Scheduler()), {}).ok());
  const SteadyTime deadline = ZmqSoon();
  while (server_->stats().rejected_messages == 0 && SteadyNow() < deadline) {
    EXPECT_FALSE(server_->Receive(SteadyNow() + absl::Milliseconds(10)).has_value());
  }
  EXPECT_EQ(server_->stats().rejected_messages, 1u);
  ASSERT_TRUE(scheduler->Send(kZmqServer, shutdown).ok());
  const std::optional<Message> told = server_->Receive(ZmqSoon());
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->type, MessageType::kShutdown);
}

TEST_F(NodeTransportTest, StrangersWithOneRoutingIdDoNotDisturb) {
  for (int i = 0; i < 50; ++i) {
    ZmqSocket stranger = Stranger("S-one-id-for-all");
    ASSERT_TRUE(stranger.Send("", "garbage", {}).ok());
    if (i % 10 == 0) ExpectServes();
  }
  ExpectServes();
}

TEST_F(NodeTransportTest, APeerThatLeftIsNotFound) {
  ExpectServes();
  worker_->Close(absl::ZeroDuration());
  absl::Status status;
  const SteadyTime deadline = ZmqSoon();
  while (!absl::IsNotFound(status) && SteadyNow() < deadline) {
    status = server_->Send(kZmqWorker, ZmqPull(1));
    server_->Receive(SteadyNow() + absl::Milliseconds(1));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
}

TEST_F(NodeTransportTest, ListeningOnAllInterfacesIsReachable) {
  auto everywhere = Make({.listen = "tcp://*:0"}, Address::Scheduler());
  EXPECT_EQ(everywhere->endpoint().find('*'), std::string::npos);
  ASSERT_TRUE(worker_->Connect(Address::Scheduler(), everywhere->endpoint()).ok());
  ASSERT_TRUE(worker_->Send(Address::Scheduler(), ZmqPull(1)).ok());
  EXPECT_TRUE(everywhere->Receive(ZmqSoon()).has_value()) << everywhere->endpoint();
}

TEST_F(NodeTransportTest, AHostNameCanBeListenedOn) {
  auto local = Make({.listen = "tcp://localhost:0"}, Address::Scheduler());
  EXPECT_EQ(local->endpoint().find("tcp://localhost:"), 0u);
  ASSERT_TRUE(worker_->Connect(Address::Scheduler(), local->endpoint()).ok());
  ASSERT_TRUE(worker_->Send(Address::Scheduler(), ZmqPull(1)).ok());
  EXPECT_TRUE(local->Receive(ZmqSoon()).has_value());
}

TEST_F(NodeTransportTest, AnAddressOfAnotherMachineIsRefused) {
  const absl::Status status = MakeNodeTransport({.listen = "tcp://192.0.2.1:0"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(status.message(),
            "cannot listen on tcp://192.0.2.1:0: that is no address of this machine");
}

TEST_F(NodeTransportTest, ANameToListenAtThatDoesNotResolveIsSaid) {
  const absl::Status status = MakeNodeTransport({.listen = "tcp://name.invalid:0"}).status();
  EXPECT_EQ(status.message(),
            "cannot listen on tcp://name.invalid:0: that names no address of this machine");
}

TEST_F(NodeTransportTest, CloseDoesNotWaitLongerThanItsLinger) {
  auto lonely = Make({}, kZmqWorker);
  ASSERT_TRUE(lonely->Connect(kZmqServer, "tcp://127.0.0.1:1").ok());
  ASSERT_TRUE(lonely->Send(kZmqServer, ZmqPull(1)).ok());
  const SteadyTime before = SteadyNow();
  lonely->Close(absl::Milliseconds(100));
  EXPECT_LT(SteadyNow() - before, absl::Seconds(20));
}

TEST_F(NodeTransportTest, TheKernelCountsWhatWeCount) {
  Message push;
  push.type = MessageType::kPush;
  push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  for (const size_t size : {0, 1, 255, 256, 5'000'000}) {
    push.payload = {Buffer::CopyOf(std::string(size, 'x')), Buffer::CopyOf("abcd")};
    ASSERT_TRUE(worker_->Send(kZmqServer, push).ok());
    ASSERT_TRUE(server_->Receive(ZmqSoon()).has_value());
    ASSERT_TRUE(server_->Send(kZmqWorker, push).ok());
    ASSERT_TRUE(worker_->Receive(ZmqSoon()).has_value());
  }
  // The peer that ends first takes nothing away from the other's counters.
  worker_->Close(absl::Seconds(1));
  server_->Close(absl::Seconds(1));
  for (const Transport* transport : {worker_.get(), server_.get()}) {
    const TransportStats stats = transport->stats();
    EXPECT_EQ(stats.sockets.connections, 1u);
    // The server's "bye" may find a connection that has ended: given, and taken by nobody.
    const uint64_t bye = transport == server_.get() ? NumberedLinks::kNoteBytes + 2 : 0;
    EXPECT_LE(stats.sockets.taken_bytes, stats.sockets.given_bytes);
    EXPECT_GE(stats.sockets.taken_bytes + bye, stats.sockets.given_bytes);
    EXPECT_EQ(stats.sockets.given_bytes, stats.sent.total());
    EXPECT_GT(stats.sockets.taken_bytes, 5'000'000u);
  }
}

TEST_F(NodeTransportTest, WhatLingersIsCountedToo) {
  ExpectServes();
  Message push;
  push.type = MessageType::kPush;
  push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  push.payload = {Buffer::CopyOf<char>(std::vector<char>(20'000'000, 'x'))};
  ASSERT_TRUE(worker_->Send(kZmqServer, push).ok());
  std::thread closer([this] { worker_->Close(absl::Seconds(30)); });
  EXPECT_TRUE(server_->Receive(ZmqSoon()).has_value());
  server_->Receive(SteadyNow() + absl::Milliseconds(200));  // and says that it has it
  closer.join();
  const TransportStats stats = worker_->stats();
  EXPECT_EQ(stats.sockets.taken_bytes, stats.sockets.given_bytes);
  EXPECT_GT(stats.sockets.taken_bytes, 20'000'000u);
}

// ---- Connections that end

class EndedConnectionTest : public NodeTransportTest {
 protected:
  static constexpr Address kStill = {Role::kWorker, 1};
  static constexpr Address kScheduler = {Role::kScheduler, 0};

  void SetUp() override {}
  static Message Beat() {
    Message message;
    message.type = MessageType::kHeartbeat;
    return message;
  }
  void Open(bool shared_memory) {
    server_ = Make({.listen = "tcp://127.0.0.1:0", .shared_memory = shared_memory}, kScheduler);
    worker_ = Make({.shared_memory = shared_memory}, kZmqWorker);
    still_ = Make({.shared_memory = shared_memory}, kStill);
  }
  void Say(Transport* from) {
    EXPECT_TRUE(from->Connect(kScheduler, server_->endpoint()).ok());
    EXPECT_TRUE(from->Send(kScheduler, Beat()).ok());
    Hear(from);
  }
  void Hear(Transport* from) {
    const SteadyTime deadline = ZmqSoon();
    while (!server_->Receive(SteadyNow() + absl::Milliseconds(5)).has_value()) {
      ASSERT_LT(SteadyNow(), deadline);
      from->Receive(SteadyNow() + absl::Milliseconds(5));
    }
    from->Receive(SteadyNow() + absl::Milliseconds(50));  // that a link was taken
  }
  // Those that end until `node` has.
  std::vector<Address> EndedUntil(Address node) {
    std::vector<Address> all;
    const SteadyTime deadline = SteadyNow() + absl::Seconds(60);
    while (SteadyNow() < deadline) {
      for (const Address ended : server_->TakeEnded()) all.push_back(ended);
      if (std::find(all.begin(), all.end(), node) != all.end()) break;
      server_->Receive(SteadyNow() + absl::Milliseconds(5));
    }
    return all;
  }

  std::unique_ptr<Transport> still_;
};

TEST_F(EndedConnectionTest, IsSaidOfTheNodeThatSpokeByIt) {
  for (const bool shared_memory : {false, true}) {
    Open(shared_memory);
    Say(worker_.get());
    Say(still_.get());
    EXPECT_TRUE(server_->TakeEnded().empty());
    worker_.reset();
    EXPECT_EQ(EndedUntil(kZmqWorker), std::vector{kZmqWorker}) << shared_memory;
    // Of a link also that its process has ended.
    for (const Address ended : server_->TakeEnded()) EXPECT_EQ(ended, kZmqWorker);
  }
}

// As of one that is killed when its Hello has been read.
TEST_F(EndedConnectionTest, IsSaidOfOneWithoutARank) {
  for (const bool shared_memory : {false, true}) {
    Open(shared_memory);
    const Address temporary = Address::Temporary(Role::kWorker, 5);
    worker_->SetSelf(temporary);
    worker_->SetSession(0);
    EXPECT_TRUE(worker_->Connect(kScheduler, server_->endpoint()).ok());
    Message hello;
    hello.type = MessageType::kHello;
    hello.body = wire::Hello{.role = Role::kWorker, .nonce = 5};
    EXPECT_TRUE(worker_->Send(kScheduler, hello).ok());
    Hear(worker_.get());
    worker_.reset();
    EXPECT_EQ(EndedUntil(temporary), std::vector{temporary}) << shared_memory;
  }
}

// Who has ended does not live for what it said before: each message of it says so again.
TEST_F(EndedConnectionTest, IsSaidAgainWithWhatIsReadAfterIt) {
  Open(false);
  Say(worker_.get());
  for (int sent = 0; sent < 2; ++sent) EXPECT_TRUE(worker_->Send(kScheduler, Beat()).ok());
  worker_->Close(absl::Milliseconds(200));
  worker_.reset();
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_EQ(server_->TakeEnded(), std::vector{kZmqWorker});
  int read = 0;
  while (server_->Receive(SteadyNow() + absl::Milliseconds(200)).has_value()) {
    const std::vector<Address> ended = server_->TakeEnded();
    EXPECT_TRUE(std::count(ended.begin(), ended.end(), kZmqWorker) > 0) << read;
    ++read;
  }
  EXPECT_EQ(read, 2);
}

// It ends before anything of it is read, and another connection has its descriptor by then.
TEST_F(EndedConnectionTest, IsSaidOfOneWhoseDescriptorAnotherHasBeforeItIsRead) {
  Open(false);
  EXPECT_TRUE(worker_->Connect(kScheduler, server_->endpoint()).ok());
  EXPECT_TRUE(worker_->Send(kScheduler, Beat()).ok());
  worker_->Close(absl::Milliseconds(200));
  worker_.reset();
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_TRUE(still_->Connect(kScheduler, server_->endpoint()).ok());
  EXPECT_TRUE(still_->Send(kScheduler, Beat()).ok());
  still_->Receive(SteadyNow() + absl::Milliseconds(200));
  bool read = false;
  const SteadyTime deadline = ZmqSoon();
  while (!read && SteadyNow() < deadline) {
    const auto message = server_->Receive(SteadyNow() + absl::Milliseconds(5));
    const std::vector<Address> ended = server_->TakeEnded();
    if (!message.has_value() || message->from != kZmqWorker) continue;
    read = true;
    EXPECT_TRUE(std::count(ended.begin(), ended.end(), kZmqWorker) > 0);
  }
  EXPECT_TRUE(read);
}

// libzmq gives the descriptor to the next connection: what ended before it was heard is not its
// end.
TEST_F(EndedConnectionTest, IsNotThatOfWhoHasItsDescriptorNow) {
  Open(false);
  Say(worker_.get());
  worker_.reset();
  absl::SleepFor(absl::Milliseconds(200));  // the descriptor is free
  Say(still_.get());
  EXPECT_EQ(EndedUntil(kZmqWorker), std::vector{kZmqWorker});
  EXPECT_TRUE(server_->TakeEnded().empty());
}

}  // namespace
}  // namespace soapstone::transport
