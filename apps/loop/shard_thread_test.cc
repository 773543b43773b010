#include "apps/loop/shard_thread.h"

#include <sched.h>

#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "apps/loop/cpu_placement.h"
#include "apps/loop/node_loop.h"
#include "base/steady_clock.h"
#include "compute/optimizer.h"
#include "consistency/catalogue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/layout.h"

namespace soapstone::apps {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::unique_ptr<server::Replica> OneShard() {
  const auto layout =
      std::make_shared<const wire::Layout>(*wire::Layout::Build({{"p", {4}, {}}}, {}));
  return std::make_unique<server::Replica>(
      server::ReplicaOptions(),
      server::Shard(
          server::ShardOptions{.id = ShardId{0},
                               .layout = layout,
                               .policy = *consistency::ParsePolicy("async"),
                               .final_clock = 1},
          server::Store(server::TensorStoreOptions{.layout = layout,
                                                   .shard = ShardId{0},
                                                   .optimizer = *compute::ParseOptimizer("sgd"),
                                                   .total_clocks = 1})));
}

// Makes the shard acknowledge it.
wire::Message RosterOf(Epoch epoch) {
  wire::Message message;
  message.type = wire::MessageType::kRoster;
  message.from = wire::Address::Scheduler();
  message.to = {wire::Role::kShard, 0};
  message.epoch = epoch;
  wire::Roster roster;
  roster.worker_count = 1;
  roster.workers.push_back({.worker = WorkerId{0}, .admitted = epoch});
  message.body = std::move(roster);
  return message;
}

// Where a shard's thread may run, as seen from it: it wakes its loop once it has answered.
std::set<int> CpusOfShardThread(ShardThreadOptions options) {
  std::set<int> cpus;
  MessageInbox answers(16);
  const auto look = [&cpus] {
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.insert(cpu);
    }
  };
  ShardThread shard(OneShard(), &answers, look, std::move(options));
  EXPECT_TRUE(shard.Put(0, RosterOf(1)));
  shard.Join();
  return cpus;
}

TEST(ShardThreadTest, StaysOnTheCpuItWasGiven) {
  for (const size_t turn : {size_t{0}, size_t{1}}) {
    const int cpu = CpuInTurn(turn);
    EXPECT_THAT(CpusOfShardThread({.cpu = cpu}), ElementsAre(cpu));
  }
}

TEST(ShardThreadTest, RunsWhereItsProcessMayWithoutOne) {
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(CpusOfShardThread({}).size(), static_cast<size_t>(CPU_COUNT(&set)));
}

TEST(ShardThreadTest, ServesOnWhereItMayNotUseTheCpu) {
  EXPECT_FALSE(CpusOfShardThread({.cpu = CPU_SETSIZE - 1}).empty());
}

// Of the acknowledgements in `answers`, the epochs.
std::vector<Epoch> EpochsIn(MessageInbox* answers) {
  std::vector<Epoch> epochs;
  while (const std::optional<wire::Message> answer = answers->Take(SteadyTime::InfinitePast())) {
    EXPECT_EQ(answer->type, wire::MessageType::kRosterAck);
    epochs.push_back(answer->epoch);
  }
  return epochs;
}

TEST(ShardThreadTest, WhatComesBeforeItIsMadeWaitsInItsOrder) {
  for (const bool own_thread : {false, true}) {
    MessageInbox answers(16);
    absl::Notification may_be_made, made;
    const auto make = [&](ShardProgress* progress) {
      progress->done_bytes += 16;
      may_be_made.WaitForNotification();
      return OneShard();
    };
    const auto wake = [&] {
      if (!made.HasBeenNotified()) made.Notify();
    };
    ShardThread shard(make, &answers, wake, {.own_thread = own_thread});
    EXPECT_TRUE(shard.Put(0, RosterOf(1)));
    EXPECT_TRUE(shard.Put(0, RosterOf(2)));
    shard.Look(0);
    EXPECT_FALSE(shard.made());
    EXPECT_THAT(EpochsIn(&answers), IsEmpty());
    may_be_made.Notify();
    made.WaitForNotification();
    EXPECT_TRUE(shard.made());
    EXPECT_EQ(shard.made_bytes(), 16u);
    shard.Look(0);
    EXPECT_TRUE(shard.Put(0, RosterOf(3)));
    shard.Join();
    EXPECT_THAT(EpochsIn(&answers), ElementsAre(1, 2, 3)) << own_thread;
  }
}

TEST(ShardThreadTest, AShardThatIsNotWantedAnyMoreIsNotMadeToItsEnd) {
  for (const bool own_thread : {false, true}) {
    MessageInbox answers(16);
    const auto make = [](ShardProgress* progress) {
      while (progress->wanted) std::this_thread::yield();
      return OneShard();
    };
    ShardThread shard(make, &answers, [] {}, {.own_thread = own_thread});
    EXPECT_TRUE(shard.Put(0, RosterOf(1)));
    shard.Join();
    EXPECT_FALSE(shard.made());
    EXPECT_THAT(EpochsIn(&answers), IsEmpty());
  }
}

TEST(ShardThreadTest, SaysThatItIsBehindAndAtWhatAndTakesItAllTheSame) {
  MessageInbox answers(16);
  absl::Notification at_work, go_on;
  const auto wake = [&] {
    if (at_work.HasBeenNotified()) return;
    at_work.Notify();
    go_on.WaitForNotification();
  };
  ShardThread shard(OneShard(), &answers, wake, {.queued_bytes_max = 100});
  EXPECT_EQ(shard.BusyFor(0), 0);
  EXPECT_TRUE(shard.Put(0, RosterOf(1)));
  at_work.WaitForNotification();
  EXPECT_GT(shard.BusyFor(NodeLoop::Now() + kSecond), kSecond);
  EXPECT_EQ(shard.WhatItDoes(), "a message of clock -1");
  EXPECT_FALSE(shard.behind());
  wire::Message large = RosterOf(2);
  large.payload.push_back(Buffer::CopyOf(std::string(101, 'x')));
  EXPECT_TRUE(shard.Put(0, large));
  EXPECT_TRUE(shard.behind());
  EXPECT_TRUE(shard.Put(0, RosterOf(3)));
  go_on.Notify();
  shard.Join();
  EXPECT_FALSE(shard.behind());
  EXPECT_THAT(EpochsIn(&answers), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace soapstone::apps
