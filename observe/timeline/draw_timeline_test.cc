#include "observe/timeline/draw_timeline.h"

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace soapstone::timeline {
namespace {

using Json = nlohmann::json;

constexpr Clock kClocks = 30;
constexpr Nanos kStepNs = kMillisecond;
constexpr Nanos kWay = 30'000;  // of a message

uint64_t FlowOf(uint32_t worker, Clock clock) {
  return worker * 1000 + static_cast<uint64_t>(clock);
}

// Two workers and a shard, each on a machine whose clock is ahead by so much.
std::vector<ThreadEvents> JobOf(Nanos worker_0, Nanos worker_1, Nanos shard) {
  std::vector<ThreadEvents> threads;
  ThreadEvents server = {.kind = ThreadKind::kShard,
                         .machine = static_cast<uint64_t>(shard),
                         .host = "s",
                         .latest = kClocks - 1};
  for (uint32_t worker = 0; worker < 2; ++worker) {
    const Nanos ahead = worker == 0 ? worker_0 : worker_1;
    ThreadEvents loop = {.kind = ThreadKind::kWorkerLoop,
                         .index = worker,
                         .machine = static_cast<uint64_t>(ahead),
                         .host = "w",
                         .latest = kClocks - 1};
    ThreadEvents device = loop;
    device.kind = ThreadKind::kWorkerDevice;
    device.names = {"conv1"};
    for (Clock clock = 0; clock < kClocks; ++clock) {
      const Nanos begin = clock * kStepNs;
      loop.events.push_back({begin + ahead, begin + kStepNs + ahead, clock, 0, EventKind::kStep});
      loop.events.push_back(
          {begin + 1000 + ahead, begin + 100'000 + ahead, clock, 0, EventKind::kPull, 0, 20, 10});
      server.events.push_back(
          {begin + shard, begin + 100'000 - kWay + shard, clock, 0, EventKind::kAnswer, worker});
      device.events.push_back({begin + 100'000 + ahead, begin + 700'000 + ahead, clock, 0,
                               EventKind::kForward, clock < 5 ? 0u : 9u});
      const Nanos pushed = begin + 800'000;
      loop.events.push_back({pushed + ahead, pushed + 10'000 + ahead, clock, FlowOf(worker, clock),
                             EventKind::kPush});
      server.events.push_back({pushed + kWay + shard, pushed + kWay + 5000 + shard, clock,
                               FlowOf(worker, clock), EventKind::kApply, worker});
    }
    threads.push_back(loop);
    threads.push_back(device);
  }
  threads.push_back(server);
  return threads;
}

TEST(DrawTimelineTest, HasEachStepOnceAndEachFlow) {
  const Timeline timeline = DrawTimeline(JobOf(1, 1, 1), {.begin = 10, .end = 20});
  EXPECT_EQ(timeline.workers, 2u);
  EXPECT_EQ(timeline.steps, 20u);
  EXPECT_EQ(timeline.pushes, 20u);
  EXPECT_EQ(timeline.flows, 20u);
  EXPECT_TRUE(timeline.notes.empty());
  const Json trace = Json::parse(timeline.text);
  std::map<std::string, int> names;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++names[event["name"]];
    EXPECT_GE(event["args"]["clock"], 10);
    EXPECT_LT(event["args"]["clock"], 20);
    EXPECT_GE(event["ts"], 0.0);
  }
  for (Clock clock = 10; clock < 20; ++clock) EXPECT_EQ(names["step " + std::to_string(clock)], 2);
  EXPECT_EQ(names["forward operator 9"], 20) << "of an operator that has no name";
  EXPECT_EQ(names["pull"], 20);
  EXPECT_EQ(trace["otherData"]["clocks"], "10 to 19");
}

TEST(DrawTimelineTest, SaysWhatAPullWaitedFor) {
  const Json trace = Json::parse(DrawTimeline(JobOf(1, 1, 1), {.begin = 10, .end = 11}).text);
  int pulls = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "pull") continue;
    ++pulls;
    EXPECT_EQ(event["args"]["policy_us"], 20);
    EXPECT_EQ(event["args"]["shard_us"], 10);
    EXPECT_EQ(event["args"]["network_us"], 69);
  }
  EXPECT_EQ(pulls, 2);
}

// Clocks that differ by seconds: a push is before its apply all the same, and by about its way.
TEST(DrawTimelineTest, BringsTheClocksOfMachinesTogether) {
  const Timeline timeline =
      DrawTimeline(JobOf(1, 5 * kSecond, -7 * kSecond), {.begin = 10, .end = 20});
  EXPECT_EQ(timeline.flows, 20u);
  const Json trace = Json::parse(timeline.text);
  std::map<std::string, double> from;
  int arrows = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") from[event["id"]] = event["ts"];
    if (event["ph"] != "f") continue;
    ++arrows;
    const double took_us = static_cast<double>(event["ts"]) - from.at(event["id"]);
    EXPECT_NEAR(took_us, 30, 1);
  }
  EXPECT_EQ(arrows, 20);
  ASSERT_EQ(trace["otherData"]["machines"].size(), 3u);
  for (const Json& machine : trace["otherData"]["machines"]) {
    EXPECT_TRUE(machine["clock_known"]);
    EXPECT_LE(machine["clock_error_ns"], 2 * kWay);
  }
}

TEST(DrawTimelineTest, SaysWhatIsMissing) {
  std::vector<ThreadEvents> threads = JobOf(1, 1, 1);
  std::erase_if(threads[2].events, [](const Event& event) { return event.clock >= 15; });
  threads[2].latest = threads[3].latest = 15;
  threads[0].lost = 12;
  const Timeline timeline = DrawTimeline(threads, {.begin = 10, .end = 20});
  EXPECT_EQ(timeline.steps, 15u);
  EXPECT_EQ(timeline.lost, 12u);
  ASSERT_EQ(timeline.notes.size(), 1u);
  EXPECT_EQ(timeline.notes[0],
            "worker 1: 5 of 10 steps are not there; its last event is of clock 15");
  EXPECT_EQ(Json::parse(timeline.text)["otherData"]["lost_events"], 12);
}

TEST(DrawTimelineTest, AStepThatTwoProcessesOfARankMadeIsThereOnce) {
  std::vector<ThreadEvents> threads = JobOf(1, 1, 1);
  threads.push_back(threads[0]);
  EXPECT_EQ(DrawTimeline(threads, {.begin = 10, .end = 20}).steps, 20u);
}

TEST(DrawTimelineTest, OfNothingAndOfLiesIsJson) {
  EXPECT_EQ(DrawTimeline({}, {}).steps, 0u);
  constexpr Nanos kMost = Nanos{1} << 59;
  ThreadEvents thread = {.host = "\xff<img>", .names = {"\xfe"}};
  thread.events = {{-kMost, kMost, 0, 1, EventKind::kPush, 4'000'000'000u},
                   {kMost, kMost, kClockMax, 1, EventKind::kApply, 1},
                   {-kMost, -kMost, 3, 0, EventKind::kForward, 0},
                   {0, 1, 3, 0, EventKind::kPull, 0, 4'000'000'000u, 4'000'000'000u}};
  const Timeline timeline = DrawTimeline({thread}, {});
  EXPECT_TRUE(Json::accept(timeline.text));
}

TEST(DrawTimelineTest, KeepsItsBoundAndItsSteps) {
  constexpr size_t kBytesMax = 80 << 10;
  const Timeline timeline = DrawTimeline(JobOf(1, 1, 1), {.begin = 0, .end = kClocks}, kBytesMax);
  EXPECT_LE(timeline.text.size(), kBytesMax);
  EXPECT_EQ(timeline.steps, 60u);
  EXPECT_EQ(timeline.flows, 60u);
  EXPECT_GT(timeline.left_out, 0u);
  EXPECT_EQ(timeline.notes.size(), 1u);
  EXPECT_TRUE(Json::accept(timeline.text));
}

TEST(ClockRangeTest, IsReadAndRefused) {
  EXPECT_EQ(*ParseClockRange("100:120"), (ClockRange{100, 120}));
  EXPECT_EQ(*ParseClockRange(""), ClockRange{});
  for (const char* text : {"100", "120:100", "5:5", "-1:5", "a:b", "1:2:3", ":", "1:", ":2",
                           "1:99999999999999999999"}) {
    EXPECT_FALSE(ParseClockRange(text).ok()) << text;
  }
}

}  // namespace
}  // namespace soapstone::timeline
