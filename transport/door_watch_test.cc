// Strangers at the port of a node, with sockets of their own.
#include "transport/door_watch.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "transport/stream_note.h"
#include "transport/zmq_transport.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint64_t kDoorSession = 77;
constexpr Address kDoorServer = {Role::kServer, 0};
constexpr Address kDoorWorker = {Role::kWorker, 0};

absl::Time DoorSoon() { return absl::Now() + absl::Seconds(60); }

// A connection that speaks as a DEALER, by hand.
class ByHand {
 public:
  explicit ByHand(const std::string& endpoint) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    int port = 0;
    EXPECT_TRUE(absl::SimpleAtoi(endpoint.substr(endpoint.rfind(':') + 1), &port));
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
  static constexpr DoorLimits kNarrow = {.bytes_max = 64 << 10, .total_bytes_max = 1 << 20};

  void SetUp() override { Open(kNarrow); }

  void Open(DoorLimits limits) {
    server_ = Make({.listen = "tcp://127.0.0.1:0", .door = limits}, kDoorServer);
  }
  static std::unique_ptr<Transport> Make(const ZmqOptions& options, Address self) {
    absl::StatusOr<std::unique_ptr<Transport>> made = MakeZmqTransport(options);
    EXPECT_TRUE(made.ok()) << made.status();
    (*made)->SetSelf(self);
    (*made)->SetSession(kDoorSession);
    return *std::move(made);
  }
  static Message PushOf(size_t bytes) {
    Message push;
    push.type = MessageType::kPush;
    push.leaves = {0, 1};
    push.leaf_count = 1;
    push.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
    return push;
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
  Open({.bytes_max = 64 << 10, .connections_max = 2});
  const ByHand first(server_->endpoint());
  const ByHand second(server_->endpoint());
  const ByHand third(server_->endpoint());
  EXPECT_TRUE(first.HasEnded());
  EXPECT_EQ(server_->stats().strangers, 1u);
}

TEST_F(DoorWatchTest, MembersSendWhatTheyLike) {
  server_->Close(absl::ZeroDuration());
  Open({.connections_max = 4});
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

TEST_F(DoorWatchTest, AHelloIsNoProof) {
  server_->Close(absl::ZeroDuration());
  server_ = Make({.listen = "tcp://127.0.0.1:0", .door = kNarrow}, Address::Scheduler());
  const ByHand stranger(server_->endpoint());
  stranger.Greet();
  Message hello;
  hello.type = MessageType::kHello;
  hello.from = Address::Temporary(Role::kWorker, 1);
  hello.body = wire::Hello{.role = Role::kWorker};
  // With the trailer of a session: the first message of somebody.
  const uint64_t trailer[] = {uint64_t{1} << 32 | 0x4C525453, 1, 7, 0, 0};
  const std::string frame = ByHand::Frame(
      wire::EncodeHeader(hello, hello.from) +
          std::string(reinterpret_cast<const char*>(trailer), sizeof(trailer)),
      false);
  ASSERT_TRUE(stranger.Say(frame));
  ASSERT_TRUE(server_->Receive(DoorSoon()).has_value());
  EXPECT_TRUE(stranger.IsSentAway(frame, uint64_t{1} << 32));
}

}  // namespace
}  // namespace soapstone::transport
