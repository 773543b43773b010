#include "apps/loop/node_loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

using transport::LostNode;
using wire::Address;

constexpr Address kNewlyHeld = {wire::Role::kWorker, 1};

// Gives what it is told to.
class ScriptedTransport : public transport::Transport {
 public:
  absl::Status Connect(Address, const std::string&) override { return absl::OkStatus(); }
  void SetSelf(Address) override {}
  void SetSession(uint64_t) override {}
  absl::Status Send(Address, const wire::Message&) override { return absl::OkStatus(); }
  std::optional<wire::Message> Receive(SteadyTime) override {
    return std::exchange(next, std::nullopt);
  }
  std::vector<LostNode> TakeLost() override { return std::exchange(lost, {}); }
  void Wake() override {}
  void Close(absl::Duration) override {}
  std::string endpoint() const override { return ""; }
  transport::TransportStats stats() const override { return {}; }

  std::optional<wire::Message> next;
  std::vector<LostNode> lost;
};

class NodeLoopTest : public testing::Test {
 protected:
  void Receive(wire::MessageType type, Epoch epoch) {
    transport_->next.emplace();
    transport_->next->type = type;
    transport_->next->epoch = epoch;
    ASSERT_TRUE(loop_.Next(kSecond).has_value());
  }

  ScriptedTransport* const transport_ = new ScriptedTransport;
  NodeLoop loop_{std::unique_ptr<transport::Transport>(transport_), 1};
};

// The link to a worker that was killed is given up just when the roster comes that has another
// process at its rank: the report must not be taken for one of a link to that.
TEST_F(NodeLoopTest, ALinkThatIsLostBeforeARosterIsOfTheTimeBeforeIt) {
  Receive(wire::MessageType::kRoster, 5);
  transport_->lost = {{kNewlyHeld, "no socket for 3s"}};
  Receive(wire::MessageType::kRoster, 7);
  EXPECT_EQ(loop_.epoch(), 7u);
  const std::vector<LostNode> lost = loop_.TakeLost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].node, kNewlyHeld);
  EXPECT_EQ(lost[0].epoch, 5u);
  EXPECT_TRUE(loop_.TakeLost().empty());
}

TEST_F(NodeLoopTest, WhatIsLostBesideOtherMessagesIsAsTheTransportSays) {
  Receive(wire::MessageType::kRoster, 5);
  transport_->lost = {{kNewlyHeld, "no socket for 3s"}};
  Receive(wire::MessageType::kClock, 7);
  const std::vector<LostNode> lost = loop_.TakeLost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].epoch, kLastEpoch);
}

}  // namespace
}  // namespace soapstone::apps
