#include "cluster/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "cluster/job.h"
#include "cluster/job_paths.h"
#include "models/data/data_fixture.h"

namespace soapstone::apps {
namespace {

using ::testing::ElementsAre;
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
  EXPECT_THAT(std::string(ReadJobFile("/").status().message()), HasSubstr("/: is a folder"));
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
  EXPECT_THAT(ErrorWith("precision", "float16"), HasSubstr("cluster.precision: \"float16\""));
  EXPECT_THAT(ErrorWith("precision", "tf32"), HasSubstr("processors have no tf32"));
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

TEST(CheckJobConfig, PrecisionIsOfProductsThatAreReplayedInFloat32) {
  wire::JobConfig config = GoodConfig();
  config.mutable_cluster()->set_precision("bf16");
  EXPECT_TRUE(CheckJobConfig(config).ok());
  config.mutable_output()->set_record_path("/tmp/none");
  EXPECT_THAT(std::string(CheckJobConfig(config).status().message()),
              HasSubstr("output.record_path: a replay computes in float32"));
  config = GoodConfig();
  config.mutable_cluster()->set_device("cuda");
  config.mutable_cluster()->set_precision("tf32");
  EXPECT_TRUE(CheckJobConfig(config).ok());
}

TEST(CheckJobConfig, StragglersAreChecked) {
  EXPECT_THAT(ErrorWith("stragglers", "slwo"), HasSubstr("training.stragglers: unknown straggler"));
  EXPECT_THAT(ErrorWith("stragglers", "nan:worker=9,clock=1"),
              HasSubstr("nan:worker=9: there are"));
  EXPECT_THAT(ErrorWith("on_nonfinite", "ignore"),
              HasSubstr("training.on_nonfinite: \"ignore\" is neither stop nor skip"));
  EXPECT_THAT(ErrorWith("evaluation", "often"),
              HasSubstr("training.evaluation: \"often\" is neither end nor none"));
  EXPECT_THAT(ErrorWith("base_ms", "-1"), HasSubstr("training.base_ms: -1 is not within"));
}

TEST(CheckJobConfig, DataAreCheckedBeforeTheyAreRead) {
  EXPECT_THAT(ErrorWith("data_format", "copy"),
              HasSubstr("softmax takes samples of input"));  // no path
  EXPECT_THAT(ErrorWith("augment", "rotate"),
              HasSubstr("data.augment: unknown augmentation 'rotate'; there are crop:pad=4"));
  wire::JobConfig config = GoodConfig();
  config.mutable_data()->set_format("csv");
  config.mutable_data()->clear_path();
  EXPECT_EQ(CheckJobConfig(config).status().message(), "data.path: format csv needs one");
  config = GoodConfig();
  config.set_model("logistic");
  config.mutable_data()->set_format("libsvm");
  config.mutable_data()->set_augment("flip");
  EXPECT_THAT(std::string(CheckJobConfig(config).status().message()),
              HasSubstr("data.augment: not for a model of tables"));
}

TEST(FillDefaults, SequencesHaveALengthAndAVocabulary) {
  for (const auto& [format, length, vocabulary, samples] :
       {std::tuple("bytes", 40u, 0u, 0u), std::tuple("words", 40u, 10'000u, 0u),
        std::tuple("parallel", 40u, 32'000u, 0u), std::tuple("copy", 8u, 32u, 10'000u),
        std::tuple("clicks", 0u, 1000u, 20'000u), std::tuple("idx", 0u, 0u, 0u)}) {
    wire::JobConfig config;
    config.mutable_data()->set_format(format);
    FillDefaults(&config);
    EXPECT_EQ(config.data().length(), length) << format;
    EXPECT_EQ(config.data().vocabulary(), vocabulary) << format;
    EXPECT_EQ(config.data().samples(), samples) << format;
  }
  wire::JobConfig given;
  given.mutable_data()->set_format("words");
  given.mutable_data()->set_length(7);
  FillDefaults(&given);
  EXPECT_EQ(given.data().length(), 7u);
}

// A job that names such data; the models of the zoo that are made for images say so.
class DataOfAJob : public models::DataFiles {
 protected:
  static wire::JobConfig ConfigOf(const std::string& format, const std::string& path) {
    wire::JobConfig config;
    config.set_model("softmax");
    config.mutable_data()->set_format(format);
    config.mutable_data()->set_path(path);
    config.mutable_training()->set_epochs(1);
    config.mutable_training()->set_batch(3);
    config.mutable_cluster()->set_servers(1);
    config.mutable_cluster()->set_workers(1);
    return config;
  }
  static std::string ErrorOf(const wire::JobConfig& config) {
    const absl::Status status = PrepareJob(config).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\n")));
    return std::string(status.message());
  }
  void WriteImages() {
    for (int i = 0; i < 10; ++i) {
      const std::string noise = models::NoiseBytes(12, static_cast<uint32_t>(i));
      WritePng("images/c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".png",
               {.channels = 1, .height = 3, .width = 4}, {noise.begin(), noise.end()});
    }
  }
};

TEST_F(DataOfAJob, FoldersOfImagesAreTrainedOn) {
  WriteImages();
  wire::JobConfig config = ConfigOf("images", PathOf("images"));
  config.mutable_data()->set_augment("crop:pad=1+flip");
  const auto job = PrepareJob(config);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->data->train.size(), 8u);
  EXPECT_EQ((*job)->data->train.augmentation.pad, 1);
  EXPECT_EQ((*job)->graph->parameter_count(), 2 * 12 + 2);
  config.mutable_data()->set_augment("crop:pad=1");
  EXPECT_NE((*PrepareJob(config))->digest, (*job)->digest);
}

TEST_F(DataOfAJob, WhatWasRecognisedIsNoted) {
  const std::string path = Write("a.csv", "y;a\n0;1\n1;2\n0;\n1;3\n1;4\n0;5\n1;6\n");
  wire::JobConfig config = ConfigOf("csv", path);
  EXPECT_THAT(ErrorOf(config), HasSubstr("data: " + path + ":4: column 2 ('a'): '' is a missing"));
  config.mutable_data()->set_missing("drop");
  config.mutable_data()->set_label_column("y");
  config.mutable_training()->set_batch(5);
  const auto job = PrepareJob(config);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT((*job)->notes, ElementsAre(path + ": cells are separated by semicolons",
                                         path + ": header skipped: y, a",
                                         path + ": 1 of 7 rows left out, for 1 missing values"));
  // Who says the same in another way is of the same job.
  config.mutable_data()->set_label_column("1");
  config.mutable_data()->set_separator("semicolon");
  EXPECT_EQ((*PrepareJob(config))->digest, (*job)->digest);
  config.mutable_training()->set_batch(6);
  EXPECT_THAT((*PrepareJob(config))->notes.back(),
              "training.batch: 6 is more than the 5 training samples: each step takes all of them "
              "once");
  EXPECT_EQ((*PrepareJob(config))->total_clocks, 1);
}

TEST_F(DataOfAJob, ANoteSaysThatStragglersCountMoreWorkersThanThereAre) {
  wire::JobConfig config = ConfigOf("csv", Write("a.csv", "y,a\n0,1\n1,2\n"));
  config.mutable_cluster()->set_workers(2);
  for (const auto& [stragglers, named] :
       {std::pair("slow:factor=2+rotating:workers=2,every=5,factor=2", int64_t{0}),
        std::pair("slow:workers=9,factor=2", int64_t{9}),
        std::pair("rotating:workers=3,every=5,factor=2", int64_t{3}),
        std::pair("slow:factor=2+link:workers=4,mbps=10", int64_t{4})}) {
    config.mutable_training()->set_stragglers(stragglers);
    const auto job = PrepareJob(config);
    ASSERT_TRUE(job.ok()) << job.status();
    const std::string note =
        absl::StrCat("training.stragglers: workers=", named, ", and there are 2");
    EXPECT_EQ(absl::c_linear_search((*job)->notes, note), named > 0) << stragglers;
  }
}

TEST_F(DataOfAJob, OptionsOfTablesAreOfTables) {
  wire::JobConfig config = ConfigOf("cifar10", "a.bin");
  config.mutable_data()->set_label_column("1");
  EXPECT_EQ(ErrorOf(config), "data.label_column: of format csv, not of cifar10");
  // Of other formats alone, and ignored else.
  EXPECT_EQ(ErrorWith("labels_path", "a"), "data.labels_path: of format idx, not of digits");
  EXPECT_EQ(ErrorWith("channels", "3"), "data.channels: of format images, not of digits");
  EXPECT_EQ(ErrorWith("length", "5"),
            "data.length: of format bytes, words, parallel, copy, not of digits");
  EXPECT_EQ(ErrorWith("samples", "5"), "data.samples: of format copy, clicks, not of digits");
  EXPECT_EQ(ErrorWith("separator", "x"),
            "data.separator: \"x\" is none of auto, comma, semicolon and tab");
  EXPECT_EQ(ErrorWith("missing", "mean"), "data.missing: \"mean\" is neither stop nor drop");
}

TEST_F(DataOfAJob, CifarIsTrainedOn) {
  std::string records;
  for (int i = 0; i < 5; ++i)
    records += std::string(1, static_cast<char>(i)) + std::string(3072, 'x');
  const auto job = PrepareJob(ConfigOf("cifar10", Write("a.bin", records)));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->graph->parameter_count(), 10 * 3072 + 10);
  EXPECT_THAT(ErrorOf(ConfigOf("cifar10", Write("b.bin", records.substr(1)))),
              HasSubstr("b.bin: record 5 is cut off"));
}

TEST_F(DataOfAJob, SequencesNeedAModelThatTakesThem) {
  wire::JobConfig config = ConfigOf("bytes", Write("a.txt", std::string(400, 'a')));
  config.mutable_data()->set_length(20);
  EXPECT_EQ(ErrorOf(config),
            "model: softmax takes samples of input [1, 28, 28] float32, labels [] int32; the data "
            "have tokens [20] int32, labels [20] int32");
  EXPECT_THAT(ErrorOf(ConfigOf("copy", "")), HasSubstr("source [8] int32, target [9] int32"));
}

TEST_F(DataOfAJob, BadFilesAreSaidInALine) {
  EXPECT_EQ(
      ErrorOf(ConfigOf("words", "/nowhere.txt")),
      "data: /nowhere.txt: No such file or directory; `soapstone data` says how to get public "
      "sets");
  EXPECT_THAT(ErrorOf(ConfigOf("images", "/nowhere")),
              HasSubstr("data: /nowhere: No such file or directory"));
  EXPECT_THAT(ErrorOf(ConfigOf("bytes", Write("a.txt", "abc"))),
              HasSubstr("a.txt: 2 tokens are shorter than a sequence of 40"));
  wire::JobConfig words = ConfigOf("words", Write("a.txt", std::string(400, '\n')));
  words.mutable_data()->set_vocabulary(2);
  EXPECT_THAT(ErrorOf(words), HasSubstr("data: a vocabulary of 2 is too small"));
  WriteImages();
  Write("images/c0/other.png", "not one");
  EXPECT_THAT(ErrorOf(ConfigOf("images", PathOf("images"))), HasSubstr("other.png: not a PNG"));
  WritePng("images/c0/other.png", {.channels = 1, .height = 1, .width = 2}, {1, 2});
  EXPECT_THAT(ErrorOf(ConfigOf("images", PathOf("images"))),
              HasSubstr("other.png: an image of 1×2, where 3×4 is needed"));
}

TEST_F(DataOfAJob, OneClassIsNoTask) {
  const std::string path = Write("one.csv", "0.1,0.2,0\n0.3,0.2,0\n0.1,0.5,0\n");
  EXPECT_EQ(ErrorOf(ConfigOf("csv", path)),
            "data: " + path + ": every sample has the same label; a classifier needs two classes");
}

TEST(JobConfig, AnEndpointThatIsNoneIsSaidBeforeAnythingStarts) {
  wire::JobConfig config = GoodConfig();
  for (const char* good : {"", "tcp://host:7070", "tcp://*:0", "ipc:///tmp/job"}) {
    config.mutable_cluster()->set_scheduler(good);
    EXPECT_TRUE(CheckEndpoint(config.cluster()).ok()) << good;
  }
  for (const char* bad : {"127.0.0.1:7070", "localhost", "tcp://", "tcp://host", "udp://host:1",
                          "tcp://host:abc", "tcp://host:", "tcp://host:-1", "tcp://host:65536",
                          "tcp://*:*", "tcp://:7070", "tcp://[::1]:7070"}) {
    config.mutable_cluster()->set_scheduler(bad);
    EXPECT_THAT(CheckEndpoint(config.cluster()).message(), HasSubstr("cluster.scheduler")) << bad;
  }
}

TEST(JobConfigCheck, SecurityThatIsRequiredTakesKeysAndOffTakesNone) {
  wire::JobConfig config = GoodConfig();
  for (const char* security : {"auto", "required", "off"}) {
    config.mutable_cluster()->set_security(security);
    EXPECT_TRUE(CheckJobConfig(config).ok()) << security;
    for (const bool keys : {false, true}) {
      const absl::Status status = CheckSecurity(config.cluster(), keys);
      const std::string fits = keys ? "required" : "off";
      EXPECT_EQ(status.ok(), security == fits || security == std::string("auto")) << security;
      if (!status.ok()) {
        EXPECT_THAT(status.message(), HasSubstr("cluster.security: ")) << security;
      }
    }
  }
  EXPECT_THAT(CheckSecurity(config.cluster(), true).message(), HasSubstr("--key"));
  config.mutable_cluster()->set_security("required");
  EXPECT_THAT(CheckSecurity(config.cluster(), false).message(),
              HasSubstr("soapstone keygen --out=keys"));
  for (const char* bad : {"on", "Required", "none"}) {
    config.mutable_cluster()->set_security(bad);
    EXPECT_THAT(CheckJobConfig(config).status().message(), HasSubstr("cluster.security")) << bad;
  }
}

TEST(JobDigest, IsTheMeaningAndNotThePlace) {
  const wire::JobConfig config = GoodConfig();
  wire::JobConfig moved = config;
  moved.mutable_data()->set_path("/elsewhere/digits.csv.gz");
  moved.mutable_cluster()->set_scheduler("tcp://somewhere:1");
  moved.mutable_output()->set_log_dir("logs");
  for (const char* flag :
       {"heartbeat_s", "heartbeat_timeout_s", "start_timeout_s", "link_timeout_s", "grace_s"}) {
    const JobOverride change{FieldOf(flag), "17"};
    ASSERT_TRUE(ApplyOverrides({&change, 1}, &moved).ok());
  }
  wire::JobConfig other = config;
  other.set_policy("async");
  moved.mutable_cluster()->set_security("required");
  EXPECT_EQ(JobDigest(config, 1), JobDigest(moved, 1));
  EXPECT_NE(JobDigest(config, 1), JobDigest(other, 1));
  EXPECT_NE(JobDigest(config, 1), JobDigest(config, 2));
  for (const char* flag : {"servers", "workers", "shards_per_server", "bucket_bytes"}) {
    other = config;
    const JobOverride change{FieldOf(flag), "17"};
    ASSERT_TRUE(ApplyOverrides({&change, 1}, &other).ok());
    EXPECT_NE(JobDigest(config, 1), JobDigest(other, 1)) << flag;
  }
}

TEST(JobDigest, FilesOfTheModelCountByTheirContents) {
  wire::JobConfig config = GoodConfig();
  config.set_model("onnx:here/model.onnx");
  config.mutable_training()->set_initial_weights("here/first.safetensors");
  wire::JobConfig moved = config;
  moved.set_model("onnx:there/model.onnx");
  moved.mutable_training()->set_initial_weights("there/first.safetensors");
  EXPECT_EQ(JobDigest(config, 1), JobDigest(moved, 1));
  EXPECT_NE(JobDigest(config, 1), JobDigest(GoodConfig(), 1));
}

TEST(JobConfigTest, InitialWeightsAreNotForTables) {
  wire::JobConfig config = GoodConfig();
  config.set_model("logistic");
  config.set_policy("bsp");
  config.mutable_training()->set_initial_weights("first.safetensors");
  FillDefaults(&config);
  EXPECT_EQ(CheckJobConfig(config).status().message(),
            "training.initial_weights: not for a model of tables, as logistic");
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
