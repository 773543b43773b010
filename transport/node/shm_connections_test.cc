#include "transport/node/shm_connections.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr wire::Address kNode = {wire::Role::kServer, 3};

class ShmConnectionsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!SharedArena::Enable()) GTEST_SKIP() << "no sealed memory";
    endpoint_ = absl::StrCat("test://shm_connections_test/", getpid());
    ASSERT_TRUE(listener_.Listen(endpoint_).ok());
  }

  std::string endpoint_;
  ShmLinks listener_, links_;
  ShmConnections connections_{&links_, 2};
};

TEST_F(ShmConnectionsTest, WhatIsSentIsKeptUntilTheLinkIsTaken) {
  ASSERT_TRUE(connections_.Connect(kNode, endpoint_, {}));
  EXPECT_TRUE(connections_.opening());
  EXPECT_EQ(connections_.NodeOf(connections_.LinkTo(kNode)), kNode);
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(connections_.IsFull(kNode));
    connections_.Sent(kNode, {});
  }
  EXPECT_TRUE(connections_.IsFull(kNode));
  EXPECT_TRUE(connections_.Follow().empty());
  EXPECT_TRUE(connections_.opening());
  for (int i = 0; i < 10'000 && connections_.opening(); ++i) {
    listener_.Progress();
    links_.Progress();
    EXPECT_TRUE(connections_.Follow().empty());
  }
  EXPECT_FALSE(connections_.opening());
  EXPECT_FALSE(connections_.IsFull(kNode)) << "nothing need be kept any more";
}

TEST_F(ShmConnectionsTest, WhoDoesNotTakeTheLinkIsToldWithWhatWasSent) {
  ASSERT_TRUE(connections_.Connect(kNode, endpoint_, {}));
  wire::Message message;
  message.clock = 5;
  connections_.Sent(kNode, message);
  listener_.Close();
  std::vector<ShmConnections::Refused> refused;
  for (int i = 0; i < 10'000 && refused.empty(); ++i) {
    links_.Progress();
    refused = connections_.Follow();  // before anybody has looked for messages
  }
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].node, kNode);
  EXPECT_EQ(refused[0].endpoint, endpoint_);
  ASSERT_EQ(refused[0].untaken.size(), 1u);
  EXPECT_EQ(refused[0].untaken[0].clock, 5);
  EXPECT_EQ(connections_.LinkTo(kNode), 0u);
  EXPECT_FALSE(connections_.opening());
  EXPECT_FALSE(connections_.Connect(kNode, endpoint_, {})) << "nobody listens there any more";
}

}  // namespace
}  // namespace soapstone::transport
