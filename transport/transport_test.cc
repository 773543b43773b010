// What every Transport does. No test sleeps: each waits for a message or a counter, to a deadline.
#include "transport/transport.h"

#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/inproc_transport.h"
#include "transport/node/node_transport.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr int kQueueMax = 6000;
constexpr uint64_t kSession = 77;
constexpr Address kServer0 = {Role::kServer, 0};
constexpr Address kWorker0 = {Role::kWorker, 0};
constexpr Address kWorker1 = {Role::kWorker, 1};

SteadyTime Soon() { return SteadyNow() + kPatience; }

Message Pull(Clock clock) {
  Message message;
  message.type = MessageType::kPull;
  message.body = wire::Pull{};
  message.clock = clock;
  return message;
}

enum class Kind { kTcp, kStreams, kIpc, kShared, kInproc, kInprocEncoded };

bool IsZmq(Kind kind) { return kind != Kind::kInproc && kind != Kind::kInprocEncoded; }

class TransportTest : public testing::TestWithParam<Kind> {
 protected:
  ~TransportTest() override {
    for (const std::string& path : paths_) unlink(path.c_str());
  }

  // A fresh endpoint; over tcp, the system chooses the port.
  std::string AnyEndpoint() {
    static std::atomic<int> next = 0;
    const std::string name = absl::StrCat("soapstone-test-", getpid(), "-", next++);
    if (IsZmq(GetParam()) && GetParam() != Kind::kIpc) return "tcp://127.0.0.1:0";
    if (GetParam() == Kind::kIpc) {
      paths_.push_back(absl::StrCat(testing::TempDir(), name));
      return absl::StrCat("ipc://", paths_.back());
    }
    return absl::StrCat("inproc://", name);
  }

  // Listens nowhere when `endpoint` is empty. A node with an address and the session.
  std::unique_ptr<Transport> Make(const std::string& endpoint, Address self,
                                  uint64_t session = kSession) {
    absl::StatusOr<std::unique_ptr<Transport>> made =
        IsZmq(GetParam()) ? MakeNodeTransport({.listen = endpoint,
                                               .shared_memory = GetParam() == Kind::kShared,
                                               .streams = GetParam() == Kind::kStreams,
                                               .queue_messages_max = kQueueMax})
                          : network_.Join(endpoint);
    EXPECT_TRUE(made.ok()) << made.status();
    (*made)->SetSelf(self);
    (*made)->SetSession(session);
    return *std::move(made);
  }
  std::unique_ptr<Transport> Listen(Address self) { return Make(AnyEndpoint(), self); }
  std::unique_ptr<Transport> Dial(Address self, Address peer, const std::string& endpoint,
                                  uint64_t session = kSession) {
    std::unique_ptr<Transport> transport = Make("", self, session);
    EXPECT_TRUE(transport->Connect(peer, endpoint).ok());
    return transport;
  }

  // By a worker, to a server that will listen at `*endpoint`.
  std::unique_ptr<Transport> SendToNobodyYet(std::string* endpoint, const Message& message) {
    *endpoint = Listen(kServer0)->endpoint();
    auto worker = Dial(kWorker0, kServer0, *endpoint);
    EXPECT_TRUE(worker->Send(kServer0, message).ok());
    return worker;
  }

  std::vector<std::string> paths_;  // of ipc; libzmq leaves them behind
  InprocNetwork network_{
      {.queue_messages_max = kQueueMax, .encode = GetParam() == Kind::kInprocEncoded}};
};

TEST_P(TransportTest, MessagesArriveInTheOrderSent) {
  auto server = Listen(kServer0);
  auto first = Dial(kWorker0, kServer0, server->endpoint());
  auto second = Dial(kWorker1, kServer0, server->endpoint());
  constexpr Clock kCount = 2000;
  for (Clock clock = 0; clock < kCount; ++clock) {
    ASSERT_TRUE(first->Send(kServer0, Pull(clock)).ok());
    ASSERT_TRUE(second->Send(kServer0, Pull(clock)).ok());
  }
  Clock next[2] = {0, 0};
  while (next[0] < kCount || next[1] < kCount) {
    const std::optional<Message> message = server->Receive(Soon());
    ASSERT_TRUE(message.has_value()) << next[0] << " " << next[1];
    ASSERT_EQ(message->clock, next[message->from.index]++);
  }
  EXPECT_EQ(server->stats().received_messages, 2u * kCount);
}

