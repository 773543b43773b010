#include "apps/loop/message_router.h"

#include <glog/logging.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/steady_clock.h"

namespace soapstone::apps {
namespace {

using wire::Address;

// Records what is sent; `full` peers take nothing, `absent` ones have no route.
class FakeTransport : public transport::Transport {
 public:
  absl::Status Connect(Address peer, const std::string& endpoint) override {
    connected[peer] = endpoint;
    ++connects;
    return connecting;
  }
  void SetSelf(Address) override {}
  void SetSession(uint64_t) override {}
  absl::Status Send(Address node, const wire::Message& message) override {
    if (full.contains(node)) return absl::ResourceExhaustedError("full");
    if (invalid) return absl::InvalidArgumentError("no such loss");
    if (absent.contains(node)) return absl::NotFoundError("no route");
    sent.emplace_back(node, message.clock);
    return absl::OkStatus();
  }
  std::optional<wire::Message> Receive(SteadyTime) override { return std::nullopt; }
  void Wake() override {}
  void Close(absl::Duration) override {}
  std::string endpoint() const override { return ""; }
  transport::TransportStats stats() const override { return {}; }
  void SetHolder(Address node, const std::string& key) override { holders[node] = key; }

  std::set<Address> full, absent;
  std::map<Address, std::string> connected;
  std::map<Address, std::string> holders;
  int connects = 0;
  absl::Status connecting;
  bool invalid = false;
  std::vector<std::pair<Address, Clock>> sent;
};

wire::Message For(Address to, Clock clock) {
  wire::Message message;
  message.to = to;
  message.clock = clock;
  return message;
}

std::vector<Address> LostOf(MessageRouter* router) {
  std::vector<Address> nodes;
  for (const transport::LostNode& lost : router->TakeLost()) nodes.push_back(lost.node);
  return nodes;
}

const Address kServer0 = Address::Of(ServerId{0});
const Address kServer1 = Address::Of(ServerId{1});
const Address kWorker1 = Address::Of(WorkerId{1});

TEST(MessageRouter, ShardsAreReachedThroughTheirServer) {
  FakeTransport transport;
  MessageRouter router(&transport, 2);
  router.Send(For(Address::Of(ShardId{3}), 7));
  EXPECT_EQ(transport.sent, (std::vector<std::pair<Address, Clock>>{{kServer1, 7}}));
}

TEST(MessageRouter, KeepsOrderWhileAPeerIsFull) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  transport.full.insert(kServer0);
  router.Send(For(kServer0, 1));
  transport.full.clear();
  router.Send(For(kServer0, 2));  // must not overtake
  router.Send(For(kServer1, 3));  // another peer need not wait
  EXPECT_TRUE(router.waiting());
  router.Retry();
  EXPECT_FALSE(router.waiting());
  EXPECT_EQ(transport.sent,
            (std::vector<std::pair<Address, Clock>>{{kServer1, 3}, {kServer0, 1}, {kServer0, 2}}));
}

TEST(MessageRouter, OfThoseThatWaitTheMostUrgentLeavesFirst) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  transport.full.insert(kServer0);
  const std::pair<Clock, uint32_t> waiting[] = {{1, 5}, {2, 0}, {3, 5}, {4, 2}, {5, 0}};
  for (const auto& [clock, priority] : waiting) {
    wire::Message message = For(kServer0, clock);
    message.priority = priority;
    router.Send(std::move(message));
  }
  transport.full.clear();
  router.Retry();
  std::vector<Clock> order;
  for (const auto& [node, clock] : transport.sent) order.push_back(clock);
  EXPECT_EQ(order, (std::vector<Clock>{2, 5, 4, 1, 3}));
}

TEST(MessageRouter, TooMuchWaitingIsALostPeerToldOnce) {
  FakeTransport transport;
  MessageRouter router(&transport, 1, /*waiting_bytes_max=*/2 * MessageRouter::kMessageBytes);
  transport.full.insert(kServer0);
  for (int i = 0; i < 3; ++i) router.Send(For(kServer0, i));
  EXPECT_EQ(LostOf(&router), std::vector<Address>{kServer0});
  EXPECT_TRUE(router.TakeLost().empty());
  transport.full.clear();
  router.Send(For(kServer0, 9));
  router.Retry();
  EXPECT_TRUE(transport.sent.empty());
}

