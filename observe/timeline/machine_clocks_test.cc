#include "observe/timeline/machine_clocks.h"

#include <array>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::timeline {
namespace {

constexpr uint32_t kWorkers = 3;
constexpr uint32_t kShards = 2;
// By machine: of the workers, then of the shards.
constexpr std::array<Nanos, kWorkers + kShards> kClockAhead = {0, 7 * kSecond, -90 * kSecond, 5000,
                                                               kSecond};

// A fixed time a way, and there another than back: 10 to 90 us.
Nanos WayOf(uint32_t from, uint32_t to) { return 1000 * (10 + (from * 37 + to * 53) % 81); }

struct Job {
  std::vector<ThreadEvents> threads{kWorkers + kShards};

  Job() {
    for (uint32_t i = 0; i < threads.size(); ++i) {
      const bool worker = i < kWorkers;
      threads[i].kind = worker ? ThreadKind::kWorkerLoop : ThreadKind::kShard;
      threads[i].index = worker ? i : i - kWorkers;
      threads[i].machine = 100 + i;
    }
  }
  void Push(uint32_t worker, uint32_t shard, Nanos at) {
    const uint32_t to = kWorkers + shard;
    const uint64_t flow = worker * kShards + shard + 1;
    const Nanos left = at + kClockAhead[worker];
    const Nanos came = at + WayOf(worker, to) + kClockAhead[to];
    threads[worker].events.push_back({left, left + 1, 0, flow, EventKind::kPush});
    threads[to].events.push_back({came, came + 1, 0, flow, EventKind::kApply, worker});
  }
  void Answer(uint32_t shard, uint32_t worker, Nanos at) {
    const uint32_t from = kWorkers + shard;
    const Nanos left = at + kClockAhead[from];
    const Nanos came = at + WayOf(from, worker) + kClockAhead[worker];
    threads[from].events.push_back({left - 1, left, 0, 0, EventKind::kAnswer, worker});
    threads[worker].events.push_back({came - 1, came, 0, 0, EventKind::kPull, shard});
  }
};

TEST(MachineClocksTest, NoMessageOfAnyPairGoesBackInTime) {
  Job job;
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      job.Push(worker, shard, kMillisecond * worker);
      job.Answer(shard, worker, kSecond);
    }
  }
  const MachineClocks clocks(job.threads);
  for (uint32_t i = 0; i < job.threads.size(); ++i) {
    const MachineClocks::Machine& machine = clocks.machines().at(100 + i);
    EXPECT_TRUE(machine.known);
    EXPECT_LE(std::abs(machine.offset - kClockAhead[i]), machine.error + 1);
    EXPECT_LE(machine.error, 2 * 90'000);
  }
  for (uint32_t worker = 0; worker < kWorkers; ++worker) {
    for (uint32_t shard = 0; shard < kShards; ++shard) {
      const uint32_t at = kWorkers + shard;
      for (const auto& [from, to] : {std::pair(worker, at), std::pair(at, worker)}) {
        const Nanos left = clocks.OnFirst(100 + from, kClockAhead[from]);
        EXPECT_LE(left, clocks.OnFirst(100 + to, WayOf(from, to) + kClockAhead[to]));
      }
    }
  }
}

TEST(MachineClocksTest, OneWayTellsNothing) {
  Job job;
  job.Push(0, 0, 0);
  job.Answer(0, 0, kSecond);
  job.Push(1, 0, 0);
  const MachineClocks clocks(job.threads);
  EXPECT_TRUE(clocks.machines().at(100 + kWorkers).known);
  EXPECT_FALSE(clocks.machines().at(101).known);
  EXPECT_EQ(clocks.machines().at(101).offset, 0);
}

}  // namespace
}  // namespace soapstone::timeline
