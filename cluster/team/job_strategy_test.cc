#include "cluster/team/job_strategy.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "consistency/catalogue.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/zoo.h"
#include "strategy/op_graph.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

models::Graph Mlp() { return *models::BuildModel("mlp:tiny", {.image = {1, 2, 4}, .classes = 4}); }

// A strategy of two devices, each of which has half of the operators, whole; for a batch of 8.
class JobStrategyTest : public ::testing::Test {
 protected:
  ~JobStrategyTest() override { unlink(path_.c_str()); }

  wire::JobConfig ConfigOf(uint32_t teams, int64_t micro_batches = 2,
                           const std::string& synchronization = "servers") {
    std::ofstream file(path_);
    const planner::OpGraph graph =
        *planner::MakeOpGraph(Mlp(), {.batch = 8, .micro_batches = micro_batches});
    file << "version: 1 model: '" << graph.model << "' model_sha256: '" << graph.model_sha256
         << "' devices: 2 batch: 8 micro_batches: " << micro_batches << " synchronization: '"
         << synchronization << "'\n";
    const size_t ops = graph.ops.size() / static_cast<size_t>(micro_batches);
    for (size_t k = 0; k < graph.ops.size(); ++k) {
      file << "ops { name: '" << graph.ops[k].name << "' devices: " << (2 * (k % ops) < ops ? 0 : 1)
           << " }\n";
    }
    wire::JobConfig config;
    config.mutable_cluster()->set_strategy(path_);
    config.mutable_cluster()->set_teams(teams);
    return config;
  }
  static std::string WhyNot(wire::JobConfig config, const std::string& policy = "bsp") {
    const absl::Status filled = FillFromStrategy(&config);
    if (!filled.ok()) return std::string(filled.message());
    config.mutable_cluster()->set_communication("fifo");
    config.mutable_cluster()->set_precision("float32");
    config.mutable_training()->set_stragglers("none");
    const cluster::JobSpecs specs = {.policy = *consistency::ParsePolicy(policy)};
    return std::string(
        CheckStrategyGoes(config, specs, ReadJobStrategy(config)->strategy).message());
  }
  static absl::StatusOr<std::shared_ptr<const cluster::TeamJob>> Teams(
      const wire::JobConfig& config, uint64_t train_samples, const std::string& policy = "bsp") {
    return MakeTeams(*ReadJobStrategy(config), Mlp(),
                     {.teams = config.cluster().teams(),
                      .train_samples = train_samples,
                      .test_samples = 10,
                      .policy = *consistency::ParsePolicy(policy)});
  }

  const std::string path_ =
      absl::StrCat(::testing::TempDir(), "job-strategy-", getpid(), ".textproto");
};

TEST_F(JobStrategyTest, SizesThatTheJobLeavesOpenAreOfAllTeams) {
  for (const char* kept_by : {"owner", "ring"}) {
    wire::JobConfig config = ConfigOf(3, 2, kept_by);
    ASSERT_TRUE(FillFromStrategy(&config).ok());
    EXPECT_EQ(config.model(), "mlp");
    EXPECT_EQ(config.cluster().workers(), 6u);
    EXPECT_EQ(config.cluster().servers(), 2u);  // beside team 0
    EXPECT_EQ(config.training().batch(), 24u);
    EXPECT_EQ(config.training().micro_batches(), 6u);
  }
  EXPECT_EQ(WhyNot(ConfigOf(3)), "");
}

TEST_F(JobStrategyTest, NoNumberOfTeamsIsOne) {
  wire::JobConfig config = ConfigOf(0);
  ASSERT_TRUE(FillFromStrategy(&config).ok());
  EXPECT_EQ(config.cluster().teams(), 1u);
  EXPECT_EQ(config.cluster().workers(), 2u);
}

TEST_F(JobStrategyTest, OtherSizesAreRefusedWithWhatWouldDo) {
  wire::JobConfig config = ConfigOf(0);
  config.mutable_cluster()->set_workers(6);
  EXPECT_THAT(WhyNot(config), HasSubstr("is for 2 devices; the job has 6 workers: leave that out, "
                                        "or take --teams=3, or plan with --devices=6"));
  config = ConfigOf(2);
  config.mutable_cluster()->set_workers(3);
  EXPECT_THAT(WhyNot(config),
              HasSubstr("2 devices, which of 2 teams are 4; the job has 3 workers"));
  config = ConfigOf(2);
  config.mutable_training()->set_batch(8);
  EXPECT_THAT(WhyNot(config), HasSubstr("a batch of 8, which of 2 teams are 16; training.batch is "
                                        "8: leave that out, or plan with --batch=4"));
  config = ConfigOf(2);
  config.mutable_training()->set_micro_batches(2);
  EXPECT_THAT(WhyNot(config), HasSubstr("which of 2 teams are 4; training.micro_batches is 2: "
                                        "leave that out, or plan with --micro_batches=1"));
  EXPECT_THAT(WhyNot(ConfigOf(UINT32_MAX)), HasSubstr("too many"));
}

