// Decentralised policies, co-simulated: real gradients through the shipped peers.
#include <set>
#include <string>
#include <utility>

#include "consistency/catalogue.h"
#include "experiment/cosim/cosim.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"

namespace soapstone::experiment {
namespace {

constexpr char kPeerStalls[] = "jitter:sigma=0.2+stall:p=0.02,factor=6";
constexpr Clock kEpochs = 10, kClocks = 23 * kEpochs;

std::shared_ptr<const models::TrainTest> PeerDigits() {
  static const auto* const data = new std::shared_ptr<const models::TrainTest>(
      std::make_shared<models::TrainTest>(*models::LoadData(
          {.format = "digits",
           .path = std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz"})));
  return *data;
}

cluster::TrainingJob PeerJobOf(const std::string& policy, uint32_t workers, Clock clocks = kClocks,
                               const std::string& optimizer = "momentum:lr=0.03,mu=0.9") {
  auto graph = std::make_shared<const models::Graph>(
      *models::BuildModel("softmax", PeerDigits()->train.shape, 10));
  auto layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build(graph->params(), {.shard_count = 2}));
  cluster::TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy(policy),
                                        .optimizer = *compute::ParseOptimizer(optimizer),
                                        .schedule = *compute::ParseSchedule("constant")},
                              .graph = std::move(graph),
                              .data = PeerDigits(),
                              .layout = std::move(layout),
                              .seed = 3,
                              .batch = 64,
                              .total_clocks = clocks,
                              .workers = workers};
  cluster::Complete(&job);
  return job;
}

CosimResult TrainPeers(const cluster::TrainingJob& job,
                       const std::string& stragglers = kPeerStalls) {
  auto result = Cosimulate(job, {.stragglers = stragglers, .latency_us = 20}, {});
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->timing.violations, 0u) << result->timing.violation.value_or("");
  return *std::move(result);
}

TEST(PeerCosimTest, EveryPolicyLearns) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    const CosimResult result = TrainPeers(PeerJobOf(policy, 4));
    EXPECT_GT(result.test_accuracy, 0.8) << policy;  // 0.1 by chance
    ASSERT_TRUE(result.replica_accuracy.has_value()) << policy;
    EXPECT_GT(result.replica_accuracy->min, 0.7) << policy;
    const bool same = consistency::ParsePolicy(policy)->guarantee.same_replicas;
    EXPECT_EQ(same, result.replica_accuracy->min == result.replica_accuracy->max) << policy;
  }
}

TEST(PeerCosimTest, ARunIsAFunctionOfItsSeeds) {
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    const cluster::TrainingJob job = PeerJobOf(policy, 5, 40);
    EXPECT_EQ(TrainPeers(job).sha256, TrainPeers(job).sha256) << policy;
  }
}

// Sequential SGD is bsp with one worker.
TEST(PeerCosimTest, OneWorkerOfAnyPolicyIsSequential) {
  const std::string sequential = TrainPeers(PeerJobOf("bsp", 1, 60)).sha256;
  for (const std::string& policy : consistency::ExamplePeerPolicies()) {
    EXPECT_EQ(TrainPeers(PeerJobOf(policy, 1, 60)).sha256, sequential) << policy;
  }
}

// The same sums as bsp's in another order, whatever the delays; and one order for every delay.
TEST(PeerCosimTest, AllReduceIsBspUpToRounding) {
  const CosimResult bsp = TrainPeers(PeerJobOf("bsp", 4));
  const CosimResult ring = TrainPeers(PeerJobOf("allreduce", 4));
  EXPECT_NEAR(ring.test_loss, bsp.test_loss, 1e-4 * bsp.test_loss);
  EXPECT_EQ(TrainPeers(PeerJobOf("allreduce", 4), "none").sha256, ring.sha256);
  const CosimResult groups = TrainPeers(PeerJobOf("allreduce:group=2", 4));
  EXPECT_NEAR(groups.test_loss, bsp.test_loss, 1e-4 * bsp.test_loss);
  // A group of all, or of one, is the flat ring.
  EXPECT_EQ(TrainPeers(PeerJobOf("allreduce:group=4", 4)).sha256, ring.sha256);
}

// Stretches change who sums what, for two workers not the bits, for more one order for all.
TEST(PeerCosimTest, AllReduceByStretches) {
  const auto train = [](uint32_t workers, uint64_t stretch_elements, const std::string& delays) {
    cluster::TrainingJob job = PeerJobOf("allreduce", workers, 60);
    job.stretch_elements = stretch_elements;
    return TrainPeers(job, delays);
  };
  EXPECT_EQ(train(2, 100, kPeerStalls).sha256, train(2, 1000, kPeerStalls).sha256);
  const CosimResult whole = train(4, 1000, kPeerStalls);
  for (const uint64_t elements : {100u, 7u}) {
    const CosimResult stretches = train(4, elements, kPeerStalls);
    EXPECT_EQ(train(4, elements, "none").sha256, stretches.sha256);
    EXPECT_NEAR(stretches.test_loss, whole.test_loss, 1e-4 * whole.test_loss);
  }
}

// Complete-graph gossip without momentum: x_i <- mean x - lr g_i keeps the mean where all-reduce
// with P times the rate would have it, were all gradients taken at the mean.
TEST(PeerCosimTest, GossipOnTheCompleteGraphAveragesAsAllReduceDoes) {
  const cluster::TrainingJob one =
      PeerJobOf("gossip:mode=dpsgd,graph=complete", 4, 1, "sgd:lr=0.1");
  // One step from equal values: mean_i (x - lr g_i / n_i) is x - lr (1/n) sum g for equal shares.
  const CosimResult gossip = TrainPeers(one);
  const CosimResult reduce = TrainPeers(PeerJobOf("allreduce", 4, 1, "sgd:lr=0.1"));
  EXPECT_NEAR(gossip.test_loss, reduce.test_loss, 1e-6 * reduce.test_loss);
}

TEST(PeerCosimTest, EagerDoesNotWaitForTheSlow) {
  const std::string slow = "slow:workers=1,factor=4";
  const double all = TrainPeers(PeerJobOf("allreduce", 4), slow).duration_s;
  const double solo = TrainPeers(PeerJobOf("eager:mode=solo", 4), slow).duration_s;
  EXPECT_LT(solo, 0.4 * all);
}

}  // namespace
}  // namespace soapstone::experiment