// What counts is bytes, of all peers together; who goes is the one that reads least.
TEST(MessageRouter, BytesCountAndTheLargestQueueGoes) {
  FakeTransport transport;
  transport.full = {kServer0, kServer1, kWorker1};
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  MessageRouter router(&transport, 1, /*waiting_bytes_max=*/10 * kMiB);
  const Buffer block = Buffer::CopyOf(std::string(kMiB, 'x'));
  const auto send = [&](Address to, int blocks) {
    wire::Message message = For(to, 1);
    message.payload.assign(static_cast<size_t>(blocks), block);
    router.Send(std::move(message));
  };
  for (int i = 0; i < 1000; ++i) router.Send(For(kServer1, i));  // small, however many
  send(kServer0, 2);
  send(kWorker1, 3);
  send(kServer0, 3);
  EXPECT_TRUE(router.TakeLost().empty());
  EXPECT_GT(router.waiting_bytes(), 8 * kMiB);
  send(kWorker1, 1);
  send(kServer1, 2);
  EXPECT_EQ(LostOf(&router), std::vector<Address>{kServer0});
  EXPECT_LT(router.waiting_bytes(), 8 * kMiB);
  transport.full.clear();
  router.Retry();
  EXPECT_EQ(router.waiting_bytes(), 0u);
  EXPECT_EQ(transport.sent.size(), 1000u + 1 + 2);
}

// However large it is: it is here already, and may be what the peer waits for.
TEST(MessageRouter, OneMessageMayAlwaysWait) {
  FakeTransport transport;
  transport.full = {kServer0};
  MessageRouter router(&transport, 1, /*waiting_bytes_max=*/1);
  router.Send(For(kServer0, 1));
  EXPECT_TRUE(router.TakeLost().empty());
  router.Send(For(kServer0, 2));
  EXPECT_EQ(LostOf(&router), std::vector<Address>{kServer0});
}

// A rank that was given up, and what waited for it, is not the next holder's.
TEST(MessageRouter, ANewHolderOfARankStartsAfresh) {
  for (const bool by_roster : {true, false}) {
    FakeTransport transport;
    MessageRouter router(&transport, 1, /*waiting_bytes_max=*/2 * MessageRouter::kMessageBytes);
    wire::Roster roster;
    roster.workers.push_back({.worker = WorkerId{1}, .admitted = 1});
    router.Follow(roster);
    transport.full = {kWorker1};
    for (int i = 0; i < 4; ++i) router.Send(For(kWorker1, i));
    router.Follow(roster);  // no other holder
    EXPECT_EQ(LostOf(&router), std::vector<Address>{kWorker1});
    router.Send(For(kWorker1, 5));
    if (by_roster) {
      roster.workers.Mutable()[0].admitted = 7;
      router.Follow(roster);
    } else {
      router.SetAlias(kWorker1, {wire::Role::kWorker, 0x80000007u});
    }
    EXPECT_TRUE(router.TakeLost().empty());
    transport.full.clear();
    router.Send(For(kWorker1, 9));
    router.Retry();
    ASSERT_EQ(transport.sent.size(), 1u);
    EXPECT_EQ(transport.sent[0].second, 9);
  }
}

TEST(MessageRouter, TheTransportHearsWhichProcessHasWhichRankBeforeItConnects) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  wire::Roster roster;
  roster.servers = {{ServerId{0}, "tcp://a:1", "a server's key"}};
  roster.workers.push_back({.worker = WorkerId{1}, .admitted = 1, .key = "a worker's"});
  router.Follow(roster);
  EXPECT_EQ(transport.holders, (std::map<Address, std::string>{{kServer0, "a server's key"},
                                                               {kWorker1, "a worker's"}}));
  roster.workers.Mutable()[0] = {.worker = WorkerId{1}, .admitted = 3, .key = "its successor's"};
  router.Follow(roster);
  EXPECT_EQ(transport.holders[kWorker1], "its successor's");
}