TEST_F(JobStrategyTest, UnderAFixedTreeATeamsSumIsOneOfItsNodes) {
  EXPECT_THAT(WhyNot(ConfigOf(2, 3)), HasSubstr("plan with --micro_batches=2 or 4"));
  EXPECT_EQ(WhyNot(ConfigOf(2, 3), "ssp:s=1"), "");
  EXPECT_EQ(WhyNot(ConfigOf(1, 3)), "");
  for (const uint32_t teams : {1u, 2u, 3u, 5u, 8u}) {
    for (const int64_t m : {1, 2, 4, 8}) EXPECT_EQ(WhyNot(ConfigOf(teams, m)), "") << teams;
  }
}

TEST_F(JobStrategyTest, TeamsAreLoweredForTheSamplesThatTheyHave) {
  // Batches of 16 and, at the end of an epoch, 11: of the first team 5.
  const auto teams = *Teams(ConfigOf(2), 27);
  EXPECT_EQ(teams->shape, (wire::TeamShape{.teams = 2, .seats = 2}));
  EXPECT_EQ(teams->evaluation_batch, 8u);
  EXPECT_EQ(teams->evaluation_batches, 2u);
  std::vector<int64_t> sizes;
  for (const auto& [samples, program] : teams->plan.steps) sizes.push_back(samples);
  EXPECT_THAT(sizes, testing::ElementsAre(5, 6, 8));
}

TEST_F(JobStrategyTest, PoliciesWhoseMembersMayBeTeams) {
  for (const char* policy :
       {"bsp", "ssp:s=1", "essp:s=1", "dssp", "psp", "pssp", "async", "softsync", "dcasgd", "easgd",
        "easgd:mode=sync", "eamsgd", "localsgd", "bmuf", "allreduce", "gossip:mode=dpsgd",
        "gossip:mode=gossipgrad", "gossip:mode=adpsgd", "gossip:mode=pushsum"}) {
    EXPECT_EQ(WhyNot(ConfigOf(2), policy), "") << policy;
    EXPECT_TRUE(Teams(ConfigOf(2), 27, policy).ok()) << policy;  // each piece has one holder
  }
  for (const char* policy : {"backup", "tree", "value", "eager:mode=solo", "eager:mode=majority"}) {
    EXPECT_THAT(WhyNot(ConfigOf(2), policy), HasSubstr("does not take a model that is split"))
        << policy;
  }
}

TEST_F(JobStrategyTest, WhatSeveralHoldIsNotSteppedByOne) {
  wire::JobConfig config = ConfigOf(2, 1);
  std::ifstream file(path_);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string whole = "ops { name: 'fc1' devices: 0 }";
  const size_t at = text.find(whole);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, whole.size(),
               "ops { name: 'fc1' splits { dim: 'n' parts: 2 } devices: 0 devices: 1 }");
  std::ofstream(path_) << text;
  EXPECT_TRUE(Teams(config, 27, "ssp:s=1").ok());
  EXPECT_TRUE(Teams(config, 27, "softsync").ok());
  for (const char* policy : {"easgd", "eamsgd", "localsgd", "bmuf", "allreduce", "gossip"}) {
    const std::string why(Teams(config, 27, policy).status().message());
    EXPECT_THAT(why, HasSubstr(path_));
    EXPECT_THAT(why, HasSubstr("several have fc1.weight (workers 0, 1), fc1.bias (workers 0, 1): "
                               "leave operators that have parameters whole"));
  }
}

// Others count a reader's clock as that of what it has pushed, or compare with what it read last.
TEST_F(JobStrategyTest, SeveralStepsUnderWayNeedAPlainBound) {
  const auto why_not = [&](const char* policy) {
    wire::JobConfig config = ConfigOf(2);
    std::ofstream(path_, std::ios::app) << "staleness: 1\n";
    return WhyNot(config, policy);
  };
  EXPECT_EQ(why_not("ssp:s=1"), "");
  EXPECT_EQ(why_not("async"), "");
  for (const char* policy :
       {"essp:s=2", "softsync", "dcasgd", "easgd", "localsgd", "allreduce", "gossip"}) {
    EXPECT_THAT(why_not(policy), HasSubstr("take --policy=ssp:s=1 or more, or async")) << policy;
  }
}

TEST_F(JobStrategyTest, ALastBatchWithoutSamplesForAllIsRefused) {
  const auto why = Teams(ConfigOf(2), 19).status();
  EXPECT_THAT(std::string(why.message()), HasSubstr("a batch of 3 samples, an epoch's last, has "
                                                    "none for some micro-batch of 2 teams"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("training.batch: 14 would do (plan with "
                                                    "--batch=7)"));
  EXPECT_TRUE(Teams(ConfigOf(2), 20).ok());
}

// Of 11 samples in eight micro-batches the third ends at 4; of team 0's five in four it would at 3.
TEST_F(JobStrategyTest, UnderAFixedTreeTheLastBatchIsCutAsByOneTeam) {
  const auto why = Teams(ConfigOf(2, 4), 27).status();
  EXPECT_THAT(std::string(why.message()), HasSubstr("is cut into other micro-batches by 2 teams"));
  EXPECT_TRUE(Teams(ConfigOf(2, 4), 27, "ssp:s=1").ok());
}

}  // namespace
}  // namespace soapstone::apps
