// Models for the tests of model batches, and what each computes alone. For tests only.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "compute/init.h"
#include "gtest/gtest.h"
#include "models/runtime/model_batch.h"
#include "models/runtime/model_input.h"
#include "models/zoo/zoo.h"

namespace soapstone::models {

// A replica with parameters, and the samples and gradients of its steps.
class ModelOfBatch {
 public:
  ModelOfBatch(const std::string& name, uint64_t seed, std::shared_ptr<compute::Backend> backend) {
    auto made = GraphRunner::Create(*BuildModel(name, ModelInput{}),
                                    {.backend = std::move(backend), .seed = seed});
    EXPECT_TRUE(made.ok()) << made.status();
    replica_ = *std::move(made);
    const Graph& graph = replica_->graph();
    BufferPool pool = replica_->NewPool();
    for (size_t p = 0; p < graph.params().size(); ++p) {
      const auto id = static_cast<ParamId>(p);
      compute::InitSlice(graph.param(id), seed, id, 0, replica_->param(id));
      gradients_.push_back(pool.Take(graph.param(id).elements() * sizeof(float)));
    }
    Fill(seed);
  }

  BatchedModel batched() {
    BatchedModel model = {.replica = replica_.get(), .feed = &feed_};
    for (const BufferPool::Block& g : gradients_) model.gradients.push_back(g.floats());
    return model;
  }
  std::vector<std::vector<float>> gradients() const {
    std::vector<std::vector<float>> values;
    for (const BufferPool::Block& g : gradients_) {
      values.emplace_back(g.floats().begin(), g.floats().end());
    }
    return values;
  }

 private:
  // Floats, and zeros where integers are asked for: a class that all models have.
  void Fill(uint64_t seed) {
    const CounterRandom random(seed, RandomUse::kTest, 1);
    feed_.samples = 6;
    for (TensorId input : replica_->graph().inputs()) {
      const compute::TensorSpec spec = replica_->graph().tensor(input).spec(feed_.samples);
      feed_.fields.emplace_back(static_cast<size_t>(spec.bytes()));
      if (spec.type != DataType::kFloat32) continue;
      auto* const values = reinterpret_cast<float*>(feed_.fields.back().data());
      for (int64_t i = 0; i < spec.elements(); ++i) {
        values[i] = static_cast<float>(random.Normal(static_cast<uint64_t>(i)));
      }
    }
  }

  std::unique_ptr<GraphRunner> replica_;
  MiniBatch feed_;
  std::vector<BufferPool::Block> gradients_;
};

// Each model alone, then all at once, for `steps` steps: the gradients of the last step have the
// same bits. Model i is of seed i. make_backends(count): for models that run together.
template <typename MakeBackends>
void ExpectTheBitsOfEachAlone(const std::vector<std::string>& names, ModelTurns turns,
                              uint64_t steps, MakeBackends make_backends) {
  const auto go_on = [&](size_t model, uint64_t done) { return done < steps + model; };
  std::vector<std::vector<std::vector<float>>> alone;
  for (size_t i = 0; i < names.size(); ++i) {
    ModelOfBatch model(names[i], i, make_backends(1)[0]);
    const auto go_on_alone = [&](size_t, uint64_t done) { return go_on(i, done); };
    ASSERT_TRUE(RunModelBatch({model.batched()}, turns, go_on_alone).ok());
    alone.push_back(model.gradients());
  }
  const auto backends = make_backends(names.size());
  std::vector<std::unique_ptr<ModelOfBatch>> models;
  std::vector<BatchedModel> batched;
  for (size_t i = 0; i < names.size(); ++i) {
    models.push_back(std::make_unique<ModelOfBatch>(names[i], i, backends[i]));
    batched.push_back(models.back()->batched());
  }
  ASSERT_TRUE(RunModelBatch(batched, turns, go_on).ok());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(models[i]->gradients(), alone[i]) << names[i] << ", model " << i;
    double squares = 0;
    for (float g : alone[i][0]) squares += double{g} * g;
    EXPECT_GT(squares, 0) << names[i];
  }
}

}  // namespace soapstone::models