TEST_P(TransportTest, LargePayloadsArriveBitForBit) {
  auto server = Listen(kServer0);
  auto worker = Dial(kWorker0, kServer0, server->endpoint());
  const CounterRandom random(3, RandomUse::kTest);
  Message push;
  push.type = MessageType::kPush;
  push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  for (size_t words :
       {size_t{0}, size_t{1}, size_t{7}, size_t{500}, size_t{2049}, size_t{4} << 20}) {
    std::vector<uint32_t> values(words);
    for (size_t i = 0; i < words; ++i) values[i] = static_cast<uint32_t>(random.Bits(i));
    push.payload.push_back(Buffer::CopyOf(absl::MakeConstSpan(values)));
  }
  push.payload.push_back(Buffer::CopyOf("odd"));
  ASSERT_TRUE(worker->Send(kServer0, push).ok());
  const std::optional<Message> received = server->Receive(Soon());
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->payload == push.payload);
  for (size_t i = 0; i + 1 < received->payload.size(); ++i) {
    EXPECT_TRUE(received->payload[i].IsFloatAligned()) << "frame " << i;
  }
  EXPECT_GE(server->stats().received.push, push.payload_bytes());
}

TEST_P(TransportTest, PayloadOutlivesTheTransports) {
  std::optional<Message> received;
  {
    auto server = Listen(kServer0);
    auto worker = Dial(kWorker0, kServer0, server->endpoint());
    Message push;
    push.type = MessageType::kPush;
    push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
    push.payload = {Buffer::CopyOf(std::string(100'000, 'x'))};
    ASSERT_TRUE(worker->Send(kServer0, push).ok());
    received = server->Receive(Soon());
  }
  ASSERT_TRUE(received.has_value());
  EXPECT_TRUE(received->payload[0] == Buffer::CopyOf(std::string(100'000, 'x')));
}

TEST_P(TransportTest, AnswersByTheRouteLearned) {
  auto server = Listen(kServer0);
  auto first = Dial(kWorker0, kServer0, server->endpoint());
  auto second = Dial(kWorker1, kServer0, server->endpoint());
  ASSERT_TRUE(first->Send(kServer0, Pull(1)).ok());
  ASSERT_TRUE(second->Send(kServer0, Pull(2)).ok());
  for (int i = 0; i < 2; ++i) {
    const std::optional<Message> request = server->Receive(Soon());
    ASSERT_TRUE(request.has_value());
    Message reply;
    reply.type = MessageType::kPullReply;
    reply.body = wire::PullReply{};
    reply.from = Address::Of(ShardId{0});
    reply.clock = request->clock;
    ASSERT_TRUE(server->Send(request->from, reply).ok());
  }
  for (Transport* worker : {first.get(), second.get()}) {
    const std::optional<Message> reply = worker->Receive(Soon());
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->from, Address::Of(ShardId{0}));
    EXPECT_EQ(reply->clock, worker == first.get() ? 1 : 2);
  }
}

TEST_P(TransportTest, TemporaryAddressGivesWayToTheRank) {
  auto scheduler = Listen(Address::Scheduler());
  const Address temporary = Address::Temporary(Role::kWorker, 0xABCDEF0123456789u);
  auto worker = Dial(temporary, Address::Scheduler(), scheduler->endpoint(), 0);

  Message hello;
  hello.type = MessageType::kHello;
  hello.body = wire::Hello{.role = Role::kWorker, .nonce = 5};
  ASSERT_TRUE(worker->Send(Address::Scheduler(), hello).ok());
  const std::optional<Message> asked = scheduler->Receive(Soon());
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->from, temporary);

  Message welcome;
  welcome.type = MessageType::kWelcome;
  welcome.body = wire::Welcome{.rank = 1, .nonce = 5};
  ASSERT_TRUE(scheduler->Send(asked->from, welcome).ok());
  const std::optional<Message> welcomed = worker->Receive(Soon());
  ASSERT_TRUE(welcomed.has_value());
  EXPECT_EQ(welcomed->session, kSession);
  EXPECT_FALSE(scheduler->Send(kWorker1, Pull(0)).ok()) << "the rank is not known there yet";

  worker->SetSession(welcomed->session);
  worker->SetSelf(kWorker1);
  Message heartbeat;
  heartbeat.type = MessageType::kHeartbeat;
  heartbeat.from = temporary;  // as an actor would that was set up before the rank was known
  ASSERT_TRUE(worker->Send(Address::Scheduler(), heartbeat).ok());
  const std::optional<Message> beat = scheduler->Receive(Soon());
  ASSERT_TRUE(beat.has_value());
  EXPECT_EQ(beat->from, kWorker1);
  Message start;
  start.type = MessageType::kStart;
  ASSERT_TRUE(scheduler->Send(kWorker1, start).ok());
  ASSERT_TRUE(worker->Receive(Soon()).has_value());
}

TEST_P(TransportTest, ServersMessagesTeachTheServersRoute) {
  auto scheduler = Listen(Address::Scheduler());
  auto server = Dial(kServer0, Address::Scheduler(), scheduler->endpoint());
  Message ack;
  ack.type = MessageType::kRosterAck;
  ack.from = Address::Of(ShardId{1});
  ASSERT_TRUE(server->Send(Address::Scheduler(), ack).ok());
  const std::optional<Message> received = scheduler->Receive(Soon());
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->from, Address::Of(ShardId{1}));
  Message save;
  save.type = MessageType::kSave;
  save.body = wire::Save{};
  save.to = Address::Of(ShardId{1});
  ASSERT_TRUE(scheduler->Send(kServer0, save).ok());
  const std::optional<Message> asked = server->Receive(Soon());
  ASSERT_TRUE(asked.has_value());
  EXPECT_EQ(asked->to, Address::Of(ShardId{1}));
}

TEST_P(TransportTest, MessagesWaitForTheListener) {
  std::string endpoint;
  auto worker = SendToNobodyYet(&endpoint, Pull(4));
  auto server = Make(endpoint, kServer0);
  std::optional<Message> message;
  for (const SteadyTime end = Soon(); !message.has_value() && SteadyNow() < end;) {
    EXPECT_FALSE(worker->Receive(SteadyNow() + absl::Milliseconds(5)).has_value());
    message = server->Receive(SteadyNow() + absl::Milliseconds(5));
  }
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->clock, 4);
}

// And though its sender leaves meanwhile, which it does as fast as all is taken.
TEST_P(TransportTest, MessagesOfOneThatLeavesWaitForTheListener) {
  std::string endpoint;
  auto worker = SendToNobodyYet(&endpoint, Pull(4));
  std::thread leaver([&] { worker->Close(kPatience); });
  absl::SleepFor(absl::Milliseconds(300));
  auto server = Make(endpoint, kServer0);
  const std::optional<Message> message = server->Receive(Soon());
  // Acknowledged by who turns.
  EXPECT_FALSE(server->Receive(SteadyNow() + absl::Milliseconds(50)).has_value());
  leaver.join();
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->clock, 4);
}

TEST_P(TransportTest, WakeEndsAReceiveInProgress) {
  auto node = Listen(kServer0);
  const SteadyTime before = SteadyNow();
  std::thread receiver([&] { EXPECT_FALSE(node->Receive(Soon()).has_value()); });
  node->Wake();
  receiver.join();
  EXPECT_LT(SteadyNow() - before, kPatience);
}

TEST_P(TransportTest, WakeIsNotLostBetweenReceives) {
  auto node = Listen(kServer0);
  node->Wake();
  node->Wake();
  EXPECT_FALSE(node->Receive(SteadyTime::InfiniteFuture()).has_value());
  // Both are answered: the next one waits until its deadline.
  const SteadyTime deadline = SteadyNow() + absl::Milliseconds(20);
  EXPECT_FALSE(node->Receive(deadline).has_value());
  EXPECT_GE(SteadyNow(), deadline);
}

TEST_P(TransportTest, ReceiveEndsAtItsDeadline) {
  auto node = Listen(kServer0);
  EXPECT_FALSE(node->Receive(SteadyTime::InfinitePast()).has_value());
  const SteadyTime deadline = SteadyNow() + absl::Milliseconds(30);
  EXPECT_FALSE(node->Receive(deadline).has_value());
  EXPECT_GE(SteadyNow(), deadline);
}

TEST_P(TransportTest, FullQueueIsAnErrorNotAWait) {
  auto gone = Listen(kServer0);
  const std::string endpoint = gone->endpoint();
  gone.reset();
  auto worker = Dial(kWorker0, kServer0, endpoint);
  absl::Status status;
  int sent = 0;
  while (status.ok() && sent <= kQueueMax) {
    status = worker->Send(kServer0, Pull(0));
    if (status.ok()) ++sent;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  // The note Here, and what asks for a stream, are messages too.
  EXPECT_EQ(sent, kQueueMax - (IsZmq(GetParam()) ? 1 : 0) - (GetParam() == Kind::kStreams ? 1 : 0));
  EXPECT_EQ(worker->stats().dropped_messages, 1u);
}

TEST_P(TransportTest, FullAnswerQueueIsAnErrorNotAWait) {
  auto server = Listen(kServer0);
  auto worker = Dial(kWorker0, kServer0, server->endpoint());
  ASSERT_TRUE(worker->Send(kServer0, Pull(0)).ok());
  ASSERT_TRUE(server->Receive(Soon()).has_value());
  Message reply;
  reply.type = MessageType::kPullReply;
  reply.body = wire::PullReply{};
  reply.payload = {Buffer::CopyOf(std::string(10'000, 'x'))};
  absl::Status status;
  const SteadyTime deadline = Soon();
  while (status.ok() && SteadyNow() < deadline) status = server->Send(kWorker0, reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  // What is unread is taken first: over tcp, LeakSanitizer finds libzmq 4.3.4's decoder buffer
  // (18,160 bytes) lost where a socket is closed with much unread. Nothing of ours refers to it: a
  // frame that was handed out would be found with it, as reachable or as lost.
  while (worker->Receive(SteadyNow() + absl::Milliseconds(100)).has_value()) {
  }
}

TEST_P(TransportTest, CloseHandsOverWhatIsQueued) {
  auto server = Listen(kServer0);
  auto worker = Dial(kWorker0, kServer0, server->endpoint());
  constexpr int kCount = 1000;
  for (int i = 0; i < kCount; ++i) ASSERT_TRUE(worker->Send(kServer0, Pull(i)).ok());
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    worker->Close(kPatience);
    closed = true;
  });
  for (int i = 0; i < kCount; ++i) {
    const std::optional<Message> message = server->Receive(Soon());
    ASSERT_TRUE(message.has_value());
    ASSERT_EQ(message->clock, i);
  }
  // It may be over only when the server has them in hand.
  while (!closed) EXPECT_FALSE(server->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
  closer.join();
  EXPECT_FALSE(worker->Send(kServer0, Pull(0)).ok());
  EXPECT_FALSE(worker->Receive(Soon()).has_value());
}

TEST_P(TransportTest, AnotherSessionIsRejectedAndCounted) {
  auto server = Listen(kServer0);
  auto stranger = Dial(kWorker0, kServer0, server->endpoint(), kSession + 1);
  auto worker = Dial(kWorker1, kServer0, server->endpoint());
  ASSERT_TRUE(stranger->Send(kServer0, Pull(1)).ok());
  const SteadyTime deadline = Soon();
  while (server->stats().rejected_messages == 0 && SteadyNow() < deadline) {
    EXPECT_FALSE(server->Receive(SteadyNow() + absl::Milliseconds(10)).has_value());
  }
  EXPECT_GE(server->stats().rejected_messages, 1u);  // what asks for a stream is rejected too
  EXPECT_FALSE(server->Send(kWorker0, Pull(1)).ok()) << "a rejected message teaches no route";
  ASSERT_TRUE(worker->Send(kServer0, Pull(2)).ok());
  const std::optional<Message> message = server->Receive(Soon());
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->clock, 2);
}

TEST_P(TransportTest, NoRouteIsNotFound) {
  auto server = Listen(kServer0);
  EXPECT_EQ(server->Send(kWorker0, Pull(0)).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(server->stats().dropped_messages, 1u);
}

TEST_P(TransportTest, EndpointInUseSaysSo) {
  auto server = Listen(kServer0);
  const absl::Status status = IsZmq(GetParam())
                                  ? MakeNodeTransport({.listen = server->endpoint()}).status()
                                  : network_.Join(server->endpoint()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  EXPECT_EQ(status.message().find("address in use: " + server->endpoint()), 0u) << status;
}

TEST_P(TransportTest, ConnectAgainReplacesTheRoute) {
  auto old_server = Listen(kServer0);
  auto new_server = Listen(kServer0);
  auto worker = Dial(kWorker0, kServer0, old_server->endpoint());
  ASSERT_TRUE(worker->Connect(kServer0, new_server->endpoint()).ok());
  ASSERT_TRUE(worker->Send(kServer0, Pull(6)).ok());
  ASSERT_TRUE(new_server->Receive(Soon()).has_value());
  EXPECT_FALSE(old_server->Receive(SteadyTime::InfinitePast()).has_value());
}

TEST_P(TransportTest, NodesOnThreadsTalk) {
  auto server = Listen(kServer0);
  constexpr uint32_t kWorkers = 4;
  constexpr Clock kClocks = 300;
  std::vector<std::thread> threads;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w, endpoint = server->endpoint()] {
      auto worker = Dial(Address::Of(WorkerId{w}), kServer0, endpoint);
      for (Clock clock = 0; clock < kClocks; ++clock) {
        ASSERT_TRUE(worker->Send(kServer0, Pull(clock)).ok());
        const std::optional<Message> reply = worker->Receive(Soon());
        ASSERT_TRUE(reply.has_value());
        ASSERT_EQ(reply->clock, clock);
      }
    });
  }
  for (uint64_t i = 0; i < kWorkers * kClocks; ++i) {
    const std::optional<Message> request = server->Receive(Soon());
    ASSERT_TRUE(request.has_value());
    Message reply;
    reply.type = MessageType::kPullReply;
    reply.body = wire::PullReply{};
    reply.clock = request->clock;
    reply.payload = {Buffer::CopyOf("parameters")};
    ASSERT_TRUE(server->Send(request->from, reply).ok());
  }
  EXPECT_FALSE(server->Receive(SteadyTime::InfinitePast()).has_value());  // the last answer leaves
  for (std::thread& thread : threads) thread.join();
}

std::string NameOf(const testing::TestParamInfo<Kind>& info) {
  switch (info.param) {
    case Kind::kShared:
      return "Shared";
    case Kind::kTcp:
      return "Tcp";
    case Kind::kStreams:
      return "Streams";
    case Kind::kIpc:
      return "Ipc";
    case Kind::kInproc:
      return "Inproc";
    case Kind::kInprocEncoded:
      return "InprocEncoded";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(All, TransportTest,
                         testing::Values(Kind::kTcp, Kind::kStreams, Kind::kIpc, Kind::kShared,
                                         Kind::kInproc, Kind::kInprocEncoded),
                         NameOf);

}  // namespace
}  // namespace soapstone::transport
