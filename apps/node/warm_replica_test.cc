#include "apps/node/warm_replica.h"

#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

// What was computed to warm it leaves no trace: a step has the bits of one in a fresh replica.
TEST(WarmReplicaTest, ComputesAsAFreshReplicaDoes) {
  wire::JobConfig config;
  config.set_model("lenet5");
  config.mutable_data()->set_path(std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz");
  config.mutable_training()->set_epochs(1);
  config.mutable_training()->set_batch(48);
  config.mutable_cluster()->set_servers(1);
  config.mutable_cluster()->set_workers(4);
  for (const char* policy : {"bsp", "ssp:s=1"}) {
    config.set_policy(policy);
    const std::shared_ptr<const Job> job = *PrepareJob(config);
    const std::shared_ptr<models::GraphRunner> warm = *WarmReplica(*job, 0);
    const std::shared_ptr<models::GraphRunner> fresh =
        *models::GraphRunner::Create(*job->graph, {.seed = job->config.training().seed()});
    std::vector<float> inputs;
    std::vector<int32_t> labels;
    job->data->train.Gather({1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233}, &inputs, &labels);
    for (models::GraphRunner* replica : {warm.get(), fresh.get()}) {
      for (size_t p = 0; p < job->graph->params().size(); ++p) {
        int i = 0;
        for (float& x : replica->param(ParamId{static_cast<uint32_t>(p)})) {
          x = 0.01f * static_cast<float>(i++ % 11 - 5);
        }
      }
      replica->Begin(inputs, labels);
      for (size_t op = 0; op < job->graph->ops().size(); ++op) replica->ForwardOp(op);
    }
    EXPECT_GT(fresh->loss_sum(), 0) << policy;
    EXPECT_EQ(warm->loss_sum(), fresh->loss_sum()) << policy;
    EXPECT_EQ(warm->logits(), fresh->logits()) << policy;
  }
}

// Memory is for the samples that there are, not for those that are asked for.
TEST(WarmReplicaTest, ABatchLargerThanTheDataTakesWhatTheDataTake) {
  wire::JobConfig config;
  config.set_model("lenet5");
  config.mutable_data()->set_path(std::string(SOAPSTONE_SOURCE_DIR) + "/data/digits/digits.csv.gz");
  config.mutable_training()->set_epochs(1);
  config.mutable_training()->set_batch(1'000'000'000);
  config.mutable_cluster()->set_servers(1);
  config.mutable_cluster()->set_workers(2);
  const auto warm = WarmReplica(**PrepareJob(config), 0);
  EXPECT_TRUE(warm.ok()) << warm.status();
}

}  // namespace
}  // namespace soapstone::apps
