#include "strategy/machine_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace soapstone::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Example(const std::string& name) {
  std::ifstream file(
      absl::StrCat(SOAPSTONE_SOURCE_DIR, "/examples/machines/", name, ".machine.textproto"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Machine ExampleMachine(const std::string& name) {
  absl::StatusOr<Machine> machine = ParseMachine(Example(name), name);
  EXPECT_TRUE(machine.ok()) << machine.status();
  return *std::move(machine);
}

std::vector<std::string> Names(const Machine& machine, absl::Span<const uint32_t> path) {
  std::vector<std::string> names;
  for (const uint32_t link : path) names.push_back(machine.links()[link].name);
  return names;
}

std::string ErrorOf(const std::string& text) {
  return std::string(ParseMachine(text, "m").status().message());
}

// Two nodes of two devices under a switch that leads to the processor; a server each.
constexpr char kPairs[] = R"(name: "pairs"
kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 1.5 launch_us: 5.5 }
nodes {
  name: "n" count: 2 devices: 2 kind: "gpu"
  switches { name: "s" devices: [0, 1] to_device { gbytes_per_s: 10 }
    parent: "host" to_parent { gbytes_per_s: 8 latency_us: 1 message_us: 0.5 } }
  nics { count: 1 connection { gbytes_per_s: 1 latency_us: 30 } }
  servers: 1 server_apply_gbytes_per_s: 4
}
)";

TEST(MachineTextTest, UnitsBecomeBytesSecondsAndNanoseconds) {
  const Machine machine = *ParseMachine(kPairs, "m");
  EXPECT_EQ(machine.kinds()[0], (DeviceKind{"gpu", 1e12, 1e11, uint64_t{3} << 29, 5500}));
  const Link& up = machine.links()[machine.PushPath(0, 0)[1]];
  EXPECT_EQ(up, (Link{"n0:s>host", 8e9, 1000, 500}));
  EXPECT_EQ(machine.servers()[1], (ParameterServer{"n1:server0", 1, 4e9}));
}

TEST(MachineTextTest, PathsClimbNoFurtherThanTheyMust) {
  const Machine machine = *ParseMachine(kPairs, "m");
  EXPECT_THAT(Names(machine, machine.Path(0, 1)), ElementsAre("n0:0>s", "n0:s>1"));
  EXPECT_THAT(Names(machine, machine.Path(1, 2)),
              ElementsAre("n0:1>s", "n0:s>host", "n0:nic0>", "n1:nic0<", "n1:host>s", "n1:s>0"));
  EXPECT_THAT(Names(machine, machine.PushPath(0, 0)), ElementsAre("n0:0>s", "n0:s>host"));
  EXPECT_THAT(Names(machine, machine.PullPath(1, 0)),
              ElementsAre("n1:nic0>", "n0:nic0<", "n0:host>s", "n0:s>0"));
}

TEST(MachineTextTest, DirectNicsAreReachedWithoutTheProcessor) {
  const Machine machine = *ParseMachine(
      absl::StrReplaceAll(kPairs, {{"nics { count: 1", "nics { count: 2 direct: true"}}), "m");
  EXPECT_THAT(Names(machine, machine.Path(1, 2)), ElementsAre("n0:nic1>", "n1:nic0<"));
  EXPECT_THAT(Names(machine, machine.PushPath(1, 1)), ElementsAre("n0:nic1>", "n1:nic0<"));
}

TEST(MachineTextTest, RacksShareTheWayOut) {
  const std::string nodes = R"(nodes { name: "NAME" count: 1 devices: 1 kind: "gpu" fabric: "RACK"
    nics { count: 1 direct: true connection { gbytes_per_s: 1 } } })";
  std::string text = "name: \"racks\"\n";
  absl::StrAppend(&text,
                  "kinds { name: \"gpu\" tflops: 1 memory_gbytes_per_s: 1 memory_gib: 1 }\n");
  for (const auto& [name, rack] : {std::pair{"a", "left"}, {"b", "left"}, {"c", "right"}}) {
    absl::StrAppend(&text, absl::StrReplaceAll(nodes, {{"NAME", name}, {"RACK", rack}}), "\n");
  }
  const std::string fabrics = R"(
    fabrics { name: "left" parent: "spine" to_parent { gbytes_per_s: 5 } }
    fabrics { name: "right" parent: "spine" to_parent { gbytes_per_s: 5 } }
    fabrics { name: "spine" })";
  const Machine machine = *ParseMachine(text + fabrics, "m");
  EXPECT_THAT(Names(machine, machine.Path(0, 1)), ElementsAre("a:nic0>", "b:nic0<"));
  EXPECT_THAT(Names(machine, machine.Path(0, 2)),
              ElementsAre("a:nic0>", "left>spine", "spine>right", "c:nic0<"));
  EXPECT_THAT(ErrorOf(text + "fabrics { name: \"left\" } fabrics { name: \"right\" }"),
              HasSubstr("there is no path from a:0 to c:0"));
}

