#include "cluster/job.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"

namespace soapstone::apps {
namespace {

// Of `workers` on the processors: a server's two versions, a worker's values and gradient.
Job JobOf(uint32_t workers) {
  Job job;
  job.graph = std::make_shared<const models::Graph>(*models::BuildModel("mlp", {1, 8, 8}, 10));
  job.config.set_model("mlp");
  job.config.mutable_cluster()->set_workers(workers);
  return job;
}

TEST(ParametersFitTest, IsTwoVersionsAndTwoAWorker) {
  const Job job = JobOf(3);
  const uint64_t needed = 8 * sizeof(float) * job.graph->parameter_count();
  EXPECT_TRUE(CheckParametersFit(job, needed).ok());
  const absl::Status less = CheckParametersFit(job, needed - 1);
  EXPECT_TRUE(absl::IsResourceExhausted(less));
  EXPECT_THAT(less.message(), testing::HasSubstr("the parameters of mlp need"));
  EXPECT_THAT(less.message(), testing::HasSubstr("each of 3 workers"));
}

TEST(ParametersFitTest, DevicesHaveTheWorkersOwn) {
  Job job = JobOf(3);
  job.config.mutable_cluster()->set_device("cuda");
  const uint64_t needed = 2 * sizeof(float) * job.graph->parameter_count();
  EXPECT_TRUE(CheckParametersFit(job, needed).ok());
  EXPECT_FALSE(CheckParametersFit(job, needed - 1).ok());
}

TEST(ParametersFitTest, TablesAndTeamsSayItThemselves) {
  Job tables = JobOf(3), team = JobOf(3);
  tables.graph = nullptr;
  team.team = std::make_shared<const cluster::TeamJob>();
  EXPECT_TRUE(CheckParametersFit(tables, 0).ok());
  EXPECT_TRUE(CheckParametersFit(team, 0).ok());
}

}  // namespace
}  // namespace soapstone::apps
