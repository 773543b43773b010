#include "observe/timeline/draw_timeline.h"

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
  ThreadEvents device = {.kind = ThreadKind::kWorkerDevice};
  for (Clock clock = 0; clock < 10; ++clock) {
    device.events.push_back({kMost, kMost, clock, 0, EventKind::kForward});
    device.events.push_back({kMost, kMost, clock, 0, EventKind::kStep});
  }
  ThreadEvents planned = {.kind = ThreadKind::kPlanned};
  planned.events = {{0, kMost, 0, 0, EventKind::kStep, 4'000'000'000u},
                    {-kMost, kMost, 7, 0, EventKind::kForward, 9},
                    {kMost, kMost, 7, 0, EventKind::kBackward, 9},
                    {0, 1, 7, 0, EventKind::kPush, 9}};
  const Timeline timeline = DrawTimeline({thread, device, planned}, {});
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

// A team of two seats: the first runs "a" forward from each step's begin on, 20 us long, and gives
// a block, the second takes it 30 us later. Planned were 10 us each, 4 ms a step, of measured 1 ms.
std::vector<ThreadEvents> TeamOf(Nanos planned_step) {
  std::vector<ThreadEvents> threads;
  for (uint32_t seat = 0; seat < 2; ++seat) {
    ThreadEvents loop = {.kind = ThreadKind::kWorkerLoop, .index = seat, .latest = kClocks - 1};
    ThreadEvents device = {
        .kind = ThreadKind::kWorkerDevice, .index = seat, .names = {seat == 0 ? "a" : "b"}};
    for (Clock clock = 0; clock < kClocks; ++clock) {
      const Nanos begin = 5'000 + clock * kStepNs + seat * 50'000;
      const auto flow = static_cast<uint64_t>(7000 + clock);
      loop.events.push_back({begin, begin + kStepNs, clock, 0, EventKind::kStep});
      if (seat == 1) {
        device.events.push_back({begin - 2000, begin, clock, flow, EventKind::kTake, 3});
      }
      device.events.push_back({begin, begin + 20'000, clock, 0, EventKind::kForward});
      if (seat == 0) {
        device.events.push_back({begin + 20'000, begin + 21'000, clock, flow, EventKind::kGive, 3});
        loop.events.push_back({begin + 22'000, begin + 23'000, clock, flow, EventKind::kBlock, 3});
      }
    }
    ThreadEvents planned = {
        .kind = ThreadKind::kPlanned, .index = seat, .names = {seat == 0 ? "a" : "b"}};
    planned.events = {{0, planned_step, 0, 0, EventKind::kStep, /*team=*/0},
                      {seat * 15'000, seat * 15'000 + 10'000, 0, 0, EventKind::kForward}};
    threads.push_back(loop);
    threads.push_back(device);
    threads.push_back(planned);
  }
  return threads;
}

// By process: the slices of a track, in microseconds.
std::map<int, std::vector<std::pair<double, double>>> SlicesOn(const Json& trace,
                                                               const std::string& track) {
  std::set<std::pair<int, int>> tracks;
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name" && event["args"]["name"] == track) {
      tracks.emplace(event["pid"], event["tid"]);
    }
  }
  std::map<int, std::vector<std::pair<double, double>>> slices;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !tracks.contains({event["pid"], event["tid"]})) continue;
    slices[event["pid"]].emplace_back(event["ts"], event["dur"]);
  }
  return slices;
}

TEST(DrawTimelineTest, BlocksHaveArrowsFromSeatToSeat) {
  const Timeline timeline = DrawTimeline(TeamOf(kStepNs), {.begin = 10, .end = 20});
  EXPECT_EQ(timeline.blocks, 10u);
  EXPECT_EQ(timeline.block_flows, 10u);
  EXPECT_EQ(timeline.pushes, 0u);
  EXPECT_TRUE(timeline.notes.empty());
  const Json trace = Json::parse(timeline.text);
  std::map<std::string, Json> from;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") from[event["id"]] = event;
    if (event["ph"] != "f") continue;
    const Json& begin = from.at(event["id"]);
    EXPECT_EQ(begin["pid"], 0);
    EXPECT_EQ(event["pid"], 1);
    EXPECT_DOUBLE_EQ(static_cast<double>(event["ts"]) - static_cast<double>(begin["ts"]), 28);
  }
  EXPECT_EQ(from.size(), 10u);
  EXPECT_EQ(SlicesOn(trace, "blocks sent").at(0).size(), 10u);
}

TEST(DrawTimelineTest, WhatWasPlannedStandsBesideEachStep) {
  const Json trace = Json::parse(DrawTimeline(TeamOf(kStepNs / 2), {.begin = 10, .end = 20}).text);
  const auto planned = SlicesOn(trace, "planned");
  for (const int seat : {0, 1}) {
    ASSERT_EQ(planned.at(seat).size(), 10u);
    for (int step = 0; step < 10; ++step) {
      // The first forward half of the first seat begins the step, on both.
      EXPECT_DOUBLE_EQ(planned.at(seat)[step].first, 1000 * step + 15 * seat);
      EXPECT_DOUBLE_EQ(planned.at(seat)[step].second, 10);
    }
  }
}

// Steps that were planned to take longer than they do are one behind the other all the same.
TEST(DrawTimelineTest, PlannedStepsDoNotOverlap) {
  const Json trace = Json::parse(DrawTimeline(TeamOf(4 * kStepNs), {.begin = 10, .end = 20}).text);
  const auto planned = SlicesOn(trace, "planned");
  for (int step = 0; step < 10; ++step) {
    EXPECT_DOUBLE_EQ(planned.at(1)[step].first, 4000 * step + 15);
  }
}

// Where iterations overlap, halves of several clocks take turns, and none covers another.
TEST(DrawTimelineTest, PlannedHalvesOfSeveralClocksTakeTurns) {
  std::vector<ThreadEvents> threads = TeamOf(kStepNs);
  // Forward at once, and two and a half steps later for nine tenths of one.
  threads[2].events[1].end_ns = 3 * kStepNs / 5;
  threads[2].events.push_back(
      {5 * kStepNs / 2, 5 * kStepNs / 2 + 9 * kStepNs / 10, 0, 0, EventKind::kBackward});
  const Json trace = Json::parse(DrawTimeline(threads, {.begin = 10, .end = 20}).text);
  const auto slices = SlicesOn(trace, "planned").at(0);
  EXPECT_EQ(slices.size(), 20u);
  double until = 0;
  for (const auto& [begin, took] : slices) {
    EXPECT_GE(begin, until - 1e-6);
    until = begin + took;
  }
}

TEST(DrawTimelineTest, OfAStepThatWasNotMadeNothingWasPlanned) {
  std::vector<ThreadEvents> threads = TeamOf(kStepNs);
  for (const size_t loop : {0, 3}) {
    std::erase_if(threads[loop].events, [](const Event& event) { return event.clock >= 12; });
  }
  const Json trace = Json::parse(DrawTimeline(threads, {.begin = 10, .end = 20}).text);
  EXPECT_EQ(SlicesOn(trace, "planned").at(0).size(), 2u);
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
