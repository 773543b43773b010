#include "apps/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "apps/job.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const char kDigits[] = SOAPSTONE_SOURCE_DIR "/data/digits/digits.csv.gz";

wire::JobConfig GoodConfig() {
  wire::JobConfig config;
  config.set_model("softmax");
  config.mutable_data()->set_path(kDigits);
  config.mutable_training()->set_epochs(1);
  config.mutable_training()->set_batch(32);
  config.mutable_cluster()->set_servers(2);
  config.mutable_cluster()->set_workers(3);
  FillDefaults(&config);
  return config;
}

const JobField* FieldOf(std::string_view flag) {
  for (const JobField& field : JobFields()) {
    if (field.flag == flag) return &field;
  }
  return nullptr;
}

// What PrepareJob says of the good configuration with one flag changed.
std::string ErrorWith(std::string_view flag, const std::string& value) {
  wire::JobConfig config = GoodConfig();
  const JobOverride change{FieldOf(flag), value};
  const absl::Status applied = ApplyOverrides({&change, 1}, &config);
  const absl::Status status = applied.ok() ? PrepareJob(config).status() : applied;
  EXPECT_FALSE(status.ok()) << flag << "=" << value;
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
  return std::string(status.message());
}

TEST(JobText, ErrorHasFileLineAndColumn) {
  const auto parsed = ParseJobText("model: \"mlp\"\ntraining {\n  epoch: 3\n}\n", "a.textproto");
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("a.textproto:3:"));
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("epoch"));
}

TEST(JobText, NegativeNumberIsAnErrorWithItsPlace) {
  const auto parsed = ParseJobText("training { epochs: -1 }", "a.textproto");
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("a.textproto:1:20"));
}

TEST(JobText, UnbalancedBraceIsAnError) { EXPECT_FALSE(ParseJobText("training {", "a").ok()); }

TEST(JobText, RoundTrip) {
  const wire::JobConfig config = GoodConfig();
  const auto parsed = ParseJobText(JobText(config), "a");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(JobText(*parsed), JobText(config));
}

TEST(JobText, MissingFileIsNamed) {
  EXPECT_THAT(std::string(ReadJobFile("/nowhere/job.textproto").status().message()),
              HasSubstr("/nowhere/job.textproto: No such file"));
}

TEST(JobOverrides, EveryFieldCanBeSet) {
  for (const JobField& field : JobFields()) {
    wire::JobConfig config;
    const JobOverride change{&field, "1"};
    EXPECT_TRUE(ApplyOverrides({&change, 1}, &config).ok()) << field.flag;
    EXPECT_THAT(JobText(config), HasSubstr(IsSwitch(field) ? "true" : "1")) << field.flag;
  }
}

TEST(JobOverrides, NegativeAndFractionalCountsAreRefused) {
  EXPECT_EQ(ErrorWith("epochs", "-1"),
            "--epochs=-1: a whole number from 0 to 4294967295 is needed");
  EXPECT_THAT(ErrorWith("batch", "1.5"), HasSubstr("--batch=1.5"));
  EXPECT_THAT(ErrorWith("heartbeat_s", "soon"), HasSubstr("--heartbeat_s=soon: a number"));
}

TEST(CheckJobConfig, GoodConfigPasses) {
  const auto specs = CheckJobConfig(GoodConfig());
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ(specs->policy.spec, "bsp");
}

TEST(CheckJobConfig, EachBadValueIsNamed) {
  EXPECT_THAT(ErrorWith("policy", "sspp:s=2"), HasSubstr("policy: "));
  EXPECT_THAT(ErrorWith("policy", "ssp:s=-1"), HasSubstr("policy: "));
  EXPECT_THAT(ErrorWith("optimizer", "sdg:lr=1"), HasSubstr("training.optimizer: "));
  EXPECT_THAT(ErrorWith("schedule", "cosin"), HasSubstr("training.schedule: "));
  EXPECT_THAT(ErrorWith("model", "lenet6"), HasSubstr("model: "));
  EXPECT_THAT(ErrorWith("data_format", "parquet"), HasSubstr("data: "));
  EXPECT_THAT(ErrorWith("data_path", "/nowhere.csv"), HasSubstr("/nowhere.csv"));
  EXPECT_THAT(ErrorWith("test_fraction", "1"), HasSubstr("data.test_fraction"));
}

TEST(CheckJobConfig, CountsMustFitEachOther) {
  EXPECT_THAT(ErrorWith("workers", "0"), HasSubstr("cluster.workers: 0"));
  EXPECT_THAT(ErrorWith("servers", "0"), HasSubstr("cluster.servers: 0"));
  EXPECT_THAT(ErrorWith("epochs", "0"), HasSubstr("training.epochs"));
  EXPECT_THAT(ErrorWith("micro_batches", "2"), HasSubstr("less than the 3 workers"));
  EXPECT_THAT(ErrorWith("batch", "2"), HasSubstr("training.batch: 2 samples"));
  EXPECT_THAT(ErrorWith("shards_per_server", "40000"), HasSubstr("shards"));
  EXPECT_THAT(ErrorWith("heartbeat_timeout_s", "0.6"), HasSubstr("two heartbeats"));
}

