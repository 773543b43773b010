#include "transport/zmq/retired_sockets.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr char kName[] = "Sa name of 15 b";
constexpr int kFdsMax = 256;

// The descriptors of this process's.
std::vector<int> Connections() {
  std::vector<int> fds;
  for (int fd = 3; fd < kFdsMax; ++fd) {
    sockaddr_storage peer = {};
    socklen_t size = sizeof(peer);
    const bool connected = getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
    if (connected && peer.ss_family == AF_INET) fds.push_back(fd);
  }
  return fds;
}

class RetiredSocketsTest : public testing::Test {
 protected:
  void SetUp() override {
    router_ = *ZmqSocket::Open(context_, ZMQ_ROUTER, {});
    ASSERT_TRUE(router_.Bind("tcp://127.0.0.1:*").ok());
  }
  void TearDown() override {
    retired_.Close(absl::ZeroDuration());
    router_.Close(absl::ZeroDuration());
    zmq_ctx_term(context_);
  }
  ZmqSocket Dial(const std::string& endpoint) {
    ZmqSocketOptions options;
    options.routing_id = kName;
    ZmqSocket socket = *ZmqSocket::Open(context_, ZMQ_DEALER, options);
    EXPECT_TRUE(socket.WatchConnection(context_).ok());
    EXPECT_TRUE(socket.Connect(endpoint).ok());
    return socket;
  }
  ZmqSocket Connected() {
    ZmqSocket socket = Dial(router_.last_endpoint());
    const SteadyTime deadline = SteadyNow() + absl::Seconds(60);
    while (!socket.IsConnected() && SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_TRUE(socket.IsConnected());
    return socket;
  }
  // Until none is left. REQUIRES: that is to be.
  void TendUntilEmpty() {
    const SteadyTime deadline = SteadyNow() + absl::Seconds(60);
    while (!retired_.empty() && SteadyNow() < deadline) {
      retired_.Tend(SteadyNow());
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_TRUE(retired_.empty());
  }

  void* const context_ = zmq_ctx_new();
  ZmqSocket router_;
  RetiredSockets retired_;
};

TEST_F(RetiredSocketsTest, OneThatDoesNotConnectIsClosedWhenThatIsKnown) {
  retired_.Take(ZmqSocket(), SteadyNow());
  EXPECT_TRUE(retired_.empty());
  retired_.Take(Dial("tcp://127.0.0.1:1"), SteadyNow());
  TendUntilEmpty();
  ZmqSocket refused = Dial("tcp://127.0.0.1:1");
  const SteadyTime deadline = SteadyNow() + absl::Seconds(60);
  while (!refused.HasEnded() && SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(1));
  retired_.Take(std::move(refused), SteadyNow());
  EXPECT_TRUE(retired_.empty());
}

TEST_F(RetiredSocketsTest, OneThatConnectsAfterwardsIsEndedAndClosed) {
  for (int round = 0; round < 20; ++round) {
    retired_.Take(Dial(router_.last_endpoint()), SteadyNow());
    TendUntilEmpty();
  }
}

// Nobody looks after it for a while. One that was made again could break with a message half sent,
// and would have the name of another by now.
TEST_F(RetiredSocketsTest, OneThatHasEndedIsNotConnectedAgain) {
  retired_.Take(Connected(), SteadyNow());
  const SteadyTime deadline = SteadyNow() + absl::Seconds(60);
  while (!Connections().empty() && SteadyNow() < deadline) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(500));
  EXPECT_TRUE(Connections().empty());
  retired_.Tend(SteadyNow());
  EXPECT_TRUE(retired_.empty());
}

// Both ends of it are this process's.
TEST_F(RetiredSocketsTest, OneThatLivesIsEndedAtBothEndsAndClosed) {
  const SteadyTime began = SteadyNow();
  retired_.Take(Connected(), began);
  TendUntilEmpty();
  EXPECT_LT(SteadyNow() - began, RetiredSockets::kLiveMax);
  while (!Connections().empty() && SteadyNow() < began + absl::Seconds(60)) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(Connections().empty());
}

TEST_F(RetiredSocketsTest, TheirNumberIsBounded) {
  for (size_t k = 0; k < 2 * RetiredSockets::kCountMax; ++k) {
    retired_.Take(Connected(), SteadyNow());
    EXPECT_LE(retired_.size(), RetiredSockets::kCountMax);
  }
}

// Of all connections of this process about half, as a network does.
void BreakSome(uint32_t numbers) {
  for (const int fd : Connections()) {
    numbers = numbers * 1664525u + 1013904223u;
    if (numbers >> 31 != 0) shutdown(fd, SHUT_RDWR);
  }
}

// Closed as they are replaced, they end this process within some two hundred of these rounds; and
// where libzmq made connections again, within a few runs of twelve of these tests at once.
TEST_F(RetiredSocketsTest, ConnectionsMayBreakWhileTheyAreReplacedInTheMiddleOfMessages) {
  constexpr uint32_t kRounds = 400;
  constexpr int kMessages = 6;
  std::atomic<bool> done = false;
  std::thread reader([&] {
    Buffers frames;
    int fd = -1;
    while (!done) {
      zmq_pollitem_t item = {router_.handle(), 0, ZMQ_POLLIN, 0};
      zmq_poll(&item, 1, 5);
      router_.Receive(SIZE_MAX, &frames, &fd);
    }
  });
  const std::vector<char> bytes(1 << 18);
  const std::vector<Buffer> parts(6, Buffer::CopyOf(bytes.data(), bytes.size()));
  ZmqSocket socket = Dial(router_.last_endpoint());
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t numbers = round * 2654435761u;
    for (int k = 0; k < kMessages; ++k) (void)socket.Send("", "head", parts);
    absl::SleepFor(absl::Microseconds(numbers >> 20));
    ZmqSocket next = Dial(router_.last_endpoint());
    std::thread breaker([numbers] {
      absl::SleepFor(absl::Microseconds(numbers >> 8 & 255));
      BreakSome(numbers);
    });
    absl::SleepFor(absl::Microseconds(numbers & 255));
    retired_.Take(std::exchange(socket, std::move(next)), SteadyNow());
    breaker.join();
    retired_.Tend(SteadyNow());
  }
  done = true;
  reader.join();
}

}  // namespace
}  // namespace soapstone::transport
