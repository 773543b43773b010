// The degeneracy lattice: where the numbers of a policy make it another one, it trains to the same
// bits, message for message in the same order. Where only the arithmetic is arranged otherwise, to
// within rounding.
#include <cmath>
#include <cstdio>

#include "gtest/gtest.h"
#include "tests/golden/direct_cluster.h"

namespace soapstone::golden {
namespace {

TrainingResult Train(TrainingSetup setup, const std::string& policy) {
  setup.policy = policy;
  TrainingResult result = TrainByCluster(setup);
  EXPECT_EQ(result.failure, "") << policy;
  EXPECT_EQ(result.violations, 0u) << policy;
  return result;
}

const TrainingSetup kThree = {.model = "mlp", .workers = 3, .shards = 2, .steps = 20};

struct Degeneracy {
  const char* policy;
  const char* becomes;
};

class DegeneracyTest : public testing::TestWithParam<Degeneracy> {};

TEST_P(DegeneracyTest, HasTheSameBits) {
  for (uint64_t order = 1; order <= 4; ++order) {
    TrainingSetup setup = kThree;
    setup.order_seed = order;
    EXPECT_EQ(Train(setup, GetParam().policy).sha256, Train(setup, GetParam().becomes).sha256)
        << GetParam().policy << " is not " << GetParam().becomes << " in order " << order;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lattice, DegeneracyTest,
    testing::Values(Degeneracy{"ssp:s=1000000", "async"},
                    Degeneracy{"dssp:lower=1,upper=1", "ssp:s=1"},
                    Degeneracy{"psp:sample=2,s=1", "ssp:s=1"},
                    Degeneracy{"pssp:s=1,p=1", "ssp:s=1"}, Degeneracy{"pssp:s=1,p=0", "async"},
                    Degeneracy{"softsync:n=3", "async"}, Degeneracy{"dcasgd:lambda=0", "async"},
                    Degeneracy{"backup:b=0", "bsp"}, Degeneracy{"tree:group=3,s=2", "bsp"},
                    Degeneracy{"bmuf:h=4,eta=0,zeta=1,nesterov=0", "bmuf:h=4,eta=0,zeta=1"}));

// What is the same in general must not be the same by default: the bits of other policies differ.
TEST(DegeneracyTest, OtherPoliciesHaveOtherBits) {
  TrainingSetup setup = kThree;
  const std::string async = Train(setup, "async").sha256;
  for (const char* policy :
       {"ssp:s=0", "softsync:n=1", "softsync:n=3,rate=each", "dcasgd:lambda=1", "bsp",
        "localsgd:h=4", "easgd:tau=4", "backup:b=1", "tree:group=2,s=0"}) {
    EXPECT_NE(Train(setup, policy).sha256, async) << policy;
  }
}

// One shard: value asks shards one after another, which is another order of messages.
TEST(DegeneracyTest, ValueWithoutBoundIsAsync) {
  TrainingSetup setup = kThree;
  setup.shards = 1;
  EXPECT_EQ(Train(setup, "value:v0=1e9").sha256, Train(setup, "async").sha256);
}

TEST(DegeneracyTest, BlockMomentumOfNothingIsAveraging) {
  TrainingSetup setup = kThree;
  setup.optimizer = "sgd:lr=0.05";  // without momentum there is none to forget
  EXPECT_EQ(Train(setup, "bmuf:h=4,eta=0,zeta=1").sha256, Train(setup, "localsgd:h=4").sha256);
}

TEST(DegeneracyTest, ElasticAveragingWithoutForceLeavesTheCentre) {
  TrainingSetup setup = kThree;
  setup.steps = 8;
  const std::vector<float> after = Train(setup, "easgd:tau=2,beta=0").parameters;
  setup.optimizer = "sgd:lr=0";
  EXPECT_EQ(after, Train(setup, "async").parameters);
}

double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double distance = 0;
  double norm = 0;
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(distance / norm);
}

// x + sum_i (n_i / n) (-lr g_i) = x - lr sum_i (n_i / n) g_i, but for rounding.
TEST(DegeneracyTest, OneLocalStepIsBsp) {
  TrainingSetup setup = kThree;
  setup.optimizer = "sgd:lr=0.05";
  setup.steps = 10;
  const double distance =
      RelativeDistance(Train(setup, "localsgd:h=1").parameters, Train(setup, "bsp").parameters);
  EXPECT_LT(distance, 1e-6);
  EXPECT_GT(
      RelativeDistance(Train(setup, "localsgd:h=2").parameters, Train(setup, "bsp").parameters),
      1e-5);
}

// L2: without learning, averaging moves nothing.
TEST(DegeneracyTest, LocalStepsOfRateZeroLeaveTheMean) {
  TrainingSetup setup = kThree;
  setup.optimizer = "sgd:lr=0";
  EXPECT_EQ(Train(setup, "localsgd:h=4").sha256, Train(setup, "bsp").sha256);
}

class LearningTest : public testing::TestWithParam<std::string> {};

// The rate is each policy's own: what is stable without staleness need not be with it.
TEST_P(LearningTest, Learns) {
  TrainingSetup setup = {.workers = 3, .shards = 2, .steps = 23 * 15, .order_seed = 3};
  if (GetParam().starts_with("eamsgd")) setup.optimizer = "sgd:lr=0.01";
  if (GetParam().ends_with("rate=each")) setup.optimizer = "momentum:lr=0.02,mu=0.9";
  if (GetParam().starts_with("dcasgd")) setup.optimizer = "momentum:lr=0.03,mu=0.9";
  const TrainingResult result = Train(setup, GetParam());
  EXPECT_GE(result.test_accuracy, 0.95);
  std::printf("%-36s test accuracy %.4f\n", GetParam().c_str(), result.test_accuracy);
}

INSTANTIATE_TEST_SUITE_P(Policies, LearningTest,
                         testing::Values("bsp", "ssp:s=0", "ssp:s=3", "essp:s=3",
                                         "dssp:lower=1,upper=8", "psp:sample=1,s=1", "pssp:s=2",
                                         "async", "softsync:n=1", "softsync:n=3,rate=each",
                                         "dcasgd:lambda=0.04", "dcasgd:lambda=0.04,m=0.95",
                                         "backup:b=1", "tree:group=2,s=1", "value:v0=0.05",
                                         "easgd:tau=4,mode=sync", "easgd:tau=4,mode=async",
                                         "eamsgd:tau=4,delta=0.9", "localsgd:h=4",
                                         "bmuf:h=4,eta=0.3"));

}  // namespace
}  // namespace soapstone::golden
