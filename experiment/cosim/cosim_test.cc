#include "experiment/cosim/cosim.h"

#include <string>
#include <utility>

#include "consistency/catalogue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "server/model/model_gatherer.h"
#include "server/store/store.h"

namespace soapstone::experiment {
namespace {

using cluster::TrainingJob;
using ::testing::HasSubstr;

constexpr char kStalls[] = "jitter:sigma=0.2+stall:p=0.02,factor=6";

std::shared_ptr<const models::TrainTest> Digits() {
  static const auto* const data = new std::shared_ptr<const models::TrainTest>(
      std::make_shared<models::TrainTest>(*models::LoadData(
          {.format = "digits",
           .path = std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz"})));
  return *data;
}

TrainingJob JobOf(const std::string& policy, uint32_t workers, Clock clocks,
                  const std::string& model = "lenet5") {
  auto graph =
      std::make_shared<const models::Graph>(*models::BuildModel(model, Digits()->train.shape, 10));
  auto layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build(graph->params(), {.shard_count = 2}));
  TrainingJob job = {.specs = {.policy = *consistency::ParsePolicy(policy),
                               .optimizer = *compute::ParseOptimizer("momentum:lr=0.03,mu=0.9"),
                               .schedule = *compute::ParseSchedule("constant")},
                     .graph = std::move(graph),
                     .data = Digits(),
                     .layout = std::move(layout),
                     .seed = 3,
                     .batch = 64,
                     .total_clocks = clocks,
                     .workers = workers};
  cluster::Complete(&job);
  return job;
}

CosimResult Train(const TrainingJob& job, const CosimTiming& timing,
                  const CosimOptions& options = {}) {
  auto result = Cosimulate(job, timing, options);
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->timing.violations, 0u) << result->timing.violation.value_or("");
  return *std::move(result);
}

TEST(CosimTest, ARunIsAFunctionOfItsSeeds) {
  for (const char* policy : {"ssp:s=2", "async", "easgd:tau=4,mode=async"}) {
    const TrainingJob job = JobOf(policy, 8, 40);
    const CosimTiming timing = {.stragglers = kStalls, .latency_us = 30, .bandwidth_mbps = 1000};
    const CosimOptions options = {.samples_per_point = 320};
    const CosimResult once = Train(job, timing, options);
    const CosimResult again = Train(job, timing, options);
    EXPECT_EQ(once.sha256, again.sha256) << policy;
    EXPECT_EQ(CurveCsv(once.curve), CurveCsv(again.curve)) << policy;
    CosimTiming other = timing;
    other.seed = 2;  // other delays: other reads
    EXPECT_NE(Train(job, other, options).sha256, once.sha256) << policy;
  }
}

// What the run computes does not move what happens when; but for the value policy, whose gate looks
// at the updates.
TEST(CosimTest, ItsTimingIsThatOfTheTimingOnlyRun) {
  for (const std::string& policy : consistency::ExamplePolicies()) {
    const TrainingJob job = JobOf(policy, 16, 40, "softmax");
    if (job.specs.policy.spec.substr(0, 5) == "value") continue;
    const CosimResult trained = Train(job, {.stragglers = kStalls, .seed = 2});
    const auto counted = sim::RunVirtual({.workers = 16,
                                          .shards = 2,
                                          .policy = policy,
                                          .stragglers = kStalls,
                                          .seed = 2,
                                          .clocks = 40});
    ASSERT_TRUE(counted.ok()) << counted.status();
    EXPECT_EQ(trained.timing.rate, counted->rate) << policy;
    EXPECT_EQ(trained.timing.duration, counted->duration) << policy;
    EXPECT_EQ(trained.timing.blocked_fraction, counted->blocked_fraction) << policy;
    EXPECT_EQ(trained.timing.read_lags, counted->read_lags) << policy;
    EXPECT_EQ(trained.timing.clock_gap_max, counted->clock_gap_max) << policy;
    EXPECT_EQ(trained.iterations + trained.timing.skipped, 16u * 40u);
    EXPECT_NEAR(trained.duration_s, counted->duration / 1000, 1e-9);  // 1 ms an iteration
  }
}

// SHA-256 of the job's initial parameters.
std::string InitialSha256(const TrainingJob& job) {
  return server::HashOfShards(job.layout, [&](ShardId shard, BucketId bucket) {
    return server::TensorStore({.layout = job.layout, .shard = shard, .seed = job.seed})
        .ReadBucket(bucket);
  });
}

TEST(CosimTest, WithoutALearningRateTheParametersStayAsTheyWere) {
  for (const char* policy : {"bsp", "ssp:s=2", "easgd:tau=2,mode=sync"}) {
    TrainingJob job = JobOf(policy, 4, 10);
    const std::string initial = InitialSha256(job);
    EXPECT_NE(Train(job, {}).sha256, initial) << policy;
    job.specs.optimizer.lr = 0;
    EXPECT_EQ(Train(job, {.stragglers = kStalls}).sha256, initial) << policy;
  }
}

TEST(CosimTest, TheCurveRisesAndEndsWithTheRun) {
  const TrainingJob job = JobOf("ssp:s=2", 8, 23 * 12);
  const uint64_t train = Digits()->train.size();
  const CosimResult result = Train(job, {.stragglers = kStalls}, {.samples_per_point = train});
  ASSERT_EQ(result.curve.size(), 12u);
  for (size_t i = 0; i < result.curve.size(); ++i) {
    // A point is made when the sample that completes it is trained on, at the end of a mini-batch.
    EXPECT_GE(result.curve[i].samples, (i + 1) * train);
    EXPECT_LT(result.curve[i].samples, (i + 1) * train + 64);
    if (i == 0) continue;
    EXPECT_GT(result.curve[i].time_s, result.curve[i - 1].time_s);
    EXPECT_GT(result.curve[i].bytes, result.curve[i - 1].bytes);
  }
  EXPECT_EQ(result.curve.back().samples, 12 * train);
  EXPECT_NEAR(result.curve.back().time_s, result.duration_s, 1e-9);
  EXPECT_EQ(result.test_accuracy, result.curve.back().test_accuracy);
  EXPECT_GT(result.test_accuracy, 0.93);
  EXPECT_LT(result.curve.back().train_loss, result.curve.front().train_loss / 3);
  EXPECT_EQ(result.timing.bytes, result.curve.back().bytes);
  const std::optional<double> time = TimeToAccuracy(result.curve, 0.9);
  ASSERT_TRUE(time.has_value());
  EXPECT_LE(*time, result.duration_s);
  EXPECT_FALSE(TimeToAccuracy(result.curve, 1.01).has_value());
}

TEST(CosimTest, ElasticAveragingReportsItsReplicas) {
  const CosimResult result =
      Train(JobOf("easgd:tau=4,mode=async", 8, 23 * 8), {.stragglers = kStalls});
  ASSERT_TRUE(result.replica_accuracy.has_value());
  EXPECT_GT(result.test_accuracy, 0.9);
  EXPECT_GT(result.replica_accuracy->min, 0.5);
  EXPECT_LT(result.replica_accuracy->min, result.replica_accuracy->max);
  EXPECT_LE(result.replica_accuracy->min, result.replica_accuracy->median);
  EXPECT_LE(result.replica_accuracy->median, result.replica_accuracy->max);
  EXPECT_FALSE(Train(JobOf("async", 2, 2), {}).replica_accuracy.has_value());
}

TEST(CosimTest, EveryPolicyLearnsInVirtualTime) {
  for (const std::string& policy : consistency::ExamplePolicies()) {
    const CosimResult result = Train(JobOf(policy, 4, 23 * 10, "softmax"), {.stragglers = kStalls});
    const uint64_t samples = 10 * Digits()->train.size();
    if (policy == "backup:b=1") {  // who is late skips steps
      EXPECT_LT(result.iterations, 4u * 23u * 10u);
      EXPECT_LT(result.curve.back().samples, samples);
      EXPECT_GT(result.curve.back().samples, 3 * samples / 4 - 64);
    } else {
      EXPECT_EQ(result.iterations, 4u * 23u * 10u) << policy;
      EXPECT_EQ(result.curve.back().samples, samples) << policy;
    }
    EXPECT_GT(result.test_accuracy, 0.8) << policy;  // 0.1 by chance
  }
}

TEST(CosimTest, HundredsOfWorkersFit) {
  TrainingJob job = JobOf("ssp:s=4", 200, 12);
  job.batch = 200;
  const CosimResult result = Train(job, {.stragglers = kStalls});
  EXPECT_EQ(result.iterations, 200u * 12u);
  EXPECT_GT(result.test_accuracy, 0.2);  // one in ten by chance
}

TEST(CosimTest, ErrorsNameWhatIsAtFault) {
  const auto error = [](const TrainingJob& job, const CosimTiming& timing) {
    return std::string(Cosimulate(job, timing, {}).status().message());
  };
  TrainingJob job = JobOf("bsp", 4, 1);
  EXPECT_THAT(error(job, {.stragglers = "x"}), HasSubstr("unknown straggler"));
  TrainingJob half = job;
  half.precision = "bf16";
  EXPECT_THAT(error(half, {}), HasSubstr("computes in float32"));
  EXPECT_THAT(error(job, {.iteration_ns = 0}), HasSubstr("iteration time"));
  job.micro_batches = 3;
  EXPECT_THAT(error(job, {}), HasSubstr("3 is less than the 4 workers"));
  job.micro_batches = 65;
  EXPECT_THAT(error(job, {}), HasSubstr("64 samples is less than the 65"));
  job = JobOf("bsp", 4, 0);
  EXPECT_THAT(error(job, {}), HasSubstr("total_clocks"));
  job = JobOf("bsp", 4, 1);
  job.layout = std::make_shared<const wire::Layout>(
      *wire::Layout::Build(job.graph->params(), {.shard_count = 2, .transfer_stages = 2}));
  EXPECT_THAT(error(job, {}), HasSubstr("communication must be fifo"));
}

// Servers' updates, workers' own and sums of peers: a rate that is far too large ends each.
TEST(CosimTest, ARunThatDivergesIsMarked) {
  for (const char* policy : {"bsp", "ssp:s=2", "async", "easgd:tau=2,mode=async", "localsgd:h=2",
                             "allreduce", "tree:group=2"}) {
    TrainingJob job = JobOf(policy, 4, 60);
    job.specs.optimizer = *compute::ParseOptimizer("sgd:lr=1e4");
    const CosimResult result = Train(job, {});
    EXPECT_THAT(result.diverged, HasSubstr("diverged at clock")) << policy;
    EXPECT_THAT(result.diverged, HasSubstr("not finite")) << policy;
    EXPECT_LT(result.iterations, 4u * 60u) << policy;
    job.specs.optimizer = *compute::ParseOptimizer("sgd:lr=0.01");
    EXPECT_EQ(Train(job, {}).diverged, "") << policy;
  }
}

TEST(CosimTest, OneGradientThatIsNotFiniteEndsTheRunOrIsLeftOut) {
  for (const char* policy : {"bsp", "ssp:s=2", "async", "easgd:tau=2,mode=async", "allreduce"}) {
    TrainingJob job = JobOf(policy, 4, 23 * 6, "softmax");
    const CosimResult plain = Train(job, {});
    const CosimTiming spoilt = {.stragglers = "nan:worker=1,clock=40"};
    EXPECT_THAT(Train(job, spoilt).diverged, HasSubstr("diverged at clock 40: the gradient of"))
        << policy;
    job.skip_not_finite = true;
    const CosimResult skipped = Train(job, spoilt);
    EXPECT_EQ(skipped.diverged, "") << policy;
    EXPECT_EQ(skipped.timing.left_out, 1u) << policy;
    EXPECT_NEAR(skipped.test_accuracy, plain.test_accuracy, 0.015) << policy;
    EXPECT_NE(skipped.sha256, plain.sha256) << policy;
    const CosimResult unspoilt = Train(job, {});
    EXPECT_EQ(unspoilt.timing.left_out, 0u) << policy;
    EXPECT_EQ(unspoilt.sha256, plain.sha256) << policy;
  }
}

// What is left out is a micro-batch, not what one worker of so many happened to compute.
TEST(CosimTest, UnderBspWhatIsLeftOutDoesNotDependOnWhoSharesTheRest) {
  std::vector<std::string> hashes;
  for (const uint32_t workers : {1u, 2u, 4u}) {
    TrainingJob job = JobOf("bsp", workers, 20, "softmax");
    job.micro_batches = 4;
    job.skip_not_finite = true;
    // Worker 0's first micro-batch is the first of all.
    hashes.push_back(Train(job, {.stragglers = "nan:worker=0,clock=5"}).sha256);
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

}  // namespace
}  // namespace soapstone::experiment
