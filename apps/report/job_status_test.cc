#include "apps/report/job_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <sstream>
#include <string>

namespace soapstone::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobStatus Running() {
  JobStatus status = {.role = "scheduler",
                      .version = "soapstone 0.1.0",
                      .job = "lenet5 on digits",
                      .policy = "ssp:s=2",
                      .phase = "running",
                      .ready = true,
                      .up_s = 61,
                      .servers = 2,
                      .servers_there = 2,
                      .workers_wanted = 3,
                      .progress = {.epoch = 2,
                                   .epochs = 10,
                                   .clock = 30,
                                   .clocks = 120,
                                   .samples = 900,
                                   .samples_per_s = 12.5,
                                   .loss = 0.25,
                                   .lag_max = 2,
                                   .lag_mean = 0.5,
                                   .eta_s = 60,
                                   .workers = 2}};
  status.workers = {
      {.worker = 0,
       .member = true,
       .clock = 30,
       .samples = 300,
       .loss = 0.5,
       .lag_mean = 1,
       .lag_max = 2,
       .times = {.worker = 0, .compute = 3, .injected = 0, .policy = 1, .shard = 0, .network = 0},
       .step_s = 0.1,
       .slowdown = 1},
      {.worker = 1, .clock = 3, .times = {.worker = 1}, .waits = "10 s for shard-0"}};
  status.workers[0].host = "n0";
  status.missing = "worker 2";
  status.shards = {
      {.server = 0,
       .age_s = 0.25,
       .read_lag_max = 2,
       .clock_gap_max = 3,
       .reads = {.shard = ShardId{0},
                 .frontier = 30,
                 .reader_count = 2,
                 .parked_count = 1,
                 .readers = {{WorkerId{0}, 33, 10, 25, 4, 1500}, {WorkerId{1}, kNoClock, 3}}}},
      {.server = 1,
       .groups = true,
       .reads = {.shard = ShardId{1},
                 .frontier = 29,
                 .reader_count = 1000,
                 .readers = std::vector<wire::ReaderState>(7, {WorkerId{9}, 30, 8, 4, 1})}}};
  status.history = {{0, 0, 10, 2.5, 0}, {1, 12, 12.5, 0.25, 0.5}};
  status.news = {"started", "worker 1 lost"};
  status.ended = {.code = 79, .reason = "the loss is NaN"};
  return status;
}

TEST(JobStatus, ComesBackFromItsJson) {
  const JobStatus status = Running();
  const auto back = StatusFromJson(StatusJson(status));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, status);
}

TEST(JobStatus, NumbersThatAreNotFiniteAndRubbishAreTakenWithoutHarm) {
  JobStatus status = Running();
  status.progress.loss = std::numeric_limits<double>::quiet_NaN();
  status.workers[0].loss = std::numeric_limits<double>::infinity();
  status.workers[0].host = "\xff<b>";
  status.history[0].loss = std::numeric_limits<double>::quiet_NaN();
  status.news.push_back("odd \xff");
  const auto back = StatusFromJson(StatusJson(status));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->progress.loss, 0);
  EXPECT_EQ(back->history[0].loss, 0);
  EXPECT_EQ(back->history[1], status.history[1]);
  for (const char* text :
       {"", "[]", "{}", "{\"progress\": 3}", "null", "{\"progress\": {\"epoch\": \"x\"}}"}) {
    EXPECT_FALSE(StatusFromJson(text).ok()) << text;
  }
}

TEST(JobStatus, ANumberThatIsNoneOfItsFieldIsRubbish) {
  const std::string text = StatusJson(Running());
  const std::string clocks = "\"clocks\":120";
  ASSERT_NE(text.find(clocks), std::string::npos);
  for (const char* number : {"1e300", "120.5", "-1e25", "99999999999999999999"}) {
    std::string odd = text;
    odd.replace(odd.find(clocks), clocks.size(), std::string("\"clocks\":") + number);
    EXPECT_FALSE(StatusFromJson(odd).ok()) << number;
  }
}

TEST(JobStatus, TheScreenSaysWhoIsHowFarWithinItsWidth) {
  const std::string screen = StatusScreen(Running(), 200, false);
  EXPECT_THAT(screen, HasSubstr("scheduler  running"));
  EXPECT_THAT(screen, HasSubstr("servers 2 of 2  workers 2 of 3  clock 30 of 120"));
  EXPECT_THAT(screen, HasSubstr("###........."));
  EXPECT_THAT(screen, HasSubstr(" 75%     25%"));
  EXPECT_THAT(screen, HasSubstr("not a member  waits 10 s for shard-0"));
  EXPECT_THAT(screen, HasSubstr("  on n0"));
  EXPECT_THAT(screen, HasSubstr("\nmissing worker 2\n"));
  EXPECT_THAT(screen, HasSubstr("\nended with 79: the loss is NaN\n"));
  EXPECT_THAT(screen, HasSubstr("     0        30    1 of 2      0: 2.5 (4)*  1: 0.0 (0)\n"));
  EXPECT_THAT(screen, HasSubstr("group 9: 0.5 (1)  of 1000, by mean lag\n"));
  EXPECT_THAT(screen, HasSubstr("\nworker 1 lost\n"));
  for (const bool utf8 : {false, true}) {
    std::istringstream lines(StatusScreen(Running(), 40, utf8));
    for (std::string line; std::getline(lines, line);) {
      size_t shown = 0;
      for (const char c : line) shown += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
      EXPECT_LE(shown, 40u) << line;
    }
  }
}

TEST(JobStatus, AShortStepsTimeIsNotZero) {
  JobStatus status = Running();
  for (const auto& [seconds, shown] :
       {std::pair(0.1, "   100.0  x"), {0.0035, "    3.50  x"}, {0.00035, "   0.350  x"}}) {
    status.workers[0].step_s = seconds;
    EXPECT_THAT(StatusScreen(status, 200, false), HasSubstr(shown));
  }
}

// What a node says is shown, and does nothing to a terminal.
TEST(JobStatus, OthersWordsAreText) {
  JobStatus status = Running();
  // Who writes a bar as the screen draws them is no less another.
  status.workers[1].waits = "█\x1b[2J\x07";
  status.workers[1].host = "█\x1b[2J\x07";
  status.ended->reason = "█\x1b[2J\x07";
  status.news = {"worker █\x1b]0;owned\x07 lost"};
  for (const bool utf8 : {false, true}) {
    const std::string screen = StatusScreen(status, 200, utf8);
    EXPECT_THAT(screen, Not(HasSubstr("\x1b")));
    EXPECT_THAT(screen, Not(HasSubstr("\x07")));
  }
}

}  // namespace
}  // namespace soapstone::apps
