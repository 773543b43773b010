#include "observe/timeline/trace_writer.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "gtest/gtest.h"

namespace soapstone::timeline {
namespace {

using Json = nlohmann::json;

TEST(TraceWriterTest, WritesSlicesTracksAndFlows) {
  TraceWriter writer;
  writer.NameProcess(1, "worker 1");
  writer.NameTrack({1, 2}, "device");
  writer.PlaceTrack({1, 2}, 7);
  EXPECT_TRUE(
      writer.Add({.on = {1, 2}, .name = "conv1", .category = "compute", .begin = 1500, .end = 4500},
                 {{"clock", 3}}));
  EXPECT_TRUE(writer.AddFlow(0xabc, {1, 2}, 1500, {5, 0}, 9000));
  const Json trace = Json::parse(writer.Finish({{"steps", 1}}));
  EXPECT_EQ(trace["otherData"], (Json{{"steps", 1}, {"left_out", 0}}));
  const Json& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0]["args"]["name"], "worker 1");
  EXPECT_EQ(events[2]["args"]["sort_index"], 7);
  EXPECT_EQ(events[3], (Json{{"name", "conv1"},
                             {"cat", "compute"},
                             {"ph", "X"},
                             {"pid", 1},
                             {"tid", 2},
                             {"ts", 1.5},
                             {"dur", 3.0},
                             {"args", {{"clock", 3}}}}));
  EXPECT_EQ(events[4]["ph"], "s");
  EXPECT_EQ(events[5]["ph"], "f");
  EXPECT_EQ(events[4]["id"], events[5]["id"]);
  EXPECT_EQ(events[5]["ts"], 9.0);
}

TEST(TraceWriterTest, IsJsonWhateverIsAdded) {
  TraceWriter writer;
  writer.NameProcess(0, "\xff\"\\\n<img>");
  writer.Add({.name = "\x80", .begin = 0, .end = 1},
             {{"loss", std::numeric_limits<double>::quiet_NaN()},
              {"rate", std::numeric_limits<double>::infinity()}});
  const Json trace = Json::parse(writer.Finish({{"host", "\xc3\x28"}}));
  EXPECT_TRUE(trace["traceEvents"][1]["args"]["loss"].is_null());
  EXPECT_TRUE(trace["traceEvents"][1]["args"]["rate"].is_null());
}

TEST(TraceWriterTest, OfNothingIsJson) {
  EXPECT_EQ(Json::parse(TraceWriter().Finish())["traceEvents"].size(), 0u);
}

TEST(TraceWriterTest, KeepsItsBoundAndCountsWhatItLeavesOut) {
  constexpr size_t kBytesMax = 64 << 10;
  TraceWriter writer(kBytesMax);
  uint64_t added = 0;
  for (int i = 0; i < 1000; ++i)
    added += writer.Add({.name = "x", .begin = i, .end = i + 1}) ? 1 : 0;
  EXPECT_GT(added, 100u);
  EXPECT_EQ(writer.left_out(), 1000 - added);
  const std::string text = writer.Finish({{"long", std::string(100'000, 'x')}});
  EXPECT_LE(text.size(), kBytesMax);
  const Json trace = Json::parse(text);
  EXPECT_EQ(trace["traceEvents"].size(), added);
  EXPECT_EQ(trace["otherData"]["left_out"], 1000 - added);
}

TEST(TraceWriterTest, WhatIsLeftOutIsCountedThoughNothingElseIsKnown) {
  TraceWriter writer(64 << 10);
  const std::string name(70'000, 'x');
  EXPECT_FALSE(writer.Add({.name = name, .begin = 0, .end = 1}));
  EXPECT_EQ(Json::parse(writer.Finish())["otherData"]["left_out"], 1);
}

TEST(TraceWriterTest, WithoutABoundNothingIsLeftOut) {
  TraceWriter writer(TraceWriter::kUnbounded);
  const std::string name(TraceWriter::kBytesMax, 'x');
  EXPECT_TRUE(writer.Add({.name = name, .begin = 0, .end = 1}));
  EXPECT_GT(writer.Finish().size(), TraceWriter::kBytesMax);
}

}  // namespace
}  // namespace soapstone::timeline
