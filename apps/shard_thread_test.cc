#include "apps/shard_thread.h"

#include <sched.h>

#include <memory>
#include <set>
#include <utility>

#include "apps/cpu_placement.h"
#include "compute/optimizer.h"
#include "consistency/catalogue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "wire/layout.h"

namespace soapstone::apps {
namespace {

using testing::ElementsAre;

std::unique_ptr<server::Shard> OneShard() {
  const auto layout =
      std::make_shared<const wire::Layout>(*wire::Layout::Build({{"p", {4}, {}}}, {}));
  return std::make_unique<server::Shard>(
      server::ShardOptions{.id = ShardId{0},
                           .layout = layout,
                           .policy = *consistency::ParsePolicy("async"),
                           .final_clock = 1},
      server::Store(server::TensorStoreOptions{.layout = layout,
                                               .shard = ShardId{0},
                                               .optimizer = *compute::ParseOptimizer("sgd"),
                                               .total_clocks = 1}));
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

}  // namespace
}  // namespace soapstone::apps
