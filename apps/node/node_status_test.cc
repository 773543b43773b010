#include "apps/node/node_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/node/status_host.h"
#include "base/ids.h"
#include "observe/metrics/exposition.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

NodeStatus OfScheduler(uint32_t workers) {
  NodeStatus status;
  status.job = {.role = "scheduler", .version = "1", .policy = "ssp:s=2", .phase = "running"};
  status.job.progress = {.samples = 1'000'000, .loss = 0.123456789, .eta_s = 12.5};
  for (uint32_t w = 0; w < workers; ++w) {
    status.job.workers.push_back({.worker = w,
                                  .member = true,
                                  .clock = 123'456,
                                  .samples = 98'765'432,
                                  .times = {.compute = 1234.5678, .policy = 0.123456},
                                  .slowdown = 1.03125});
  }
  return status;
}

// With those of the process: at most 64, and 10 for each worker that has its own.
TEST(NodeStatus, ASchedulersSeriesAreBounded) {
  const size_t process = ProcessFamilies().count();
  for (const uint32_t workers : {0u, 1u, 32u, 300u}) {
    const size_t own = std::min<size_t>(workers, kMetricsWorkersMax);
    EXPECT_LE(FamiliesOf(OfScheduler(workers)).count() + process, 64 + 10 * own) << workers;
  }
  EXPECT_LE(metrics::Exposition(FamiliesOf(OfScheduler(32))).size(), 64u << 10);
  EXPECT_THAT(metrics::Exposition(FamiliesOf(OfScheduler(300))),
              HasSubstr("\nsoapstone_workers_omitted 44\n"));
}

// What a job does not have has no series: alerts say nothing of it.
TEST(NodeStatus, WhatALossWouldCostIsThereWhereTheJobHasIt) {
  Job job;
  NodeStatus without = OfScheduler(1);
  AddDurability(job, nullptr, {}, &without);
  const std::string page = metrics::Exposition(FamiliesOf(without));
  EXPECT_THAT(page, Not(HasSubstr("soapstone_checkpoint")));
  EXPECT_THAT(page, Not(HasSubstr("soapstone_replicas")));

  job.replicas = 2;
  wire::Roster roster;
  roster.chains = {{{{ServerId{0}}, {ServerId{1}}}}, {{{ServerId{1}}}}, {{{ServerId{2}}}}};
  NodeStatus with = OfScheduler(1);
  with.checkpoints = {.newest = 400, .every = 20};
  AddDurability(job, nullptr, roster, &with);
  const std::string shown = metrics::Exposition(FamiliesOf(with));
  EXPECT_THAT(shown, HasSubstr("\nsoapstone_replicas_missing 2\n"));
  EXPECT_THAT(shown, HasSubstr("\nsoapstone_checkpoint_clock 400\n"));
  EXPECT_THAT(shown, HasSubstr("\nsoapstone_checkpoint_interval_clocks 20\n"));
}

// At most 42, and 40 for each shard, however many workers have read from it.
TEST(NodeStatus, AServersSeriesAreBounded) {
  NodeStatus status;
  status.job = {.role = "server", .version = "1", .policy = "bsp"};
  Histogram lags;
  for (uint64_t lag = 0; lag < 1000; ++lag) lags.Add(lag);
  const size_t process = ProcessFamilies().count();
  for (uint32_t shards = 1; shards <= 16; ++shards) {
    status.shards.push_back({.read_lags = lags,
                             .stalenesses = lags,
                             .reads = {.shard = ShardId{shards - 1}, .frontier = 7}});
    EXPECT_LE(FamiliesOf(status).count() + process, 42 + 40 * shards);
  }
  EXPECT_THAT(metrics::Exposition(FamiliesOf(status)),
              HasSubstr("\nsoapstone_shard_frontier_clocks{shard=\"15\"} 7\n"));
}

// Of each turn the time that it took, and none of what the loop waits in between.
TEST(StatusHost, TurnsAreCountedByTheTimeThatEachTook) {
  auto host = StatusHost::Start({.address = "127.0.0.1:0"}, {});
  ASSERT_TRUE(host.ok()) << host.status();
  const Nanos began = NodeLoop::Now();
  for (const Nanos took : {0, 20, 2000}) {
    (*host)->Turn(began - took * kMillisecond, [] { return NodeStatus(); });
  }
  (*host)->Turn(NodeLoop::Now() + StatusHost::kEvery, [] { return NodeStatus(); });
  const std::string page = (*host)->PageOf("/metrics", began)->body;
  EXPECT_THAT(page, HasSubstr("soapstone_loop_turn_seconds_bucket{le=\"0.016\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("soapstone_loop_turn_seconds_bucket{le=\"+Inf\"} 4\n"));
}

// At most 62, and none of another worker.
TEST(NodeStatus, AWorkersSeriesAreBounded) {
  NodeStatus status;
  status.job = {.role = "worker", .rank = 299, .version = "1", .policy = "bsp"};
  status.progress.emplace();
  EXPECT_LE(FamiliesOf(status).count() + ProcessFamilies().count(), 62u);
}

}  // namespace
}  // namespace soapstone::apps
