#include "transport/tcp/kernel_queue.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr int kBufferLock = 72;  // SO_BUF_LOCK, Linux 5.14

// Two ends of a TCP connection on loopback, of which the second holds little that is not read.
class KernelQueueTest : public testing::Test {
 protected:
  void SetUp() override {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    const int little = 32 << 10;
    ASSERT_EQ(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little)), 0);
    ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    ASSERT_EQ(listen(listener, 1), 0);
    ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    sender_ = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(sender_, reinterpret_cast<sockaddr*>(&address), size), 0);
    receiver_ = accept(listener, nullptr, nullptr);
    ASSERT_GE(receiver_, 0);
    close(listener);
  }
  void TearDown() override {
    close(sender_);
    close(receiver_);
  }

  int Option(int name) const {
    int value = 0;
    socklen_t size = sizeof(value);
    return getsockopt(sender_, SOL_SOCKET, name, &value, &size) == 0 ? value : -1;
  }
  // Until the kernel takes no more.
  uint64_t Fill() const {
    const std::string bytes(64 << 10, 'x');
    uint64_t taken = 0;
    for (;;) {
      const ssize_t sent = send(sender_, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (sent <= 0) return taken;
      taken += static_cast<uint64_t>(sent);
    }
  }

  int sender_ = -1, receiver_ = -1;
};

TEST_F(KernelQueueTest, OutstandingIsWhatTheOtherSideHasNotTaken) {
  EXPECT_TRUE(IsTcpConnection(sender_));
  EXPECT_EQ(OutstandingBytes(sender_), 0u);
  const uint64_t taken = Fill();
  ASSERT_TRUE(OutstandingBytes(sender_).has_value());
  EXPECT_GT(*OutstandingBytes(sender_), 0u);
  EXPECT_LE(*OutstandingBytes(sender_), taken);
  EXPECT_LT(PathOf(sender_).round_trip_min, kSecond);
  EXPECT_GT(PathOf(sender_).segment_bytes, 500u);
}

TEST_F(KernelQueueTest, AWindowIsHeldToAndLifted) {
  if (Option(kBufferLock) < 0) GTEST_SKIP() << "this kernel does not give a window back";
  constexpr uint64_t kWindow = 100'000;
  EXPECT_TRUE(SetKernelQueue(sender_, {.outstanding_bytes = kWindow, .unsent_bytes = 50'000}));
  EXPECT_EQ(Option(SO_SNDBUF), static_cast<int>(kWindow));
  EXPECT_EQ(Option(kBufferLock) & 1, 1);
  Fill();
  EXPECT_LT(*OutstandingBytes(sender_), kWindow + (64 << 10));  // and one segment of the kernel's
  EXPECT_TRUE(SetKernelQueue(sender_, {.unsent_bytes = 512 << 10}));
  EXPECT_EQ(Option(kBufferLock) & 1, 0);
}

TEST_F(KernelQueueTest, MoreThanTheSystemAllowsIsLeftToTheKernel) {
  if (Option(kBufferLock) < 0) GTEST_SKIP() << "this kernel does not give a window back";
  EXPECT_FALSE(
      SetKernelQueue(sender_, {.outstanding_bytes = uint64_t{1} << 31, .unsent_bytes = 512 << 10}));
  EXPECT_EQ(Option(kBufferLock) & 1, 0);
}

TEST_F(KernelQueueTest, WithinAMachineNothingIsPaced) {
  ASSERT_TRUE(DontPaceWithinMachine(sender_));
  char name[16] = {};
  socklen_t size = sizeof(name);
  ASSERT_EQ(getsockopt(sender_, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  EXPECT_STREQ(name, "reno");
}

TEST(KernelQueue, WhoIsNotConnectedIsLeftAlone) {
  const int unconnected = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_FALSE(DontPaceWithinMachine(unconnected));
  close(unconnected);
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  EXPECT_FALSE(DontPaceWithinMachine(pair[0]));
  close(pair[0]);
  close(pair[1]);
}

TEST(KernelQueue, OtherSocketsHaveNone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_FALSE(IsTcpConnection(ends[0]));
  EXPECT_EQ(PathOf(ends[0]).round_trip_min, 0);
  SetKernelQueue(ends[0], {.unsent_bytes = 512 << 10});
  EXPECT_GT(send(ends[0], "x", 1, 0), 0);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace soapstone::transport