struct BadText {
  const char* what;
  const char* from;
  const char* to;
  const char* error;
};

class BadTextTest : public testing::TestWithParam<BadText> {};

TEST_P(BadTextTest, IsRefusedInOneLineWithItsPlace) {
  const BadText& bad = GetParam();
  ASSERT_THAT(kPairs, HasSubstr(bad.from));
  const std::string error = ErrorOf(absl::StrReplaceAll(kPairs, {{bad.from, bad.to}}));
  EXPECT_THAT(error, HasSubstr(bad.error));
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Texts, BadTextTest,
    testing::Values(
        BadText{"unknown_field", "launch_us", "lunch_us", "m:2:"},
        BadText{"unknown_kind", "kind: \"gpu\"", "kind: \"tpu\"",
                "m:4:33: nodes: kind: there is no kind 'tpu'"},
        BadText{"no_rate", "tflops: 1 ", "tflops: 0 ", "m:2:21: kinds.tflops: must be above 0"},
        BadText{"negative_memory", "memory_gib: 1.5", "memory_gib: -1", "kinds.memory_gib"},
        BadText{"negative_launch", "launch_us: 5.5", "launch_us: -5", "kinds.launch_us: must be"},
        BadText{"zero_bandwidth", "{ gbytes_per_s: 10 }", "{ gbytes_per_s: 0 }",
                "m:5:40: switches.to_device.gbytes_per_s: must be above 0, not 0"},
        BadText{"infinite_bandwidth", "gbytes_per_s: 8", "gbytes_per_s: inf",
                "m:6:20: switches.to_parent.gbytes_per_s"},
        BadText{"negative_latency", "latency_us: 30", "latency_us: -1",
                "m:7:19: nodes.nics.connection.latency_us: must be from 0"},
        BadText{"switch_above_itself", "parent: \"host\"", "parent: \"s\"",
                "m:6:5: switch s: parent: it is above itself"},
        BadText{"unknown_parent", "parent: \"host\"", "parent: \"t\"",
                "m:6:5: switches: parent: there is no switch 't'"},
        BadText{"no_such_device", "devices: [0, 1]", "devices: [0, 2]",
                "switches: devices: there is no device 2 in a node of 2"},
        BadText{"no_way_to_the_nics", "parent: \"host\"", "",
                "m:3:1: nodes: there is no path from n0:0 to n1:0"},
        BadText{"no_way_to_a_device", "devices: [0, 1]", "devices: [0]",
                "there is no path from n0:0 to n0:1"},
        BadText{"no_nodes", "count: 2", "count: 0", "m:4:13: nodes: count: must be from 1"},
        BadText{"too_many_nodes", "count: 2", "count: 4000", "nodes: count: must be from 1"},
        BadText{"too_many_devices", "devices: 2", "devices: 600", "more than 1024 devices"},
        BadText{"devices_of_a_node", "devices: 2", "devices: 4000000000",
                "devices: must be at most"},
        BadText{"absurd_rate", "tflops: 1 ", "tflops: 1e300 ", "must be from 1e-06 to 1e+09"},
        BadText{"slow_link", "gbytes_per_s: 8", "gbytes_per_s: 1e-300", "must be from 1e-06"},
        BadText{"no_nics", "nics { count: 1", "nics { count: 0",
                "m:7:10: nodes.nics.count: must be from 1"},
        BadText{"no_apply_rate", "server_apply_gbytes_per_s: 4", "",
                "nodes.server_apply_gbytes_per_s: must be above 0"},
        BadText{"no_name", "name: \"pairs\"", "", "m: name: it needs one"}),
    [](const auto& info) { return info.param.what; });

TEST(MachineTextTest, SwitchesInACircleAreRefused) {
  const std::string text = absl::StrReplaceAll(
      kPairs, {{"parent: \"host\"", "parent: \"t\""},
               {"  nics",
                "  switches { name: \"t\" parent: \"s\" to_parent { gbytes_per_s: 1 } }\n"
                "  nics"}});
  EXPECT_THAT(ErrorOf(text), HasSubstr("m:6:5: switch s: parent: it is above itself"));
}

