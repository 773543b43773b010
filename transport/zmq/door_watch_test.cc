// Strangers at the port of a node, with sockets of their own.
#include "transport/zmq/door_watch.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "base/random.h"
#include "base/steady_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/node/node_transport.h"
#include "transport/tcp/handshake.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint64_t kDoorSession = 77;
constexpr Address kDoorServer = {Role::kServer, 0};
constexpr Address kDoorWorker = {Role::kWorker, 0};

SteadyTime DoorSoon() { return SteadyNow() + absl::Seconds(60); }

// A connection that speaks as a DEALER, by hand.
class ByHand {
 public:
  static int PortOf(const std::string& endpoint) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port));
    return port;
  }
  explicit ByHand(const std::string& endpoint) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int port = PortOf(endpoint);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  ~ByHand() { close(fd_); }
  ByHand(const ByHand&) = delete;
  ByHand& operator=(const ByHand&) = delete;

  void Greet() const {
    std::string bytes("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16);
    bytes.resize(64, '\0');
    EXPECT_TRUE(Say(bytes));
    char greeting[64];
    EXPECT_EQ(recv(fd_, greeting, sizeof(greeting), MSG_WAITALL), 64);
    EXPECT_TRUE(Say(std::string("\4\x1c\5READY\x0bSocket-Type\0\0\0\6DEALER", 30)));
  }
  bool Say(const std::string& bytes) const {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  static std::string Frame(const std::string& body, bool more) {
    return std::string(1, more ? '\1' : '\0') + static_cast<char>(body.size()) + body;
  }
  // Says it again and again until it is sent away, or `bytes_max` were said.
  bool IsSentAway(const std::string& bytes, uint64_t bytes_max) const {
    for (uint64_t said = 0; said < bytes_max; said += bytes.size()) {
      if (!Say(bytes)) return true;
    }
    return false;
  }
  // Whether the other side takes no more of it, but does not end it.
  bool IsHeldUp(const std::string& bytes) const {
    const timeval wait = {.tv_sec = 1, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
    const bool sent_away = IsSentAway(bytes, uint64_t{1} << 32);
    return sent_away && (errno == EAGAIN || errno == EINPROGRESS);
  }
  // Whether the other side ends it soon.
  bool HasEnded() const {
    char byte[64];
    const timeval wait = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
    ssize_t got = 0;
    do {
      got = recv(fd_, byte, sizeof(byte), 0);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
  }

 private:
  int fd_;
};

class DoorWatchTest : public testing::Test {
 protected:
  // So that who is held is soon ended, which this side can see.
  static constexpr DoorLimits kImpatient = {.patience = absl::Milliseconds(200)};

  void SetUp() override { Open(kImpatient); }

  void Open(DoorLimits limits) {
    server_ = Make({.listen = "tcp://127.0.0.1:0", .door = limits}, kDoorServer);
  }
  static std::unique_ptr<Transport> Make(const ZmqOptions& options, Address self) {
    absl::StatusOr<std::unique_ptr<Transport>> made = MakeNodeTransport(options);
    EXPECT_TRUE(made.ok()) << made.status();
    (*made)->SetSelf(self);
    (*made)->SetSession(kDoorSession);
    return *std::move(made);
  }
  static Message PushOf(size_t bytes) {
    Message push;
    push.type = MessageType::kPush;
    push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
    push.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
    return push;
  }

  // So many more messages come, while both sides look.
  void ExpectAll(Transport* worker, int count) {
    const SteadyTime deadline = DoorSoon();
    while (count > 0 && SteadyNow() < deadline) {
      if (server_->Receive(SteadyNow() + absl::Milliseconds(2)).has_value()) --count;
      worker->Receive(SteadyNow() + absl::Milliseconds(2));
    }
    ASSERT_EQ(count, 0);
  }
  // Shuts this process' ends of them down, as what is between two machines might; how many.
  static int BreakConnectionsTo(const std::string& endpoint) {
    int broken = 0;
    for (int fd = 0; fd < 1024; ++fd) {
      sockaddr_in peer = {};
      socklen_t size = sizeof(peer);
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
      if (peer.sin_family == AF_INET && ntohs(peer.sin_port) == ByHand::PortOf(endpoint)) {
        broken += shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
      }
    }
    return broken;
  }

  std::unique_ptr<Transport> server_;
};

TEST_F(DoorWatchTest, AMessageWithoutAnEndIsEnded) {
  const ByHand stranger(server_->endpoint());
  stranger.Greet();
  std::string more;
  for (int i = 0; i < 1000; ++i) more += ByHand::Frame("", true);
  // Nobody reads at the server.
  EXPECT_TRUE(stranger.IsSentAway(more, uint64_t{1} << 32));
  EXPECT_EQ(server_->stats().strangers, 1u);
}

TEST_F(DoorWatchTest, WholeMessagesThatNobodyReadsAreEnded) {
  const ByHand stranger(server_->endpoint());
  stranger.Greet();
  std::string messages;
  for (int i = 0; i < 100; ++i) messages += ByHand::Frame("not of this job", false);
  EXPECT_TRUE(stranger.IsSentAway(messages, uint64_t{1} << 32));
  EXPECT_EQ(server_->stats().strangers, 1u);
}

TEST_F(DoorWatchTest, GarbageInThePlaceOfAGreetingIsEnded) {
  const ByHand stranger(server_->endpoint());
  EXPECT_TRUE(stranger.IsSentAway(std::string(1000, 'x'), uint64_t{1} << 32));
}

TEST_F(DoorWatchTest, AFrameLargerThanTheJobsIsEnded) {
  server_->Close(absl::ZeroDuration());
  server_ = Make({.listen = "tcp://127.0.0.1:0",
                  .frame_limits = {.header_bytes_max = 4096, .frame_bytes_max = 4096}},
                 kDoorServer);
  const ByHand stranger(server_->endpoint());
  stranger.Greet();
  EXPECT_TRUE(stranger.Say(std::string("\2\0\0\0\0\0\0\x10\1", 9)));  // 4097 bytes
  EXPECT_TRUE(stranger.HasEnded());
}

TEST_F(DoorWatchTest, TheOldestOfTooManyIsEnded) {
  server_->Close(absl::ZeroDuration());
  Open({.connections_max = 2, .ends_max = 1});
  const ByHand first(server_->endpoint());
  const ByHand second(server_->endpoint());
  const ByHand third(server_->endpoint());
  EXPECT_TRUE(first.HasEnded());
  EXPECT_EQ(server_->stats().strangers, 1u);
}

TEST_F(DoorWatchTest, MembersSendWhatTheyLike) {
  server_->Close(absl::ZeroDuration());
  Open({.connections_max = 4, .ends_max = 1});
  auto worker = Make({}, kDoorWorker);
  ASSERT_TRUE(worker->Connect(kDoorServer, server_->endpoint()).ok());
  for (int i = 0; i < 20; ++i) {
    const ByHand stranger(server_->endpoint());
    stranger.Greet();
    ASSERT_TRUE(worker->Send(kDoorServer, PushOf(5'000'000)).ok());
    const std::optional<Message> push = server_->Receive(DoorSoon());
    ASSERT_TRUE(push.has_value());
    EXPECT_EQ(push->payload[0].size(), 5'000'000u);
  }
}

TEST_F(DoorWatchTest, WhoSentTooMuchIsHeldAndNotEndedBefore) {
  server_->Close(absl::ZeroDuration());
  Open({.patience = absl::Hours(1)});
  const ByHand stranger(server_->endpoint());
  stranger.Greet();
  EXPECT_TRUE(stranger.IsHeldUp(ByHand::Frame("not of this job", false)));
  const SteadyTime deadline = DoorSoon();
  while (server_->stats().strangers == 0 && SteadyNow() < deadline) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(server_->stats().strangers, 1u);
}

// Far more than may be said unproven waits at the member.
TEST_F(DoorWatchTest, AMemberThatComesAgainIsNoStranger) {
  server_->Close(absl::ZeroDuration());
  Open({});
  auto worker = Make({}, kDoorWorker);
  ASSERT_TRUE(worker->Connect(kDoorServer, server_->endpoint()).ok());
  for (int i = 0; i < 5; ++i) {
    for (int j = 0; j < 3; ++j) ASSERT_TRUE(worker->Send(kDoorServer, PushOf(5'000'000)).ok());
    ASSERT_NO_FATAL_FAILURE(ExpectAll(worker.get(), 1));
    EXPECT_GT(BreakConnectionsTo(server_->endpoint()), 0);
    ASSERT_NO_FATAL_FAILURE(ExpectAll(worker.get(), 2));
  }
  EXPECT_EQ(server_->stats().strangers, 0u);
}

// At any moment: also while the connection before is still being closed.
TEST_F(DoorWatchTest, AMemberComesAgainHoweverOftenItsConnectionBreaks) {
  server_->Close(absl::ZeroDuration());
  Open({});
  auto worker = Make({}, kDoorWorker);
  ASSERT_TRUE(worker->Connect(kDoorServer, server_->endpoint()).ok());
  const CounterRandom random(1, RandomUse::kTest, 1);
  int broken = 0;
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(worker->Send(kDoorServer, PushOf(100)).ok());
    ASSERT_NO_FATAL_FAILURE(ExpectAll(worker.get(), 1));
    broken += BreakConnectionsTo(server_->endpoint());
    const SteadyTime until = SteadyNow() + absl::Milliseconds(random.Below(i, 120));
    while (SteadyNow() < until) {
      worker->Receive(SteadyNow() + absl::Milliseconds(1));
      server_->Receive(SteadyNow() + absl::Milliseconds(1));
    }
  }
  EXPECT_GT(broken, 25);
}

TEST_F(DoorWatchTest, AMemberComesAgainWhileTheDoorIsShut) {
  server_->Close(absl::ZeroDuration());
  Open({});
  auto worker = Make({}, kDoorWorker);
  ASSERT_TRUE(worker->Connect(kDoorServer, server_->endpoint()).ok());
  ASSERT_TRUE(worker->Send(kDoorServer, PushOf(5'000'000)).ok());
  ExpectAll(worker.get(), 1);
  // More than a quarter of those that there may be.
  for (int i = 0; i < 40; ++i) {
    const ByHand stranger(server_->endpoint());
    stranger.Say(std::string(9, '\x02'));
  }
  ASSERT_TRUE(worker->Send(kDoorServer, PushOf(5'000'000)).ok());
  EXPECT_GT(BreakConnectionsTo(server_->endpoint()), 0);
  ExpectAll(worker.get(), 1);
  EXPECT_EQ(server_->stats().strangers, 0u);
}

// Some hundred empty connections a second take the places of the unproven sooner than TCP says
// again what a newcomer said to a door that was shut (200 ms).
TEST_F(DoorWatchTest, ANewcomerIsHeardWhileManyConnectAndSayNothing) {
  server_->Close(absl::ZeroDuration());
  Open({});
  std::atomic<bool> over = false;
  std::thread strangers([&] {
    std::deque<std::unique_ptr<ByHand>> there;
    while (!over) {
      there.push_back(std::make_unique<ByHand>(server_->endpoint()));
      if (there.size() > 300) there.pop_front();
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  // So that the door is shut.
  const SteadyTime until = SteadyNow() + absl::Seconds(1);
  while (SteadyNow() < until) server_->Receive(SteadyNow() + absl::Milliseconds(1));
  EXPECT_GT(server_->stats().strangers, 16u);
  auto worker = Make({}, kDoorWorker);
  ASSERT_TRUE(worker->Connect(kDoorServer, server_->endpoint()).ok());
  ASSERT_TRUE(worker->Send(kDoorServer, PushOf(100)).ok());
  ExpectAll(worker.get(), 1);
  over = true;
  strangers.join();
}

TEST_F(DoorWatchTest, AHelloIsNoProof) {
  server_->Close(absl::ZeroDuration());
  server_ = Make({.listen = "tcp://127.0.0.1:0", .door = kImpatient}, Address::Scheduler());
  const ByHand stranger(server_->endpoint());
  stranger.Greet();
  Message hello;
  hello.type = MessageType::kHello;
  hello.from = Address::Temporary(Role::kWorker, 1);
  hello.body = wire::Hello{.role = Role::kWorker};
  // With the trailer of a session: the first message of somebody.
  const uint64_t trailer[] = {uint64_t{1} << 32 | 0x4C525453, 1, 7, 0, 0};
  const std::string frame =
      ByHand::Frame(wire::EncodeHeader(hello, hello.from) +
                        std::string(reinterpret_cast<const char*>(trailer), sizeof(trailer)),
                    false);
  ASSERT_TRUE(stranger.Say(frame));
  ASSERT_TRUE(server_->Receive(DoorSoon()).has_value());
  EXPECT_TRUE(stranger.IsSentAway(frame, uint64_t{1} << 32));
}

// Of two that are unproven one would be ended by chance for each stranger that greets.
TEST_F(DoorWatchTest, AHelloThatIsWelcomedIsAProof) {
  server_->Close(absl::ZeroDuration());
  server_ =
      Make({.listen = "tcp://127.0.0.1:0", .door = {.connections_max = 1}}, Address::Scheduler());
  const Address newcomer = Address::Temporary(Role::kWorker, 1);
  absl::StatusOr<std::unique_ptr<Transport>> made = MakeNodeTransport({});
  ASSERT_TRUE(made.ok());
  Transport* const worker = made->get();
  worker->SetSelf(newcomer);
  ASSERT_TRUE(worker->Connect(Address::Scheduler(), server_->endpoint()).ok());
  Message hello;
  hello.type = MessageType::kHello;
  hello.from = newcomer;
  hello.body = wire::Hello{.role = Role::kWorker, .nonce = 1};
  ASSERT_TRUE(worker->Send(Address::Scheduler(), hello).ok());
  ASSERT_TRUE(server_->Receive(DoorSoon()).has_value());
  Message welcome;
  welcome.type = MessageType::kWelcome;
  welcome.from = Address::Scheduler();
  welcome.body = wire::Welcome{.rank = 0, .nonce = 1};
  ASSERT_TRUE(server_->Send(newcomer, welcome).ok());
  std::deque<ByHand> strangers;
  const SteadyTime deadline = DoorSoon();
  while (server_->stats().strangers < 30) {
    ASSERT_LT(SteadyNow(), deadline);
    strangers.emplace_back(server_->endpoint()).Say("\xff");  // of a greeting
    server_->Receive(SteadyNow() + absl::Milliseconds(5));
  }
  EXPECT_THAT(server_->TakeEnded(), testing::Not(testing::Contains(newcomer)));
  EXPECT_TRUE(worker->Receive(DoorSoon()).has_value());
}

}  // namespace
}  // namespace soapstone::transport
