#include "cluster/actor_options.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "consistency/policy.h"
#include "models/zoo/zoo.h"

namespace soapstone::cluster {
namespace {

// A job each of whose values differs from the default of the option that it becomes.
TrainingJob JobOf(const std::string& policy) {
  auto data = std::make_shared<const models::TrainTest>(*models::LoadData(
      {.format = "digits",
       .path = std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz"}));
  auto graph = std::make_shared<const models::Graph>(
      *models::BuildModel("mlp", data->train.shape, data->train.classes));
  auto layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build(graph->params(), {.shard_count = 2}));
  TrainingJob job = {
      .specs = {.policy = *consistency::ParsePolicy(policy),
                .optimizer = *compute::ParseOptimizer("momentum:lr=0.25,mu=0.5"),
                .schedule = *compute::ParseSchedule("cosine:warmup=4"),
                .stragglers = *sim::StragglerModel::Parse("nan:worker=1,clock=5", 3)},
      .graph = std::move(graph),
      .data = std::move(data),
      .given = std::make_shared<const compute::GivenValues>(),
      .layout = std::move(layout),
      .seed = 9,
      .batch = 48,
      .micro_batches = 6,
      .total_clocks = 40,
      .workers = 3,
      .skip_not_finite = true,
      .strict = true,
      .patience_ns = 7 * kSecond,
      .store_fault = server::StoreFault::kDropsUpdates};
  Complete(&job);
  return job;
}

TEST(TrainingJobTest, CompleteFollowsFromTheModel) {
  const TrainingJob job = JobOf("bsp");
  EXPECT_EQ(job.train_samples, job.data->train.size());
  EXPECT_EQ(job.worker_layout, job.layout);
  ASSERT_EQ(job.ops->size(), job.graph->ops().size());
  for (size_t op = 0; op < job.ops->size(); ++op) {
    EXPECT_EQ((*job.ops)[op].params, job.graph->ops()[op].params);
  }
}

TEST(TrainingJobTest, WithPeersAWorkerSeesOneShard) {
  const TrainingJob job = JobOf("allreduce");
  EXPECT_EQ(job.layout->shard_count(), 2u);
  EXPECT_EQ(job.worker_layout->shard_count(), 1u);
  EXPECT_EQ(job.worker_layout->params(), job.layout->params());
}

TEST(TrainingJobTest, WithoutAModelItsSamplesAndOperatorsAreTheMakers) {
  TrainingJob job = JobOf("bsp");
  job.graph = nullptr;
  job.train_samples = 5;
  job.ops = std::make_shared<const std::vector<worker::OpOutline>>(2);
  Complete(&job);
  EXPECT_EQ(job.train_samples, 5u);
  EXPECT_EQ(job.ops->size(), 2u);
}

TEST(ActorOptionsTest, AnEngineIsToldTheWholeJob) {
  const TrainingJob job = JobOf("allreduce");
  const worker::EngineOptions engine = EngineOptionsOf(job, WorkerId{2});
  EXPECT_EQ(engine.id, WorkerId{2});
  EXPECT_EQ(engine.layout, job.worker_layout);
  EXPECT_EQ(engine.ops, job.ops);
  EXPECT_EQ(engine.policy, job.specs.policy);
  EXPECT_EQ(engine.micro_batch_count, 6u);
  EXPECT_EQ(engine.total_clocks, 40);
  EXPECT_EQ(engine.train_samples, job.data->train.size());
  EXPECT_EQ(engine.batch, 48u);
  EXPECT_TRUE(engine.skip_not_finite);
  EXPECT_EQ(engine.patience_ns, 7 * kSecond);
}

TEST(ActorOptionsTest, AnExecutorIsOfItsWorker) {
  const TrainingJob job = JobOf("easgd:tau=4,mode=sync");
  const worker::ExecutorOptions executor = ExecutorOptionsOf(job, WorkerId{1});
  EXPECT_EQ(executor.graph.params(), job.graph->params());
  EXPECT_EQ(executor.data, job.data);
  EXPECT_EQ(executor.layout, job.worker_layout);
  EXPECT_EQ(executor.seed, 9u);
  EXPECT_EQ(executor.batch, 48u);
  EXPECT_EQ(executor.optimizer, job.specs.optimizer);
  EXPECT_EQ(executor.local_momentum, job.specs.policy.local_momentum());
  EXPECT_EQ(executor.schedule, job.specs.schedule);
  EXPECT_EQ(executor.total_clocks, 40);
  EXPECT_EQ(executor.now(), 0);
  EXPECT_FALSE(executor.prefetch);
  EXPECT_EQ(executor.replica, nullptr);
  EXPECT_TRUE(executor.skip_not_finite);
  EXPECT_TRUE(executor.spoils(5));
  EXPECT_FALSE(executor.spoils(6));
  EXPECT_FALSE(ExecutorOptionsOf(job, WorkerId{0}).spoils(5));
}

TEST(ActorOptionsTest, AnExecutorOfTablesHasTheModel) {
  TrainingJob job = JobOf("bsp");
  const worker::SparseExecutorOptions executor = SparseExecutorOptionsOf(job);
  EXPECT_EQ(executor.model, job.tables);
  EXPECT_EQ(executor.layout, job.worker_layout);
  EXPECT_EQ(executor.seed, 9u);
  EXPECT_EQ(executor.batch, 48u);
  EXPECT_TRUE(executor.skip_not_finite);
}

TEST(ActorOptionsTest, AShardCountsRoundsAndItsStoreHasTheRules) {
  const TrainingJob job = JobOf("easgd:tau=4,mode=sync");
  const server::ShardOptions shard = ShardOptionsOf(job, ShardId{1});
  EXPECT_EQ(shard.id, ShardId{1});
  EXPECT_EQ(shard.layout, job.layout);
  EXPECT_EQ(shard.policy, job.specs.policy);
  EXPECT_EQ(shard.micro_batch_count, 6u);
  EXPECT_EQ(shard.final_clock, 10);
  const server::TensorStoreOptions store = StoreOptionsOf(job, ShardId{1});
  EXPECT_EQ(store.layout, job.layout);
  EXPECT_EQ(store.shard, ShardId{1});
  EXPECT_EQ(store.optimizer, job.specs.optimizer);
  EXPECT_EQ(store.schedule, job.specs.schedule);
  EXPECT_EQ(store.total_clocks, 40);
  EXPECT_EQ(store.seed, 9u);
  EXPECT_EQ(store.given, job.given);
  EXPECT_EQ(store.rule, job.specs.policy.store);
  EXPECT_TRUE(store.checks);
  EXPECT_EQ(store.fault, server::StoreFault::kDropsUpdates);
  EXPECT_FALSE(store.fixed_tree);
  EXPECT_TRUE(StoreOptionsOf(JobOf("bsp"), ShardId{0}).fixed_tree);
}

TEST(ActorOptionsTest, APeerStandsBetweenItsWorkerAndTheShards) {
  TrainingJob job = JobOf("allreduce");
  job.stretch_elements = 77;
  const server::PeerOptions peer = PeerOptionsOf(job, WorkerId{2});
  EXPECT_EQ(peer.id, WorkerId{2});
  EXPECT_EQ(peer.worker_layout, job.worker_layout);
  EXPECT_EQ(peer.shard_layout, job.layout);
  EXPECT_EQ(peer.policy, job.specs.policy);
  EXPECT_EQ(peer.total_clocks, 40);
  EXPECT_EQ(peer.stretch_elements, 77u);
  EXPECT_TRUE(peer.checks);
  const server::PeerVectorsOptions vectors = PeerVectorsOptionsOf(job, WorkerId{2});
  EXPECT_EQ(vectors.layout, job.layout);
  EXPECT_EQ(vectors.optimizer, job.specs.optimizer);
  EXPECT_EQ(vectors.schedule, job.specs.schedule);
  EXPECT_EQ(vectors.total_clocks, 40);
  EXPECT_EQ(vectors.seed, 9u);
  EXPECT_EQ(vectors.given, job.given);
  EXPECT_EQ(vectors.fault, server::StoreFault::kDropsUpdates);
}

}  // namespace
}  // namespace soapstone::cluster