TEST(CheckJobConfig, RebalancingNeedsManyLeavesAndGradients) {
  wire::JobConfig config = GoodConfig();
  config.mutable_training()->set_batch(96);
  config.mutable_training()->set_micro_batches(0);
  config.mutable_cluster()->set_rebalance(true);
  FillDefaults(&config);
  EXPECT_EQ(config.training().micro_batches(), 48u);
  EXPECT_TRUE(CheckJobConfig(config).ok());
  config.set_policy("easgd:tau=4");
  EXPECT_THAT(std::string(CheckJobConfig(config).status().message()),
              HasSubstr("cluster.rebalance: with easgd"));
  EXPECT_THAT(ErrorWith("rebalance", "true"),
              HasSubstr("needs more micro-batches than the 3 workers (48 let"));
}

TEST(CheckJobConfig, PriorityNeedsAPolicyThatPullsEachClock) {
  wire::JobConfig config = GoodConfig();
  EXPECT_EQ(config.cluster().communication(), "fifo");
  config.mutable_cluster()->set_communication("priority");
  config.mutable_cluster()->set_shards_per_server(0);
  FillDefaults(&config);
  EXPECT_EQ(config.cluster().shards_per_server(), 8u);
  for (const char* policy : {"bsp", "ssp:s=2", "async", "dssp:lower=0,upper=2"}) {
    config.set_policy(policy);
    EXPECT_TRUE(CheckJobConfig(config).ok()) << policy;
  }
  for (const char* policy : {"essp:s=1", "softsync:n=1", "backup:b=1", "easgd:tau=4",
                             "localsgd:h=4", "allreduce", "value:v0=1", "tree:group=2,s=1"}) {
    config.set_policy(policy);
    EXPECT_THAT(std::string(CheckJobConfig(config).status().message()),
                HasSubstr("cluster.communication: priority goes with policies"))
        << policy;
  }
  EXPECT_THAT(ErrorWith("communication", "lifo"),
              HasSubstr("\"lifo\" is neither fifo nor priority"));
}

TEST(CheckJobConfig, StragglersAreChecked) {
  EXPECT_THAT(ErrorWith("stragglers", "slwo"), HasSubstr("training.stragglers: unknown straggler"));
  EXPECT_THAT(ErrorWith("base_ms", "-1"), HasSubstr("training.base_ms: -1 is not within"));
}

TEST(JobDigest, IsTheMeaningAndNotThePlace) {
  const wire::JobConfig config = GoodConfig();
  wire::JobConfig moved = config;
  moved.mutable_data()->set_path("/elsewhere/digits.csv.gz");
  moved.mutable_cluster()->set_scheduler("tcp://somewhere:1");
  moved.mutable_output()->set_log_dir("logs");
  wire::JobConfig other = config;
  other.set_policy("async");
  EXPECT_EQ(JobDigest(config, 1), JobDigest(moved, 1));
  EXPECT_NE(JobDigest(config, 1), JobDigest(other, 1));
  EXPECT_NE(JobDigest(config, 1), JobDigest(config, 2));
}

TEST(MayShareMemory, TwoVersionsOfAServersValuesMustFitByStages) {
  const auto may = [](int64_t megabytes, wire::LayoutOptions options) {
    return MayShareMemory(
        *wire::Layout::Build({{.name = "w", .shape = {megabytes << 18, 1}}}, options));
  };
  EXPECT_TRUE(may(255, {.shard_count = 2, .stages = 2}));
  EXPECT_FALSE(may(257, {.shard_count = 2, .stages = 2}));
  EXPECT_TRUE(may(257, {.shard_count = 4, .stages = 2}));  // two servers
  EXPECT_TRUE(may(2000, {.shard_count = 2}));
  EXPECT_FALSE(may(1, {.shard_count = 3000, .stages = 3000}));
}

// No shard holds more than 1.1 times the mean.
TEST(PrepareJob, SharesParametersEvenly) {
  for (const char* model : {"softmax", "mlp", "lenet5"}) {
    for (const uint32_t servers : {2u, 3u, 4u, 6u}) {
      wire::JobConfig config = GoodConfig();
      config.set_model(model);
      config.mutable_cluster()->set_servers(servers);
      const auto job = PrepareJob(config);
      ASSERT_TRUE(job.ok()) << job.status();
      const wire::Layout& layout = *(*job)->layout;
      const double mean = static_cast<double>(layout.elements()) / servers;
      for (uint32_t k = 0; k < servers; ++k) {
        EXPECT_LE(static_cast<double>(layout.elements(ShardId{k})), 1.1 * mean)
            << model << ", shard " << k << " of " << servers;
      }
    }
  }
}

TEST(PrepareJob, CountsClocks) {
  wire::JobConfig config = GoodConfig();
  config.mutable_training()->set_epochs(3);
  const auto job = PrepareJob(config);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto samples = static_cast<Clock>((*job)->data->train.size());
  EXPECT_EQ((*job)->clocks_per_epoch, (samples + 31) / 32);
  EXPECT_EQ((*job)->total_clocks, 3 * (*job)->clocks_per_epoch);
}

}  // namespace
}  // namespace soapstone::apps
