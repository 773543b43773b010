#include "transport/tcp_watch.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

// Both ends of a TCP connection.
class TcpPair {
 public:
  TcpPair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener, generic, size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, generic, &size), 0);
    ours_ = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(ours_, generic, size), 0);
    theirs_ = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~TcpPair() { Close(); }
  void Close() {
    for (int* fd : {&ours_, &theirs_}) {
      if (*fd >= 0) close(*fd);
      *fd = -1;
    }
  }
  void Send(size_t bytes) {
    const std::string text(bytes, 'x');
    EXPECT_EQ(send(ours_, text.data(), bytes, 0), static_cast<ssize_t>(bytes));
  }
  int ours() const { return ours_; }

 private:
  int ours_ = -1;
  int theirs_ = -1;
};

TEST(LinkWatch, CountersOutliveTheDescriptor) {
  LinkWatch link(/*handshake_bytes=*/10);
  TcpPair pair;
  link.OnGiven(990);
  EXPECT_TRUE(link.OnReceived(pair.ours()));
  EXPECT_FALSE(link.OnReceived(pair.ours()));
  pair.Send(1000);
  pair.Close();
  EXPECT_EQ(link.Counts(),
            (SocketCounts{.connections = 1, .given_bytes = 1000, .taken_bytes = 1000}));
}

TEST(LinkWatch, AConnectionMadeAnewIsAddedToTheFirst) {
  LinkWatch link(/*handshake_bytes=*/0);
  TcpPair first;
  TcpPair second;
  link.OnReceived(first.ours());
  first.Send(300);
  link.OnReceived(second.ours());
  second.Send(50);
  EXPECT_EQ(link.Counts().connections, 2u);
  EXPECT_EQ(link.Counts().taken_bytes, 350u);
}

TEST(LinkWatch, WhatIsNoTcpConnectionIsLeftOut) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  LinkWatch link(/*handshake_bytes=*/10);
  link.OnGiven(100);
  EXPECT_EQ(link.Counts(), SocketCounts{});  // nothing was received
  EXPECT_FALSE(link.OnReceived(ends[0]));
  EXPECT_EQ(link.Counts(), SocketCounts{});
  for (const int fd : ends) close(fd);
}

}  // namespace
}  // namespace soapstone::transport
