#include "apps/plan/running_replanner.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace soapstone::apps {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr ReplanTimes kWorthIt = {.present_ns = 300 * kMillisecond,
                                  .found_ns = 150 * kMillisecond,
                                  .step_ns = 400 * kMillisecond,
                                  .stop_ns = 3 * kSecond,
                                  .left = 1000};

TEST(WhyNotReplannedTest, WhatIsHalfAsLongIsTaken) { EXPECT_EQ(WhyNotReplanned(kWorthIt), ""); }

TEST(WhyNotReplannedTest, ATenthLessIsNot) {
  ReplanTimes times = kWorthIt;
  times.found_ns = 275 * kMillisecond;
  EXPECT_THAT(WhyNotReplanned(times), HasSubstr("it gains less than 10%"));
  times.found_ns = 272 * kMillisecond;
  EXPECT_EQ(WhyNotReplanned(times), "");
}

// Half of 400 ms, 200 steps: 40 s; but of the steps that are left alone.
TEST(WhyNotReplannedTest, TheStopIsPaidBackInTime) {
  ReplanTimes times = kWorthIt;
  times.stop_ns = 39 * kSecond;
  EXPECT_EQ(WhyNotReplanned(times), "");
  times.stop_ns = 41 * kSecond;
  EXPECT_THAT(WhyNotReplanned(times),
              HasSubstr("200 steps would gain 40.0 s, and the stop takes 41"));
  times = kWorthIt;
  times.left = 14;
  EXPECT_THAT(WhyNotReplanned(times), HasSubstr("14 steps would gain 2.8 s"));
  times.left = 16;
  EXPECT_EQ(WhyNotReplanned(times), "");
}

TEST(WhyNotReplannedTest, OfNoKnownStepNothingIsGained) {
  ReplanTimes times = kWorthIt;
  times.step_ns = 0;
  EXPECT_NE(WhyNotReplanned(times), "");
}

TEST(SlownessOfSeatsTest, TheSlowestOfAllTeamsCounts) {
  EXPECT_THAT(SlownessOfSeats({1, 3, 1}, 3), ElementsAre(1, 3, 1));
  EXPECT_THAT(SlownessOfSeats({1, 3, 2, 1}, 2), ElementsAre(2, 3));
  EXPECT_THAT(SlownessOfSeats({0.3, 0.5}, 2), ElementsAre(0.3, 0.5));
}

// A job whose planner is a script.
class RunningReplannerTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/replanner_",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    config_.mutable_cluster()->set_workers(3);
    config_.mutable_cluster()->set_strategy("first.strategy");
    Plans("exit 0", "exit 0");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // What it does when it searches, and when it compares; what it was called with is kept.
  void Plans(const std::string& search, const std::string& compare) const {
    const std::string path = folder_ + "/planner";
    std::ofstream(path) << "#!/bin/sh\necho \"$*\" >>" << folder_
                        << "/calls\ncase \"$*\" in\n*--compare=*)" << compare << ";;\n*)" << search
                        << ";;\nesac\n";
    chmod(path.c_str(), 0700);
  }
  static std::string Says(Nanos present, Nanos found) {
    return absl::StrCat(R"(echo '{"strategies": [{"iteration_ns": )", present,
                        R"(}, {"iteration_ns": )", found, R"(}]}')");
  }
  std::string Calls() const {
    std::ostringstream calls;
    calls << std::ifstream(folder_ + "/calls").rdbuf();
    return calls.str();
  }
  // It runs, with a step of 100 ms of 1,000.
  void Begin(RunningReplanner* replanner) {
    replanner->Begin(0, config_, folder_);
    ProgressReport progress;
    progress.clocks = 1000;
    for (const Clock clock : {10, 20}) {
      progress.clock = clock;
      replanner->Take(clock * 100 * kMillisecond, progress);
    }
    replanner->Take(2 * kSecond, SlownessReport{.clock = 20, .slowness = {1, 3, 1}});
  }
  // Until it has found something, or has stopped looking; what it says.
  static std::string Look(RunningReplanner* replanner, int turns = 1000) {
    std::vector<std::string> lines;
    for (int turn = 0; turn < turns && !replanner->found(); ++turn) {
      for (std::string& line : replanner->Turn(2 * kSecond)) lines.push_back(std::move(line));
      if (lines.size() > 1) break;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return absl::StrJoin(lines, "\n");
  }

  std::string folder_;
  wire::JobConfig config_;
  MeasuredInputs inputs_;
  std::string program() const { return folder_ + "/planner"; }
};

TEST_F(RunningReplannerTest, WhatIsBetterIsFoundForTheMachineAsItIs) {
  Plans("exit 0", Says(300'000'000, 150'000'000));
  RunningReplanner replanner(&inputs_, "", program());
  Begin(&replanner);
  EXPECT_EQ(Look(&replanner), "seat 1 takes 3.00 times as long as at first: planning anew for 5 s");
  ASSERT_TRUE(replanner.found());
  EXPECT_THAT(Calls(), AllOf(HasSubstr("--devices=3 --slowness=1,3,1"), HasSubstr("--all_devices"),
                             HasSubstr("--compare=first.strategy," + folder_ + "/replan-1.")));
  EXPECT_THAT(replanner.Turn(3 * kSecond), ElementsAre());  // what was found stays
  ASSERT_TRUE(replanner.found());
  const absl::StatusOr<bool> goes_on = replanner.End({}, &config_);
  ASSERT_TRUE(goes_on.ok());
  EXPECT_TRUE(*goes_on);
  EXPECT_EQ(config_.cluster().strategy(), folder_ + "/replan-1.strategy.textproto");
  EXPECT_EQ(config_.cluster().workers(), 3u);
  // The next run begins with the seats as they are: what changes then is told from that.
  Begin(&replanner);
  Look(&replanner, 20);
  EXPECT_THAT(Calls(), Not(HasSubstr("1,9,1")));  // not within a minute
  replanner.Take(63 * kSecond, SlownessReport{.clock = 30, .slowness = {1, 3, 1}});
  Look(&replanner);
  EXPECT_THAT(Calls(), HasSubstr("--slowness=1,9,1"));
}

