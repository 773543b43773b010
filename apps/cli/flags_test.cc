#include "apps/cli/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

std::variant<NodeFlags, EndNow> Parse(std::vector<const char*> arguments,
                                      const std::string& program = "soapstone-worker") {
  arguments.insert(arguments.begin(), "program");
  return ParseNodeFlags(program, static_cast<int>(arguments.size()), arguments.data());
}

int CodeOf(const std::variant<NodeFlags, EndNow>& parsed) {
  const EndNow* end = std::get_if<EndNow>(&parsed);
  return end == nullptr ? -1 : end->code;
}

TEST(Flags, NodeFlagsAndOverridesInFieldOrder) {
  const auto parsed =
      Parse({"--epochs=3", "--config=job.textproto", "--rank=2", "--policy=ssp:s=2", "--check"});
  const auto& flags = std::get<NodeFlags>(parsed);
  EXPECT_EQ(flags.config_path, "job.textproto");
  EXPECT_EQ(flags.rank, "2");
  EXPECT_TRUE(flags.check);
  ASSERT_EQ(flags.overrides.size(), 2u);
  EXPECT_STREQ(flags.overrides[0].field->flag, "policy");
  EXPECT_EQ(flags.overrides[0].value, "ssp:s=2");
  EXPECT_EQ(flags.overrides[1].value, "3");
}

TEST(Flags, UnknownFlagIsOneLineAndAConfigurationError) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--polcy=bsp"})), kExitConfig);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("--polcy=bsp"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(Flags, MissingValueIsAConfigurationError) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--policy"})), kExitConfig);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--policy"));
}

TEST(Flags, HelpNamesEveryJobFieldAndSucceeds) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(CodeOf(Parse({"--help"})), kExitOk);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const JobField& field : JobFields()) {
    EXPECT_THAT(help, HasSubstr(std::string("--") + field.flag + " "));
  }
  EXPECT_THAT(help, HasSubstr("Example"));
}

TEST(Flags, OnlyServersBind) {
  EXPECT_TRUE(std::holds_alternative<NodeFlags>(Parse({"--bind=tcp://*:0"}, "soapstone-server")));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(std::holds_alternative<NodeFlags>(Parse({"--stream_port=7071"}, "soapstone-server")));
  EXPECT_EQ(CodeOf(Parse({"--bind=tcp://*:0"}, "soapstone-worker")), kExitConfig);
  EXPECT_EQ(CodeOf(Parse({"--stream_port=70000"}, "soapstone-server")), kExitConfig);
  testing::internal::GetCapturedStderr();
}

TEST(Flags, DaemonsArePlaced) {
  const auto parsed = Parse({"--cpus=0-1", "--numa_node=0"}, "soapstone-worker");
  ASSERT_TRUE(std::holds_alternative<NodeFlags>(parsed));
  EXPECT_EQ(std::get<NodeFlags>(parsed).placement.cpus, "0-1");
  EXPECT_EQ(std::get<NodeFlags>(parsed).placement.numa_node, 0);
  EXPECT_FALSE(std::get<NodeFlags>(parsed).placement.pin_shards);
  const auto server = Parse({"--cpus=0-1", "--pin_shards"}, "soapstone-server");
  ASSERT_TRUE(std::holds_alternative<NodeFlags>(server));
  EXPECT_TRUE(std::get<NodeFlags>(server).placement.pin_shards);
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--pin_shards"}, "soapstone-worker")), kExitConfig);
  testing::internal::GetCapturedStderr();
}

TEST(Flags, TrainIsACommand) {
  const char* arguments[] = {"soapstone", "train", "--workers=3"};
  const auto parsed = ParseCommand(3, arguments);
  const auto& train = std::get<TrainCommand>(std::get<Command>(parsed));
  ASSERT_EQ(train.flags.overrides.size(), 1u);
  EXPECT_STREQ(train.flags.overrides[0].field->path, "cluster.workers");
}

TEST(Flags, SimulateIsACommand) {
  const char* arguments[] = {"soapstone", "simulate", "--workers=100", "--clocks=5"};
  const auto parsed = ParseCommand(4, arguments);
  const auto& simulate = std::get<SimulateFlags>(std::get<Command>(parsed));
  EXPECT_EQ(simulate.workers, 100u);
  EXPECT_EQ(simulate.clocks, 5);
}

TEST(Flags, SimulateTakesAJobAndItsFields) {
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

TEST(Flags, WhatSizesAJobAndWhatSizesATimingRunDoNotMix) {
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

TEST(Flags, ExperimentTakesAFileAndAFolder) {
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

TEST(Flags, ModelsAndProfileAreCommands) {
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

TEST(Flags, WhatModelsAndProfileCannotDoIsOneLine) {
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

TEST(Flags, NoCommandIsAConfigurationError) {
  const char* arguments[] = {"soapstone"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(std::get<EndNow>(ParseCommand(1, arguments)).code, kExitConfig);
  testing::internal::GetCapturedStderr();
}

}  // namespace
}  // namespace soapstone::apps