TEST(MessageRouter, AliasUntilItHasNoRoute) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  const Address temporary{wire::Role::kWorker, 0x80000007u};
  router.SetAlias(kWorker1, temporary);
  router.Send(For(kWorker1, 1));
  transport.absent.insert(temporary);
  router.Send(For(kWorker1, 2));
  EXPECT_EQ(transport.sent,
            (std::vector<std::pair<Address, Clock>>{{temporary, 1}, {kWorker1, 2}}));
}

TEST(MessageRouter, ConnectsToNewAndMovedServersOnly) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  wire::Roster roster;
  roster.servers = {{ServerId{0}, "tcp://a:1"}, {ServerId{1}, "tcp://b:1"}};
  router.ConnectServers(roster, 0, 2);
  router.ConnectServers(roster, 0, 2);
  EXPECT_EQ(transport.connects, 2);
  roster.servers[1].endpoint = "tcp://c:1";
  router.ConnectServers(roster, 0, 2);
  EXPECT_EQ(transport.connects, 3);
  EXPECT_EQ(transport.connected[kServer1], "tcp://c:1");
}

// A port is given out again.
TEST(MessageRouter, ANewHolderOfARankIsConnectedToThoughItListensAtTheSamePort) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  wire::Roster roster;
  roster.workers.push_back({.worker = WorkerId{1}, .admitted = 1, .endpoint = "tcp://a:1"});
  for (const auto& [admitted, connects] : {std::pair{1, 1}, {1, 1}, {4, 2}, {4, 2}}) {
    roster.workers.Mutable()[0].admitted = admitted;
    router.Follow(roster);
    router.ConnectWorkers(roster);
    EXPECT_EQ(transport.connects, connects);
  }
}

// A process that may have no more descriptors: it says so, and its job does not wait for ever.
TEST(MessageRouter, WhoCannotBeConnectedToIsLost) {
  FakeTransport transport;
  transport.connecting = absl::ResourceExhaustedError("Too many open files");
  MessageRouter router(&transport, 1);
  wire::Roster roster;
  roster.servers = {{ServerId{0}, "tcp://a:1"}, {ServerId{1}, "tcp://b:1"}};
  router.SetSelf(kServer1);
  router.ConnectServers(roster, 0, 2);
  const std::vector<transport::LostNode> lost = router.TakeLost();
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].node, kServer0);
  EXPECT_EQ(lost[0].why, "cannot connect to tcp://a:1: Too many open files");
  router.Send(For(kServer0, 1));
  EXPECT_FALSE(router.waiting());
  // Its next holder may be.
  transport.connecting = absl::OkStatus();
  roster.servers[0].endpoint = "tcp://a:2";
  router.ConnectServers(roster, 0, 2);
  router.Send(For(kServer0, 2));
  EXPECT_EQ(transport.sent.size(), 1u);
}

TEST(MessageRouter, ServersConnectToServer0AndNeverToThemselves) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  wire::Roster roster;
  roster.servers = {{ServerId{0}, "tcp://a:1"}, {ServerId{1}, "tcp://b:1"}};
  router.SetSelf(kServer0);
  router.ConnectServers(roster, 0, 1);
  EXPECT_EQ(transport.connects, 0);
  router.SetSelf(kServer1);
  router.ConnectServers(roster, 0, 1);
  EXPECT_EQ(transport.connected[kServer0], "tcp://a:1");
  EXPECT_EQ(transport.connects, 1);
}

// Counts what is logged as an error.
class Errors : public google::LogSink {
 public:
  Errors() { google::AddLogSink(this); }
  ~Errors() override { google::RemoveLogSink(this); }
  // NOLINTNEXTLINE(readability-function-size): glog's
  void send(google::LogSeverity severity, const char*, const char*, int, const struct ::tm*,
            const char* text, size_t size) override {
    if (severity == google::GLOG_ERROR) texts.emplace_back(text, size);
  }
  std::vector<std::string> texts;
};