// A few lines that stand for more than there is memory for, or time.
TEST(MachineTextTest, WhatGrowsFasterThanItsTextIsBounded) {
  const std::string kind =
      "name: \"m\" kinds { name: \"k\" tflops: 1 memory_gbytes_per_s: 1 "
      "memory_gib: 1 } ";
  const std::string one = "{ gbytes_per_s: 1 }";
  EXPECT_THAT(ErrorOf(absl::StrCat(kind,
                                   "nodes { name: \"n\" count: 1024 devices: 1 kind: \"k\" "
                                   "host { gbytes_per_s: 1 } nics { count: 1024 connection ",
                                   one, " } }")),
              HasSubstr("more than 2097152 links"));
  std::string switches;
  for (int i = 0; i < 60; ++i) absl::StrAppend(&switches, "switches { name: \"s", i, "\" } ");
  EXPECT_THAT(
      ErrorOf(absl::StrCat(kind, "nodes { name: \"n\" count: 1000 devices: 1 kind: \"k\" ",
                           switches, "nics { count: 1 direct: true connection ", one, " } }")),
      HasSubstr("more than 2097152 paths within nodes"));
  std::string chain;
  for (int i = 0; i < 2000; ++i) {
    absl::StrAppend(&chain, "fabrics { name: \"f", i, "\" parent: \"f", (i + 1) % 2000,
                    "\" to_parent ", one, " } ");
  }
  EXPECT_THAT(ErrorOf(absl::StrCat(kind, chain)),
              HasSubstr("fabric f0: parent: more than 16 levels"));
}

TEST(MachineTextTest, NodesThatCannotReachEachOtherAreRefused) {
  const std::string text = absl::StrReplaceAll(
      kPairs, {{"nics { count: 1 connection { gbytes_per_s: 1 latency_us: 30 } }", ""}});
  EXPECT_THAT(ErrorOf(text), HasSubstr("nodes: nics: there is no path from n to other nodes"));
}

TEST(ExampleMachinesTest, AllAreRead) {
  size_t read = 0;
  const std::string folder = absl::StrCat(SOAPSTONE_SOURCE_DIR, "/examples/machines");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    const absl::StatusOr<Machine> machine = ParseMachine(text.str(), entry.path().filename());
    EXPECT_TRUE(machine.ok()) << machine.status();
    ++read;
  }
  EXPECT_GE(read, 4u);
}

TEST(ExampleMachinesTest, AreWhatTheyAreCalled) {
  const Machine p100 = ExampleMachine("p100_4x4");
  EXPECT_EQ(p100.devices().size(), 16u);
  EXPECT_THAT(Names(p100, p100.Path(0, 5)), ElementsAre("node0:nic0>", "node1:nic0<"));
  EXPECT_THAT(Names(p100, p100.Path(4, 7)), ElementsAre("node1:0>3"));
  const Machine k80 = ExampleMachine("k80_16x4");
  EXPECT_EQ(k80.devices().size(), 64u);
  EXPECT_EQ(k80.Path(0, 1).size(), 2u);
  EXPECT_EQ(k80.Path(0, 2).size(), 4u);
  EXPECT_THAT(Names(k80, k80.PushPath(0, 0)),
              ElementsAre("node0:0>left", "node0:left>root", "node0:root>host"));
  // Devices of a pair are alike; the pairs are not one class, as 1 is nearer to 0 than 2 is.
  EXPECT_EQ(std::set<uint32_t>(k80.symmetry_classes().begin(), k80.symmetry_classes().end()).size(),
            32u);
  const Machine dgx = ExampleMachine("dgx_h100_pod");
  EXPECT_THAT(Names(dgx, dgx.Path(3, 9)), ElementsAre("dgx0:nic3>", "dgx1:nic1<"));
  const Machine pair = ExampleMachine("heterogeneous_pair");
  EXPECT_EQ(pair.kind_of(0).flops_per_second, 2 * pair.kind_of(1).flops_per_second);
}

TEST(HashOfMachineTest, IsOfAllThatTheMachineIs) {
  const std::string hash = HashOf(*ParseMachine(kPairs, "m"));
  EXPECT_EQ(hash, HashOf(*ParseMachine(kPairs, "another file")));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"latency_us: 30", "latency_us: 31"}, {"tflops: 1", "tflops: 2"}, {"pairs", "Pairs"}}) {
    EXPECT_NE(hash, HashOf(*ParseMachine(absl::StrReplaceAll(kPairs, {{from, to}}), "m"))) << from;
  }
}

}  // namespace
}  // namespace soapstone::planner
