// bsp is sequential SGD, bit for bit: any number of workers and shards, any order of arrival, and
// through the loss of a worker.
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/golden/direct_cluster.h"

namespace soapstone::golden {
namespace {

TEST(SequentialTest, BspHasTheBitsOfSequentialSgd) {
  const std::string expected = TrainSequentially({}).sha256;
  for (uint32_t workers : {1u, 2u, 3u, 4u}) {
    for (uint32_t shards : {1u, 3u}) {
      const TrainingResult result =
          TrainByCluster({.workers = workers, .shards = shards, .order_seed = workers + shards});
      EXPECT_EQ(result.failure, "");
      EXPECT_EQ(result.sha256, expected) << workers << " workers, " << shards << " shards";
    }
  }
}

TEST(SequentialTest, BspDoesNotDependOnTheOrderOfArrival) {
  const std::string expected = TrainByCluster({.workers = 3, .shards = 2, .order_seed = 1}).sha256;
  for (uint64_t order = 2; order < 8; ++order) {
    EXPECT_EQ(TrainByCluster({.workers = 3, .shards = 2, .order_seed = order}).sha256, expected);
  }
}

TEST(SequentialTest, BspKeepsItsBitsForEveryOptimizer) {
  for (const char* optimizer : {"sgd:lr=0.1", "nesterov:lr=0.05,mu=0.9", "adagrad:lr=0.01",
                                "rmsprop:lr=0.001", "adam:lr=0.001", "adamw:lr=0.001,decay=0.01"}) {
    TrainingSetup setup = {.model = "mlp", .optimizer = optimizer, .steps = 12};
    const std::string expected = TrainSequentially(setup).sha256;
    setup.workers = 2;
    setup.shards = 3;
    EXPECT_EQ(TrainByCluster(setup).sha256, expected) << optimizer;
  }
}

TEST(SequentialTest, BspKeepsItsBitsWithUnevenMicroBatches) {
  TrainingSetup setup = {.micro_batches = 7, .batch = 50, .steps = 35};  // last batch: 38 samples
  const std::string expected = TrainSequentially(setup).sha256;
  for (uint32_t workers : {1u, 2u, 5u, 7u}) {
    setup.workers = workers;
    EXPECT_EQ(TrainByCluster(setup).sha256, expected) << workers;
  }
}

TEST(SequentialTest, BspKeepsItsBitsWhenAWorkerIsLost) {
  const std::string expected = TrainSequentially({}).sha256;
  for (uint32_t killed : {0u, 1u, 2u}) {
    for (Clock at : {Clock{1}, Clock{11}, Clock{29}}) {
      for (uint64_t order = 1; order <= 3; ++order) {
        const TrainingResult result = TrainByCluster({.workers = 3,
                                                      .shards = 2,
                                                      .order_seed = order,
                                                      .killed_worker = killed,
                                                      .killed_at = at});
        EXPECT_EQ(result.failure, "");
        EXPECT_EQ(result.sha256, expected) << "worker " << killed << " lost at clock " << at;
      }
    }
  }
}

TEST(SequentialTest, BspKeepsItsBitsByStages) {
  const std::string expected = TrainSequentially({}).sha256;
  for (uint32_t workers : {1u, 2u, 4u}) {
    for (const auto& [shards, transfer_stages] : {std::pair(3u, 3u), std::pair(8u, 4u)}) {
      for (uint64_t order = 1; order <= 3; ++order) {
        const TrainingResult result = TrainByCluster({.workers = workers,
                                                      .shards = shards,
                                                      .transfer_stages = transfer_stages,
                                                      .order_seed = order});
        EXPECT_EQ(result.failure, "");
        EXPECT_EQ(result.sha256, expected)
            << workers << " workers, " << transfer_stages << " stages";
      }
    }
  }
}

// The shards that are not of the first transfer stage are those whose values come when others' are
// loaded.
TEST(SequentialTest, BspKeepsItsBitsByStagesWhenAWorkerIsLost) {
  const std::string expected = TrainSequentially({}).sha256;
  for (uint32_t lost_on : {0u, 1u, 2u}) {
    for (Clock at : {Clock{1}, Clock{11}, Clock{29}}) {
      for (uint64_t order = 1; order <= 3; ++order) {
        const TrainingResult result = TrainByCluster({.workers = 3,
                                                      .shards = 3,
                                                      .transfer_stages = 3,
                                                      .order_seed = order,
                                                      .killed_worker = 1,
                                                      .killed_at = at,
                                                      .lost_on = lost_on,
                                                      .notice_after = 150});
        EXPECT_EQ(result.failure, "");
        EXPECT_EQ(result.sha256, expected) << "shard " << lost_on << ", lost at clock " << at;
      }
    }
  }
}

TEST(SequentialTest, OneWorkerOfAnyGradientPolicyIsSequentialSgd) {
  TrainingSetup setup = {.micro_batches = 1};
  const std::string expected = TrainSequentially(setup).sha256;
  for (const std::string& policy : consistency::ExamplePolicies()) {
    if (!consistency::ParsePolicy(policy)->pushes_gradients()) continue;
    setup.policy = policy;
    EXPECT_EQ(TrainByCluster(setup).sha256, expected) << policy;
  }
}

}  // namespace
}  // namespace soapstone::golden
