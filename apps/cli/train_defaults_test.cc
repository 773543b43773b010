#include "apps/cli/train_defaults.h"

#include "cluster/job_paths.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

JobOverride Override(std::string_view flag, std::string value) {
  for (const JobField& field : JobFields()) {
    if (field.flag == flag) return {&field, std::move(value)};
  }
  ADD_FAILURE() << flag;
  return {};
}

TEST(TrainDefaults, TheExampleIsTheFileOfTheExamples) {
  absl::StatusOr<wire::JobConfig> file =
      ReadJobFile(SOAPSTONE_SOURCE_DIR "/examples/digits-lenet5.textproto");
  ASSERT_TRUE(file.ok()) << file.status();
  file->clear_cluster();  // of what machine it is, is not the example's to say
  EXPECT_EQ(file->data().path(), SOAPSTONE_SOURCE_DIR "/data/digits/digits.csv.gz");
  file->mutable_data()->set_path("data/digits/digits.csv.gz");
  EXPECT_EQ(JobText(ExampleJob()), JobText(*file));
}

TEST(TrainDefaults, NothingSaidIsTheExampleOnThisMachine) {
  std::string said;
  const absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags({}, &said);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model(), "lenet5");
  EXPECT_EQ(config->training().epochs(), 30u);
  EXPECT_EQ(config->cluster().servers(), 1u);
  EXPECT_GE(config->cluster().workers(), 1u);
  EXPECT_THAT(said, HasSubstr("lenet5 on the digits"));
}

TEST(TrainDefaults, FlagsOfTheClusterAndThePolicyChangeTheExample) {
  std::string said;
  const NodeFlags flags = {.overrides = {Override("policy", "bsp"), Override("workers", "3")}};
  const absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags(flags, &said);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model(), "lenet5");
  EXPECT_EQ(config->policy(), "bsp");
  EXPECT_EQ(config->cluster().workers(), 3u);
}

TEST(TrainDefaults, FlagsOfTrainingChangeTheExample) {
  std::string said;
  const NodeFlags flags = {.overrides = {Override("epochs", "2"), Override("seed", "7")}};
  const absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags(flags, &said);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model(), "lenet5");
  EXPECT_EQ(config->training().epochs(), 2u);
  EXPECT_EQ(config->training().seed(), 7u);
  EXPECT_EQ(config->training().batch(), 48u);
  EXPECT_THAT(said, HasSubstr("lenet5 on the digits"));
}

TEST(TrainDefaults, WhoNamesAModelGetsNothingOfTheExample) {
  std::string said;
  const NodeFlags flags = {.overrides = {Override("model", "mlp")}};
  const absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags(flags, &said);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model(), "mlp");
  EXPECT_EQ(config->training().epochs(), 10u);
  EXPECT_EQ(config->training().batch(), 32u);
  EXPECT_EQ(config->training().seed(), 0u);
  EXPECT_THAT(said, HasSubstr("epochs: 10, batch: 32; servers: 1, workers: "));
}

TEST(TrainDefaults, OnlyWhatNoFlagSetsIsSaid) {
  std::string said;
  NodeFlags flags = {.overrides = {Override("model", "mlp"), Override("epochs", "3")}};
  const absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags(flags, &said);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->training().epochs(), 3u);
  EXPECT_THAT(said, StartsWith("batch: 32; servers: 1"));
  flags.overrides.push_back(Override("batch", "8"));
  ASSERT_TRUE(TrainConfigFromFlags(flags, &said).ok());
  EXPECT_EQ(said, "");
}

TEST(TrainDefaults, WhatIsSaidIsKeptThoughItBeWrong) {
  std::string said;
  const NodeFlags flags = {.overrides = {Override("workers", "0")}};
  const absl::StatusOr<wire::JobConfig> config = TrainConfigFromFlags(flags, &said);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->cluster().workers(), 0u);
}

}  // namespace
}  // namespace soapstone::apps
