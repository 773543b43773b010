#include "apps/cli/node_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"

namespace soapstone::apps {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::variant<NodeFlags, EndNow> Parse(std::vector<const char*> arguments,
                                      const std::string& program = "soapstone-worker") {
  arguments.insert(arguments.begin(), "program");
  return ParseNodeFlags(program, static_cast<int>(arguments.size()), arguments.data());
}

int CodeOf(const std::variant<NodeFlags, EndNow>& parsed) {
  const EndNow* end = std::get_if<EndNow>(&parsed);
  return end == nullptr ? -1 : end->code;
}

TEST(NodeFlags, NodeFlagsAndOverridesInFieldOrder) {
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

TEST(NodeFlags, UnknownFlagIsOneLineAndAConfigurationError) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--polcy=bsp"})), kExitConfig);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("no flag --polcy; did you mean --policy?"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST(NodeFlags, MissingValueIsAConfigurationError) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--policy"})), kExitConfig);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--policy"));
}

// A script whose variable is empty: the next word is no job file, and the example is not meant.
TEST(NodeFlags, AnEmptyValueTakesNotTheNextWord) {
  for (const std::vector<const char*>& empty : std::vector<std::vector<const char*>>{
           {"--config=", "--check"}, {"--check", "--config="}, {"--config", ""}}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(CodeOf(Parse(empty)), kExitConfig);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_THAT(said, HasSubstr("--config: no file named"));
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--policy=", "--check"})), kExitConfig);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("--policy: no value given"));
}

TEST(NodeFlags, HelpNamesEveryJobFieldAndSucceeds) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(CodeOf(Parse({"--help"})), kExitOk);
  const std::string help = testing::internal::GetCapturedStdout();
  for (const JobField& field : JobFields()) {
    EXPECT_THAT(help, HasSubstr(std::string("--") + field.flag + " "));
  }
  EXPECT_THAT(help, HasSubstr("Example"));
}

TEST(NodeFlags, OnlyServersBind) {
  EXPECT_TRUE(std::holds_alternative<NodeFlags>(Parse({"--bind=tcp://*:0"}, "soapstone-server")));
  testing::internal::CaptureStderr();
  EXPECT_TRUE(std::holds_alternative<NodeFlags>(Parse({"--stream_port=7071"}, "soapstone-server")));
  EXPECT_EQ(CodeOf(Parse({"--bind=tcp://*:0"}, "soapstone-worker")), kExitConfig);
  EXPECT_EQ(CodeOf(Parse({"--stream_port=70000"}, "soapstone-server")), kExitConfig);
  testing::internal::GetCapturedStderr();
}

TEST(NodeFlags, SchedulersSayTheirProgressAsOftenAsAsked) {
  EXPECT_EQ(std::get<NodeFlags>(Parse({}, "soapstone-scheduler")).progress_every_s, 10u);
  EXPECT_EQ(
      std::get<NodeFlags>(Parse({"--progress_every=2"}, "soapstone-scheduler")).progress_every_s,
      2u);
  testing::internal::CaptureStderr();
  EXPECT_EQ(CodeOf(Parse({"--progress_every=-1"}, "soapstone-scheduler")), kExitConfig);
  EXPECT_EQ(CodeOf(Parse({"--progress_every=2"}, "soapstone-worker")), kExitConfig);
  testing::internal::GetCapturedStderr();
}

TEST(NodeFlags, DaemonsArePlaced) {
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

}  // namespace
TEST(NodeFlags, AKeyIsNotTakenFromTheEnvironmentAndThatIsSaid) {
  setenv("SOAPSTONE_KEY", "", 1);
  EXPECT_THAT(std::get<NodeFlags>(Parse({}, "soapstone-scheduler")).variables, IsEmpty());
  setenv("SOAPSTONE_KEY", "/keys", 1);
  const auto parsed = Parse({}, "soapstone-scheduler");
  unsetenv("SOAPSTONE_KEY");
  EXPECT_EQ(std::get<NodeFlags>(parsed).key, "");
  EXPECT_THAT(std::get<NodeFlags>(parsed).variables,
              ElementsAre("SOAPSTONE_KEY is not taken: say --key on the command line"));
}

TEST(NodeFlags, AMisspeltVariableIsAskedFor) {
  setenv("SOAPSTONE_WORKER", "3", 1);
  setenv("SOAPSTONE_EPOCHS", "3", 1);
  setenv("SOAPSTONE_SERVICE_HOST", "10.0.0.1", 1);  // Kubernetes' own, of a service of this name
  const auto parsed = Parse({}, "soapstone-scheduler");
  for (const char* name : {"WORKER", "EPOCHS", "SERVICE_HOST"}) {
    unsetenv(absl::StrCat("SOAPSTONE_", name).c_str());
  }
  EXPECT_THAT(std::get<NodeFlags>(parsed).variables,
              ElementsAre("SOAPSTONE_WORKER is no flag's; did you mean SOAPSTONE_WORKERS?",
                          "SOAPSTONE_EPOCHS=3"));
}

}  // namespace soapstone::apps