TEST(MessageRouter, AMessageOfOurOwnThatIsNotValidIsSaidOnceAKind) {
  FakeTransport transport;
  transport.invalid = true;
  MessageRouter router(&transport, 1);
  Errors errors;
  for (const wire::MessageType type : {wire::MessageType::kHeartbeat, wire::MessageType::kHeartbeat,
                                       wire::MessageType::kDone, wire::MessageType::kHeartbeat}) {
    wire::Message message = For(Address::Scheduler(), 1);
    message.type = type;
    router.Send(message);
  }
  ASSERT_EQ(errors.texts.size(), 2u);
  EXPECT_NE(errors.texts[0].find("heartbeat"), std::string::npos) << errors.texts[0];
  EXPECT_NE(errors.texts[0].find("no such loss"), std::string::npos) << errors.texts[0];
}

TEST(MessageRouterTest, NothingWaitsForWhoIsNoMemberAnyMore) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  const Address stays = Address::Of(WorkerId{1}), goes = Address::Of(WorkerId{2});
  wire::Roster roster;
  roster.workers = {{.worker = WorkerId{1}, .admitted = 1}, {.worker = WorkerId{2}, .admitted = 1}};
  router.Follow(roster);
  transport.full = {stays, goes};
  router.Send(For(stays, 0));
  router.Send(For(goes, 0));
  // Who is not in it yet has been told of this node before.
  const Address comes = Address::Of(WorkerId{3});
  transport.full.insert(comes);
  router.Send(For(comes, 0));
  roster.workers.pop_back();
  router.Follow(roster);
  EXPECT_EQ(router.waiting_bytes(), 2 * MessageRouter::kMessageBytes);
  transport.full.clear();
  router.Retry();
  EXPECT_EQ(transport.sent, (std::vector<std::pair<Address, Clock>>{{stays, 0}, {comes, 0}}));
  EXPECT_FALSE(router.waiting());
}

// Where a server is counted out its shard's messages go to who has them now, and nothing waits for
// it, nor is it told to be lost.
TEST(MessageRouterTest, AShardsMessagesGoToTheHeadOfItsChain) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  const Address shard = Address::Of(ShardId{0});
  const Address first = Address::Of(ServerId{0}), second = Address::Of(ServerId{1});
  wire::Roster roster;
  roster.servers = {{ServerId{0}, "tcp://a:1"}, {ServerId{1}, "tcp://b:1"}};
  roster.chains = {{{{ServerId{0}, 1}, {ServerId{1}, 1}}}};
  router.Follow(roster);
  router.Send(For(shard, 0));
  transport.full = {first};
  router.Send(For(shard, 1));
  EXPECT_TRUE(router.waiting());
  roster.servers = {{ServerId{1}, "tcp://b:1"}};
  roster.chains = {{{{ServerId{1}, 2}}}};
  router.Follow(roster);
  EXPECT_FALSE(router.waiting());
  EXPECT_EQ(router.NodeOf(shard), second);
  router.Send(For(shard, 2));
  router.Send(For(first, 3));
  EXPECT_EQ(transport.sent, (std::vector<std::pair<Address, Clock>>{{first, 0}, {second, 2}}));
  EXPECT_TRUE(router.TakeLost().empty());
}

TEST(MessageRouterTest, SaysForWhomMostWaits) {
  FakeTransport transport;
  MessageRouter router(&transport, 1);
  EXPECT_FALSE(router.Greatest().has_value());
  const Address few = Address::Of(WorkerId{1}), many = Address::Of(WorkerId{2});
  transport.full = {few, many};
  router.Send(For(few, 0));
  router.Send(For(many, 0));
  router.Send(For(many, 1));
  const auto most = router.Greatest();
  ASSERT_TRUE(most.has_value());
  EXPECT_EQ(most->node, many);
  EXPECT_EQ(most->bytes, 2 * MessageRouter::kMessageBytes);
  EXPECT_EQ(router.waiting_bytes(), 3 * MessageRouter::kMessageBytes);
}

}  // namespace
}  // namespace soapstone::apps
