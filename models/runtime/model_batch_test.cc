#include "models/runtime/model_batch.h"

#include "compute/cpu/backend.h"
#include "models/runtime/model_batch_fixture.h"

namespace soapstone::models {
namespace {

std::vector<std::shared_ptr<compute::Backend>> CpuBackends(size_t count) {
  std::vector<std::shared_ptr<compute::Backend>> backends;
  for (size_t i = 0; i < count; ++i) backends.push_back(compute::MakeCpuBackend({}));
  return backends;
}

const std::vector<std::string>& Names() {
  static const auto& names =
      *new std::vector<std::string>{"lenet5:tiny", "alexnet:tiny", "lenet5:tiny"};
  return names;
}

TEST(ModelBatchTest, AThreadEachGivesTheBitsOfEachAlone) {
  ExpectTheBitsOfEachAlone(Names(), ModelTurns::kThreadEach, 3, CpuBackends);
}

TEST(ModelBatchTest, InTurnGivesTheBitsOfEachAlone) {
  ExpectTheBitsOfEachAlone(Names(), ModelTurns::kInTurn, 2, CpuBackends);
}

TEST(ModelBatchTest, EachRunsAsManyStepsAsItIsTold) {
  const auto backends = CpuBackends(2);
  ModelOfBatch a("lenet5:tiny", 1, backends[0]), b("mlp:tiny", 2, backends[1]);
  std::vector<uint64_t> done(2);
  const auto go_on = [&](size_t model, uint64_t steps) {
    done[model] = steps;
    return steps < 2 + 3 * model;
  };
  ASSERT_TRUE(RunModelBatch({a.batched(), b.batched()}, ModelTurns::kInTurn, go_on).ok());
  EXPECT_EQ(done, (std::vector<uint64_t>{2, 5}));
}

TEST(ModelBatchTest, RequestsAreThoseOfAReplica) {
  const Graph graph = *BuildModel("lenet5:tiny", ModelInput{});
  const std::vector<compute::KernelRequest> requests = PlainRequests(graph, 4);
  ASSERT_EQ(requests.size(), graph.ops().size());
  EXPECT_EQ(requests[0].inputs[0].spec.shape[0], 4);
  EXPECT_FALSE(requests[0].input_grads_wanted[0]);  // of the data
  EXPECT_EQ(requests[1].inputs[0].spec, requests[0].outputs[0]);
  const auto backend = compute::MakeCpuBackend({});
  EXPECT_TRUE(backend->Prepare(requests[0]).ok());
}

}  // namespace
}  // namespace soapstone::models
