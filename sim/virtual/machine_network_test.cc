#include "sim/virtual/machine_network.h"

#include <optional>

#include "glog/logging.h"
#include "gtest/gtest.h"
#include "sim/virtual/shared_device.h"
#include "sim/whole_pushes.h"
#include "strategy/machine_text.h"

namespace soapstone::sim {
namespace {

using wire::Address;

// Three workers and a server, each behind a link of 1 byte a ns each way; 10 us on each, and 2 us
// for a message's own sake.
planner::Machine Lab() {
  const auto machine = planner::ParseMachine(
      "name: 'lab' kinds { name: 'k' tflops: 1 memory_gbytes_per_s: 2 memory_gib: 1 launch_us: 3 }"
      "nodes { name: 'w' count: 3 devices: 1 kind: 'k' nics { count: 1 direct: true connection {"
      " gbytes_per_s: 1 latency_us: 10 message_us: 2 } } }"
      "nodes { name: 's' count: 1 servers: 1 server_apply_gbytes_per_s: 4 nics { count: 1 direct: "
      "true connection { gbytes_per_s: 1 latency_us: 10 message_us: 2 } } }",
      "test");
  CHECK(machine.ok()) << machine.status();
  return *machine;
}

Address Worker(uint32_t k) { return Address::Of(WorkerId{k}); }
Address Shard(uint32_t k) { return Address::Of(ShardId{k}); }

TEST(MachineNetworkTest, AMessageStreamsThroughItsLinksOneAfterAnother) {
  const planner::Machine machine = Lab();
  MachineNetwork network(&machine, {});
  // Occupies both links for 1000 + 2000 ns, the second from 10 us on.
  EXPECT_EQ(network.Arrival(0, Worker(0), Worker(1), 1000, 0), 3000 + 20'000);
  // Behind it at the first link and at the second.
  EXPECT_EQ(network.Arrival(0, Worker(0), Worker(1), 1000, 0), 6000 + 20'000);
}

TEST(MachineNetworkTest, MessagesThatComeFromTwoShareTheLinkToTheThird) {
  const planner::Machine machine = Lab();
  MachineNetwork network(&machine, {});
  EXPECT_EQ(network.Arrival(0, Worker(0), Worker(2), 1000, 0), 23'000);
  EXPECT_EQ(network.Arrival(1000, Worker(1), Worker(2), 1000, 0), 26'000);
  // The other way is another link.
  EXPECT_EQ(network.Arrival(1000, Worker(2), Worker(1), 1000, 0), 24'000);
  // So is that to a server.
  EXPECT_EQ(network.Arrival(50'000, Worker(1), Shard(0), 1000, 0), 73'000);
}

TEST(MachineNetworkTest, WhatHasNoPayloadWaitsItsTurnAndOccupiesNothing) {
  const planner::Machine machine = Lab();
  MachineNetwork network(&machine, {});
  EXPECT_EQ(network.Arrival(0, Worker(0), Shard(0), 0, 0), 20'000);
  EXPECT_EQ(network.Arrival(0, Worker(0), Shard(0), 1000, 0), 23'000);
  EXPECT_EQ(network.Arrival(0, Worker(0), Shard(0), 0, 0), 23'000);
  EXPECT_EQ(network.Arrival(0, Worker(0), Address::Scheduler(), 1000, 0), 0);
}

TEST(MachineNetworkTest, ALimitSlowsEachLinkOnTheWay) {
  const planner::Machine machine = Lab();
  MachineNetwork network(&machine, {});
  EXPECT_EQ(network.Arrival(0, Worker(0), Worker(1), 1000, /*limit_mbps=*/800), 12'000 + 20'000);
}

TEST(MachineNetworkTest, AnOwnersOwnWordsStayInItsProcess) {
  const planner::Machine machine = Lab();
  MachineNetwork network(&machine, {.sets = 2, .owned = true});
  EXPECT_EQ(network.HostOf(3), 1u);
  EXPECT_EQ(network.Arrival(5, Worker(1), Shard(3), 1'000'000, 0), 5);
  EXPECT_EQ(network.Arrival(0, Shard(3), Worker(0), 1000, 0), 23'000);
  // 3 µs, and 3 · 1000 + 2 · 500 bytes at 2 a ns.
  EXPECT_EQ(network.OwnerTime(3, 1000, 500), 3000 + 2000);
}

TEST(MachineNetworkTest, AServerAppliesAtItsRate) {
  const planner::Machine machine = Lab();
  const MachineNetwork network(&machine, {});
  EXPECT_EQ(network.ServerTime(0, 4000), 1000);
}

TEST(SharedDeviceTest, AnUpdateThatWasReadyBeforeGoesBeforeTheNextPart) {
  SharedDevice device;
  worker::DeviceEvent answer;
  answer.instruction = 7;
  device.AddPart({.cost = 10});
  device.AddPart({.cost = 20, .answer = answer});
  EXPECT_EQ(device.Begin(0)->cost, 10);
  EXPECT_EQ(device.Begin(0), nullptr) << "one thing at a time";
  device.AddUpdate(4, 5, /*shard=*/3);
  EXPECT_FALSE(device.End().answer.has_value());
  EXPECT_EQ(device.Begin(10)->shard, 3u);
  // Ready as the device becomes free: after the part.
  device.AddUpdate(15, 5, /*shard=*/4);
  EXPECT_EQ(device.End().shard, 3u);
  EXPECT_EQ(device.Begin(15)->cost, 20);
  EXPECT_EQ(device.End().answer->instruction, 7u);
  EXPECT_EQ(device.Begin(35)->shard, 4u);
  device.End();
  EXPECT_EQ(device.Begin(40), nullptr);
}

wire::Message Push(uint32_t worker, Clock clock, uint32_t bucket) {
  wire::Message push;
  push.type = wire::MessageType::kPush;
  push.worker = WorkerId{worker};
  push.clock = clock;
  push.body = wire::Push{.bucket = BucketId{bucket}};
  return push;
}

TEST(WholePushesTest, ATeamHasPushedWhenAllHoldersHave) {
  WholePushes pushes({.teams = 2, .seats = 2}, {2, 1});
  EXPECT_TRUE(pushes.Completes(ShardId{1}, Push(0, 0, 0)));
  EXPECT_FALSE(pushes.Completes(ShardId{0}, Push(0, 0, 0)));
  EXPECT_FALSE(pushes.Completes(ShardId{0}, Push(2, 0, 0))) << "the other team's";
  EXPECT_FALSE(pushes.Completes(ShardId{0}, Push(1, 1, 0))) << "another clock's";
  EXPECT_FALSE(pushes.Completes(ShardId{0}, Push(1, 0, 1))) << "another bucket's";
  EXPECT_TRUE(pushes.Completes(ShardId{0}, Push(1, 0, 0)));
  EXPECT_TRUE(pushes.Completes(ShardId{0}, Push(3, 0, 0)));
}

}  // namespace
}  // namespace soapstone::sim
