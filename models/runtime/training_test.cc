// A graph runner, sampler and optimizer together: a sequential training run on real data, in one
// process.
#include <numeric>
#include <string>
#include <vector>

#include "compute/init.h"
#include "compute/optimizer.h"
#include "compute/schedule.h"
#include "gtest/gtest.h"
#include "models/data/dataset.h"
#include "models/data/sampler.h"
#include "models/runtime/graph_runner.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {
namespace {

constexpr uint64_t kSeed = 1;

struct Recipe {
  std::string model;
  std::string optimizer;
  std::string schedule;
  uint64_t batch;
  Clock epochs;
};

class Trainer {
 public:
  Trainer(const TrainTest& data, const Recipe& recipe)
      : data_(data),
        recipe_(recipe),
        optimizer_(*compute::ParseOptimizer(recipe.optimizer)),
        schedule_(*compute::ParseSchedule(recipe.schedule)),
        sampler_(kSeed, data.train.size(), recipe.batch),
        replica_(std::move(*GraphRunner::Create(
            *BuildModel(recipe.model, data.train.shape, data.train.classes)))) {
    const std::vector<ParamSpec>& params = replica_->graph().params();
    states_.resize(params.size());
    for (uint32_t p = 0; p < params.size(); ++p) {
      compute::InitSlice(params[p], kSeed, ParamId{p}, 0, replica_->param(ParamId{p}));
      gradients_.emplace_back(params[p].elements());
    }
  }

  void Run() {
    const Clock clocks = recipe_.epochs * static_cast<Clock>(sampler_.steps_per_epoch());
    for (Clock c = 0; c < clocks; ++c) Step(c, clocks);
  }

  double HeldOutAccuracy() {
    std::vector<uint64_t> all(data_.test.size());
    std::iota(all.begin(), all.end(), 0);
    data_.test.Gather(all, &inputs_, &labels_);
    replica_->Begin(inputs_, labels_);
    for (size_t op = 0; op < replica_->graph().ops().size(); ++op) replica_->ForwardOp(op);
    return static_cast<double>(replica_->correct()) / static_cast<double>(data_.test.size());
  }

  std::vector<float> Parameters() {
    std::vector<float> all;
    for (uint32_t p = 0; p < states_.size(); ++p) {
      const absl::Span<float> values = replica_->param(ParamId{p});
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  void Step(Clock clock, Clock clocks) {
    const uint64_t n = sampler_.BatchSamples(clock);
    data_.train.Gather(sampler_.Samples(clock, 0, n), &inputs_, &labels_);
    const std::vector<Op>& ops = replica_->graph().ops();
    replica_->Begin(inputs_, labels_);
    for (size_t op = 0; op < ops.size(); ++op) replica_->ForwardOp(op);
    for (size_t op = ops.size(); op-- > 0;) {
      std::vector<absl::Span<float>> to;
      for (ParamId p : ops[op].params) to.push_back(absl::MakeSpan(gradients_[Index(p)]));
      replica_->BackwardOp(op, to);
    }
    const compute::Update update = {
        .lr = compute::LearningRate(optimizer_, schedule_, clock, clocks),
        .scale = 1.0 / static_cast<double>(n)};
    for (uint32_t p = 0; p < states_.size(); ++p) {
      compute::ApplyGradient(optimizer_, update, gradients_[p], replica_->param(ParamId{p}),
                             &states_[p]);
    }
  }

  const TrainTest& data_;
  const Recipe recipe_;
  const compute::OptimizerSpec optimizer_;
  const compute::ScheduleSpec schedule_;
  Sampler sampler_;
  std::unique_ptr<GraphRunner> replica_;
  std::vector<compute::SliceState> states_;
  std::vector<std::vector<float>> gradients_;
  std::vector<float> inputs_;
  std::vector<int32_t> labels_;
};

TrainTest TrainingDigits() {
  auto data = LoadData({.format = "digits",
                        .path = SOAPSTONE_SOURCE_DIR "/data/digits/digits.csv.gz",
                        .seed = kSeed});
  EXPECT_TRUE(data.ok()) << data.status();
  return std::move(*data);
}

double TrainedAccuracy(const TrainTest& data, const Recipe& recipe) {
  Trainer trainer(data, recipe);
  trainer.Run();
  return trainer.HeldOutAccuracy();
}

TEST(Training, Lenet5LearnsDigits) {
  EXPECT_GE(
      TrainedAccuracy(
          TrainingDigits(),
          {.model = "lenet5", .optimizer = "momentum:lr=0.05,mu=0.9", .batch = 32, .epochs = 5}),
      0.93);
}

TEST(Training, SoftmaxLearnsDigits) {
  EXPECT_GE(
      TrainedAccuracy(TrainingDigits(),
                      {.model = "softmax", .optimizer = "sgd:lr=0.5", .batch = 32, .epochs = 10}),
      0.90);
}

TEST(Training, MlpLearnsDigits) {
  EXPECT_GE(TrainedAccuracy(TrainingDigits(), {.model = "mlp",
                                               .optimizer = "adam:lr=0.002",
                                               .schedule = "cosine:warmup=10",
                                               .batch = 32,
                                               .epochs = 8}),
            0.93);
}

TEST(Training, RunsRepeatBitForBit) {
  const TrainTest data = TrainingDigits();
  const Recipe recipe = {
      .model = "lenet5", .optimizer = "momentum:lr=0.05", .batch = 48, .epochs = 1};
  Trainer a(data, recipe);
  Trainer b(data, recipe);
  a.Run();
  b.Run();
  EXPECT_EQ(a.Parameters(), b.Parameters());
}

}  // namespace
}  // namespace soapstone::models
