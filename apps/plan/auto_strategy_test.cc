#include "apps/plan/auto_strategy.h"

#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "apps/plan/planning_process.h"
#include "base/exit_codes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;

TEST(AutoStrategy, WhatGainsLessThanATwentiethIsLeft) {
  const FoundStep found = {.found_ns = 100'000'000, .data_ns = 104'900'000};
  EXPECT_THAT(WhyNotTaken(found, true), HasSubstr("100 ms a step and data parallelism 104.9 ms"));
  EXPECT_EQ(WhyNotTaken({.found_ns = 100'000'000, .data_ns = 105'000'000}, true), "");
  EXPECT_THAT(WhyNotTaken({.found_ns = 500'000, .data_ns = 900'000}, true),
              HasSubstr("mostly messages"));
}

TEST(AutoStrategy, WhatWasTriedCountsMoreThanWhatWasPredicted) {
  FoundStep found = {.found_ns = 10'000'000, .data_ns = 20'000'000};
  found.tried = {.split_ns = 61'000'000, .whole_ns = 13'000'000};
  EXPECT_THAT(WhyNotTaken(found, true), HasSubstr("takes 61 ms a step and data parallelism 13 ms"));
  found.tried = {.split_ns = 12'500'000, .whole_ns = 13'000'000};
  EXPECT_THAT(WhyNotTaken(found, true), HasSubstr("gains less than 5% (tried"));
  found.tried = {.split_ns = 12'000'000, .whole_ns = 13'000'000};
  EXPECT_EQ(WhyNotTaken(found, true), "");
}

TEST(AutoStrategy, WhereDataParallelismDoesNotRunAnyPlanIsTaken) {
  EXPECT_EQ(WhyNotTaken({.found_ns = 100, .data_ns = 0}, true), "");
  EXPECT_EQ(WhyNotTaken({.found_ns = 100, .data_ns = 100}, false), "");
  EXPECT_EQ(WhyNotTaken({.none = "it fits in no way"}, false), "it fits in no way");
}

TEST(AutoStrategy, WhatWasFoundComesBackFromItsText) {
  const FoundStep found = {.found_ns = 3,
                           .data_ns = 4,
                           .tried = {.split_ns = 5, .whole_ns = 6},
                           .synchronization = "owner",
                           .none = "a\nb"};
  const absl::StatusOr<FoundStep> read = FoundStep::FromText(found.ToText());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToText(), found.ToText());
  EXPECT_EQ(read->none, "a\nb");
  EXPECT_FALSE(FoundStep::FromText("3\n4").ok());
}

TEST(AutoStrategy, ItsFileIsNamedForTheModelsFileElseForTheModel) {
  wire::JobConfig config;
  config.set_model("mlp:hidden=2048");
  EXPECT_EQ(StrategyName(config), "mlp.strategy.textproto");
  config.set_model("onnx:nets/a b.onnx");
  EXPECT_EQ(StrategyName(config), "a_b.strategy.textproto");
  config.mutable_output()->set_model_path("out/digits.safetensors");
  EXPECT_EQ(StrategyName(config), "digits.strategy.textproto");
}

TEST(PlanningProcess, ItsFilesAreSeenAndItsFolderGoes) {
  std::string folder;
  {
    const ScratchFolder scratch;
    folder = scratch.path();
    const absl::StatusOr<ProcessEnd> end = RunApart(scratch, [&] {
      std::ofstream(std::filesystem::temp_directory_path() / "made") << getpid();
    });
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->failed, "");
    EXPECT_FALSE(end->asked.has_value());
    EXPECT_TRUE(std::filesystem::exists(scratch.File("made")));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(PlanningProcess, OneThatDiesIsNoEndOfOurs) {
  const ScratchFolder scratch;
  const absl::StatusOr<ProcessEnd> end = RunApart(scratch, [] { raise(SIGKILL); });
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->failed, "killed by SIGKILL");
  EXPECT_FALSE(end->asked.has_value());
}

TEST(PlanningProcess, ASignalEndsItWithItsCode) {
  const ScratchFolder scratch;
  for (const auto& [number, code] :
       {std::pair(SIGINT, kExitInterrupted), std::pair(SIGTERM, kExitTerminated)}) {
    const absl::StatusOr<ProcessEnd> end = RunApart(scratch, [number = number] {
      kill(getppid(), number);
      for (;;) pause();
    });
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(end->asked, code);
  }
}

}  // namespace
}  // namespace soapstone::apps
