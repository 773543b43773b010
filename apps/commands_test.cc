#include "apps/commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

TEST(Commands, TrainIsACommand) {
  const char* arguments[] = {"soapstone", "train", "--workers=3"};
  const auto parsed = ParseCommand(3, arguments);
  const auto& train = std::get<NodeFlags>(std::get<Command>(parsed));
  ASSERT_EQ(train.overrides.size(), 1u);
  EXPECT_STREQ(train.overrides[0].field->path, "cluster.workers");
}

TEST(Commands, CheckpointTakesAnActionAndWhere) {
  const char* arguments[] = {"soapstone", "checkpoint", "export", "ckpt/100", "m", "--json"};
  const auto parsed = ParseCommand(6, arguments);
  const auto& checkpoint = std::get<CheckpointFlags>(std::get<Command>(parsed));
  EXPECT_EQ(checkpoint.action, "export");
  EXPECT_EQ(checkpoint.where, "ckpt/100");
  EXPECT_EQ(checkpoint.other, "m");
  EXPECT_TRUE(checkpoint.json);
}

TEST(Commands, SimulateIsACommand) {
  const char* arguments[] = {"soapstone", "simulate", "--workers=100", "--clocks=5"};
  const auto parsed = ParseCommand(4, arguments);
  const auto& simulate = std::get<SimulateFlags>(std::get<Command>(parsed));
  EXPECT_EQ(simulate.workers, 100u);
  EXPECT_EQ(simulate.clocks, 5);
}

TEST(Commands, SimulateTakesAJobAndItsFields) {
  const char* arguments[] = {"soapstone",  "simulate", "--job=j.textproto", "--workers=100",
                             "--epochs=2", "--seed=9", "--curve=c.csv"};
  const auto parsed = ParseCommand(7, arguments);
  const auto& simulate = std::get<SimulateFlags>(std::get<Command>(parsed));
  EXPECT_EQ(simulate.job_path, "j.textproto");
  EXPECT_EQ(simulate.curve_path, "c.csv");
  EXPECT_EQ(simulate.seed, 9u);
  std::string overrides;
  for (const JobOverride& override : simulate.overrides) {
    overrides += std::string(override.field->path) + "=" + override.value + " ";
  }
  EXPECT_EQ(overrides, "training.epochs=2 training.seed=9 cluster.workers=100 ");
}

TEST(Commands, WhatSizesAJobAndWhatSizesATimingRunDoNotMix) {
  for (const std::vector<const char*>& wrong : std::vector<std::vector<const char*>>{
           {"--job=j", "--shards=2"}, {"--job=j", "--clocks=5"}, {"--epochs=3"}, {"--curve=c"}}) {
    std::vector<const char*> arguments = {"soapstone", "simulate"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    testing::internal::CaptureStderr();
    const auto parsed = ParseCommand(static_cast<int>(arguments.size()), arguments.data());
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(std::holds_alternative<EndNow>(parsed)) << wrong.back();
    EXPECT_EQ(std::get<EndNow>(parsed).code, kExitConfig);
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST(Commands, ExperimentTakesAFileAndAFolder) {
  const char* arguments[] = {"soapstone", "experiment", "a.textproto", "--out=runs/a", "--jobs=3"};
  const auto parsed = ParseCommand(5, arguments);
  const auto& experiment = std::get<ExperimentFlags>(std::get<Command>(parsed));
  EXPECT_EQ(experiment.spec_path, "a.textproto");
  EXPECT_EQ(experiment.out_dir, "runs/a");
  EXPECT_EQ(experiment.jobs, 3u);
  testing::internal::CaptureStderr();
  EXPECT_EQ(std::get<EndNow>(ParseCommand(2, arguments)).code, kExitConfig);
  testing::internal::GetCapturedStderr();
}

TEST(Commands, ModelsAndProfileAreCommands) {
  const char* list[] = {"soapstone", "models", "resnet50", "--batch=32", "--json"};
  const auto models = std::get<ModelsFlags>(std::get<Command>(ParseCommand(5, list)));
  EXPECT_EQ(models.model, "resnet50");
  EXPECT_EQ(models.batch, 32);
  EXPECT_TRUE(models.json);
  const char* arguments[] = {"soapstone", "profile", "--model=mlp", "--costs=c", "--recompute"};
  const auto profile = std::get<ProfileFlags>(std::get<Command>(ParseCommand(5, arguments)));
  EXPECT_EQ(profile.model, "mlp");
  EXPECT_EQ(profile.costs_path, "c");
  EXPECT_EQ(profile.replicas, 0u);
  EXPECT_TRUE(profile.recompute);
  EXPECT_EQ(profile.threads, 1);
  EXPECT_EQ(profile.precision, "float32");
}

TEST(Commands, WhatModelsAndProfileCannotDoIsOneLine) {
  for (const std::vector<const char*>& wrong :
       std::vector<std::vector<const char*>>{{"profile"},
                                             {"profile", "--model=mlp", "--batch=0"},
                                             {"profile", "--model=mlp", "--threads=0"},
                                             {"profile", "--model=mlp", "--precision=fp8"},
                                             {"models", "--batch=-1"},
                                             {"models", "--dot"},
                                             {"models", "mlp", "--dot", "--json"}}) {
    std::vector<const char*> arguments = {"soapstone"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    testing::internal::CaptureStderr();
    const auto parsed = ParseCommand(static_cast<int>(arguments.size()), arguments.data());
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_TRUE(std::holds_alternative<EndNow>(parsed)) << wrong.back();
    EXPECT_EQ(std::get<EndNow>(parsed).code, kExitConfig);
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST(Commands, DataIsACommand) {
  const char* arguments[] = {"soapstone", "data", "mnist", "--from=here", "--to=there"};
  const auto data = std::get<DataFlags>(std::get<Command>(ParseCommand(5, arguments)));
  EXPECT_EQ(data.name, "mnist");
  EXPECT_EQ(data.from, "here");
  EXPECT_EQ(data.to, "there");
  const char* nothing_to_check[] = {"soapstone", "data", "mnist", "--to=there"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(std::get<EndNow>(ParseCommand(4, nothing_to_check)).code, kExitConfig);
  testing::internal::GetCapturedStderr();
}

TEST(Commands, WhoMistypesOneIsToldWhichThereAre) {
  const char* arguments[] = {"soapstone", "trian"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(std::get<EndNow>(ParseCommand(2, arguments)).code, kExitConfig);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("\"trian\"; did you mean train? (train, node, predict, evaluate, "),
            said.npos)
      << said;
  EXPECT_EQ(said.find("agent"), said.npos) << said;  // which is not for people
}

TEST(Commands, NoCommandIsAConfigurationError) {
  const char* arguments[] = {"soapstone"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(std::get<EndNow>(ParseCommand(1, arguments)).code, kExitConfig);
  EXPECT_EQ(testing::internal::GetCapturedStderr().find("soapstone: a command is needed: train, "),
            0u);
}

}  // namespace
}  // namespace soapstone::apps
