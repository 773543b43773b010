#include "transport/node/endpoint.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

TEST(EndpointTest, TakesTcpAndIpc) {
  for (const char* good : {"tcp://127.0.0.1:80", "tcp://*:0", "tcp://node-1.cluster:65535",
                           "tcp://[::1]:5000", "ipc:///tmp/x"}) {
    EXPECT_TRUE(CheckEndpoint(good).ok()) << good;
  }
}

TEST(EndpointTest, RefusesTheRest) {
  for (const char* bad :
       {"", "tcp://", "tcp://host", "tcp://host:", "tcp://:80", "tcp://host:x", "tcp://host:65536",
        "tcp://host:-1", "tcp://a:b:80", "ipc://", "host:80", "udp://host:80", "inproc://x"}) {
    EXPECT_EQ(CheckEndpoint(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(EndpointTest, BindsTheAddressOfAHostName) {
  EXPECT_EQ(*BindAddress("tcp://localhost:80"), "tcp://127.0.0.1:80");
  EXPECT_EQ(*BindAddress("tcp://127.0.0.2:80"), "tcp://127.0.0.2:80");
  EXPECT_EQ(*BindAddress("tcp://*:80"), "tcp://*:80");
}

TEST(EndpointTest, ShowsTheHostAskedForAndThePortGiven) {
  EXPECT_EQ(ConnectAddress("tcp://127.0.0.1:0", "tcp://127.0.0.1:4711", ""),
            "tcp://127.0.0.1:4711");
  EXPECT_EQ(ConnectAddress("tcp://localhost:0", "tcp://127.0.0.1:4711", ""),
            "tcp://localhost:4711");
  EXPECT_EQ(ConnectAddress("tcp://*:0", "tcp://0.0.0.0:4711", "node-1"), "tcp://node-1:4711");
  EXPECT_EQ(ConnectAddress("ipc:///tmp/x", "ipc:///tmp/x", "node-1"), "ipc:///tmp/x");
}

TEST(EndpointTest, AllInterfacesAreNotAnAddressToConnectTo) {
  const std::string shown = ConnectAddress("tcp://*:0", "tcp://0.0.0.0:4711", "");
  EXPECT_TRUE(CheckEndpoint(shown).ok()) << shown;
  EXPECT_EQ(shown.find("0.0.0.0"), std::string::npos) << shown;
  EXPECT_EQ(shown.find('*'), std::string::npos) << shown;
}

TEST(EndpointTest, ASocketsFileIsRemovedUnlessItIsAnothers) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/socket-", getpid());
  const auto bound = [&path] {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  };
  const int first = bound();
  const SocketFile file = SocketFileOf("ipc://" + path);
  EXPECT_EQ(file.path, path);
  EXPECT_TRUE(SocketFileOf("tcp://127.0.0.1:1").path.empty());
  const std::string aside = path + "-aside";  // or its number would be given out again
  ASSERT_EQ(std::rename(path.c_str(), aside.c_str()), 0);
  const int second = bound();
  RemoveSocketFile(file);
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  RemoveSocketFile(SocketFileOf("ipc://" + path));
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  RemoveSocketFile(file);  // it is gone: nothing happens
  unlink(aside.c_str());
  close(first);
  close(second);
}

}  // namespace
}  // namespace soapstone::transport
