#include "transport/tcp/stream_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

class StreamPortTest : public testing::Test {
 protected:
  void TearDown() override {
    for (const int fd : dialled_) close(fd);
    for (const int fd : greeted_) close(fd);
  }
  int Dial(const StreamPort& port) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port.port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    dialled_.push_back(fd);
    return fd;
  }
  void Progress(StreamPort* port) {
    port->Progress([this](int fd, const std::optional<StreamHello>& hello) {
      greeted_.push_back(fd);
      hellos_.push_back(hello);
    });
  }

  std::vector<int> dialled_, greeted_;
  std::vector<std::optional<StreamHello>> hellos_;
};

TEST_F(StreamPortTest, AHelloIsHandedOutOnceItIsWhole) {
  StreamPort port(absl::Seconds(60));
  ASSERT_TRUE(port.Open("tcp://127.0.0.1:1", 0).ok());
  const int fd = Dial(port);
  const std::string hello = EncodeStreamHello({.connection = 3, .token = {7}});
  for (const char byte : hello) {
    EXPECT_TRUE(hellos_.empty());
    ASSERT_EQ(write(fd, &byte, 1), 1);
    for (int i = 0; i < 10 && hellos_.empty(); ++i) Progress(&port);
  }
  for (int i = 0; i < 10'000 && hellos_.empty(); ++i) Progress(&port);
  ASSERT_EQ(hellos_.size(), 1u);
  ASSERT_TRUE(hellos_[0].has_value());
  EXPECT_EQ(hellos_[0]->connection, 3u);
  EXPECT_EQ(hellos_[0]->token, StreamToken{7});
  EXPECT_FALSE(port.any_pending());
}

TEST_F(StreamPortTest, WhatIsNoHelloIsToldAsNone) {
  StreamPort port(absl::Seconds(60));
  ASSERT_TRUE(port.Open("tcp://127.0.0.1:1", 0).ok());
  const std::string other(kStreamHelloBytes, 'x');
  ASSERT_EQ(write(Dial(port), other.data(), other.size()), static_cast<ssize_t>(other.size()));
  for (int i = 0; i < 10'000 && hellos_.empty(); ++i) Progress(&port);
  ASSERT_EQ(hellos_.size(), 1u);
  EXPECT_FALSE(hellos_[0].has_value());
}

TEST_F(StreamPortTest, TheOldestOfTheSilentGoesForTheNext) {
  StreamPort port(absl::Seconds(60));
  ASSERT_TRUE(port.Open("tcp://127.0.0.1:1", 0).ok());
  for (size_t i = 0; i <= StreamPort::kPendingMax; ++i) {
    Dial(port);
    Progress(&port);
  }
  EXPECT_EQ(port.TakeSilent(), 1u);
  char byte = 0;
  EXPECT_EQ(recv(dialled_[0], &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_LT(recv(dialled_[1], &byte, 1, MSG_DONTWAIT), 0);
}

bool IsReadable(const StreamPort& port) {
  std::vector<pollfd> items;
  port.AddPollItems(&items);
  return items.size() == 1 && poll(items.data(), 1, 0) == 1;
}

// Neither a wait nor a look at the port has more to do for them.
TEST_F(StreamPortTest, TheSilentWakeNobodyAndThoseBehindThemAreHeard) {
  StreamPort port(absl::Seconds(60));
  ASSERT_TRUE(port.Open("tcp://127.0.0.1:1", 0).ok());
  EXPECT_FALSE(IsReadable(port));
  for (size_t i = 0; i < StreamPort::kPendingMax; ++i) {
    Dial(port);
    Progress(&port);
  }
  EXPECT_FALSE(IsReadable(port));
  const int fd = Dial(port);
  EXPECT_TRUE(IsReadable(port));
  Progress(&port);
  EXPECT_TRUE(port.expects_hello(SteadyNow()));
  EXPECT_FALSE(IsReadable(port));
  const std::string hello = EncodeStreamHello({.connection = 3, .token = {7}});
  ASSERT_EQ(write(fd, hello.data(), hello.size()), static_cast<ssize_t>(hello.size()));
  EXPECT_TRUE(IsReadable(port));
  Progress(&port);
  ASSERT_EQ(hellos_.size(), 1u);
  EXPECT_FALSE(IsReadable(port));
}

TEST_F(StreamPortTest, TheSilentAndThoseThatEndAreSentAwayAndCounted) {
  StreamPort port(absl::Milliseconds(30));
  ASSERT_TRUE(port.Open("tcp://127.0.0.1:1", 0).ok());
  EXPECT_GT(port.next_end(), SteadyNow() + absl::Hours(1));
  shutdown(Dial(port), SHUT_WR);
  Dial(port);
  Progress(&port);
  EXPECT_EQ(port.TakeSilent(), 1u);
  EXPECT_LE(port.next_end(), SteadyNow() + absl::Milliseconds(30));
  absl::SleepFor(absl::Milliseconds(40));
  EXPECT_FALSE(port.expects_hello(SteadyNow()));
  Progress(&port);
  EXPECT_EQ(port.TakeSilent(), 1u);
  EXPECT_FALSE(port.any_pending());
}

TEST_F(StreamPortTest, APortThatIsTakenIsAnError) {
  StreamPort first(absl::Seconds(60)), second(absl::Seconds(60));
  ASSERT_TRUE(first.Open("tcp://127.0.0.1:1", 0).ok());
  EXPECT_EQ(second.Open("tcp://127.0.0.1:1", first.port()).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(second.open());
  EXPECT_EQ(second.Open("ipc://somewhere", 0).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace soapstone::transport
