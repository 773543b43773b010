#include "transport/node/endpoint.h"

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

}  // namespace
}  // namespace soapstone::transport