TEST_F(RunningReplannerTest, WhatIsNotBetterIsNotTaken) {
  Plans("exit 0", Says(300'000'000, 290'000'000));
  RunningReplanner replanner(&inputs_, "", program());
  Begin(&replanner);
  EXPECT_THAT(Look(&replanner),
              HasSubstr("the present strategy stays: 290 ms a step is predicted"));
  const absl::StatusOr<bool> goes_on = replanner.End({}, &config_);
  EXPECT_FALSE(*goes_on);
  EXPECT_EQ(config_.cluster().strategy(), "first.strategy");
}

TEST_F(RunningReplannerTest, APlannerThatFailsIsSaid) {
  const std::pair<const char*, const char*> failing[] = {
      {"echo no way >&2; exit 78", "planning ended with exit code 78 (configuration): no way"},
      {"kill -9 $$", "planning was killed by SIGKILL"},
  };
  for (const auto& [search, said] : failing) {
    Plans(search, "exit 0");
    RunningReplanner replanner(&inputs_, "", program());
    Begin(&replanner);
    EXPECT_THAT(Look(&replanner), HasSubstr(absl::StrCat("the present strategy stays: ", said)));
    EXPECT_FALSE(replanner.found());
  }
  RunningReplanner replanner(&inputs_, "", folder_ + "/nowhere");
  Begin(&replanner);
  EXPECT_THAT(Look(&replanner), HasSubstr("\n"));
  EXPECT_FALSE(replanner.found());
}

TEST_F(RunningReplannerTest, WhatCannotBeReadIsNotBelieved) {
  for (const char* output :
       {"", "echo {", "echo '[]'", R"(echo '{"strategies": []}')",
        R"(echo '{"strategies": [{"iteration_ns": 5}]}')",
        R"(echo '{"strategies": [{"iteration_ns": 5}, {"iteration_ns": 0}]}')",
        R"(echo '{"strategies": [{"iteration_ns": 5}, {"iteration_ns": "x"}]}')"}) {
    Plans("exit 0", absl::StrCat(output, " "));
    RunningReplanner replanner(&inputs_, "", program());
    Begin(&replanner);
    EXPECT_THAT(Look(&replanner), HasSubstr("what was predicted cannot be read")) << output;
    EXPECT_FALSE(replanner.found());
  }
}

TEST_F(RunningReplannerTest, AStopThatDidNotComeAboutTakesNothing) {
  Plans("exit 0", Says(300'000'000, 150'000'000));
  RunningReplanner replanner(&inputs_, "", program());
  Begin(&replanner);
  Look(&replanner);
  ASSERT_TRUE(replanner.found());
  replanner.GiveUp();
  EXPECT_FALSE(replanner.found());
  const absl::StatusOr<bool> goes_on = replanner.End({}, &config_);
  EXPECT_FALSE(*goes_on);
}

TEST_F(RunningReplannerTest, WhereAWorkerLeavesItIsPlannedForTheOthers) {
  Plans("exit 0", Says(300'000'000, 150'000'000));
  RunningReplanner replanner(&inputs_, "", program());
  Begin(&replanner);
  Look(&replanner);
  ASSERT_TRUE(replanner.found());  // for three: that is not taken
  const absl::StatusOr<bool> goes_on = replanner.End({0}, &config_);
  ASSERT_TRUE(goes_on.ok()) << goes_on.status();
  EXPECT_TRUE(*goes_on);
  EXPECT_EQ(config_.cluster().workers(), 2u);
  EXPECT_EQ(config_.cluster().strategy(), folder_ + "/replan-2.strategy.textproto");
  EXPECT_THAT(Calls(), HasSubstr("--devices=2 --slowness=1,1 "));
  EXPECT_THAT(Calls(), HasSubstr("--budget=1s"));
}

TEST_F(RunningReplannerTest, OneWorkerThatIsLeftNeedsNone) {
  RunningReplanner replanner(&inputs_, "", program());
  Begin(&replanner);
  const absl::StatusOr<bool> goes_on = replanner.End({2, 1}, &config_);
  ASSERT_TRUE(goes_on.ok());
  EXPECT_EQ(config_.cluster().workers(), 1u);
  EXPECT_EQ(config_.cluster().strategy(), "");
  EXPECT_FALSE(replanner.End({0, 1, 2}, &config_).ok());
}

TEST_F(RunningReplannerTest, WhereNothingIsFoundForFewerThatIsSaid) {
  Plans("echo too large >&2; exit 78", "exit 0");
  RunningReplanner replanner(&inputs_, "", program());
  Begin(&replanner);
  const absl::StatusOr<bool> goes_on = replanner.End({1}, &config_);
  EXPECT_THAT(std::string(goes_on.status().message()), HasSubstr("too large"));
  EXPECT_EQ(config_.cluster().workers(), 3u);
}

}  // namespace
}  // namespace soapstone::apps
