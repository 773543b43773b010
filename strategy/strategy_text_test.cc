#include "strategy/strategy_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_replace.h"
#include "models/zoo/zoo.h"
#include "strategy/machine_text.h"
#include "wire/config/text_config.h"

namespace soapstone::planner {
namespace {

using testing::HasSubstr;

constexpr char kFour[] = R"(name: "four"
kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 1 }
nodes { name: "n" count: 1 devices: 4 kind: "gpu" mesh { gbytes_per_s: 10 } }
)";

class StrategyTextTest : public testing::Test {
 protected:
  StrategyTextTest()
      : graph_(*MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 8})),
        machine_(*ParseMachine(kFour, "four")),
        strategy_(DataParallel(graph_, 4)) {
    // An uneven split of two dimensions.
    OpConfig& config = strategy_.ops[1];
    config.degrees = {2, 2, 1};
    config.cuts = {{3}, {}, {}};
    config.devices = {3, 1, 0, 2};
    strategy_.synchronization = Synchronization::kRing;
    strategy_.staleness = 2;
  }
  std::string Text() const { return wire::TextOf(MessageOf(graph_, machine_, "costs", strategy_)); }
  absl::StatusOr<Strategy> Read(const std::string& text) const {
    absl::StatusOr<wire::Strategy> message = ParseStrategy(text, "f");
    if (!message.ok()) return message.status();
    return StrategyFrom(*message, "f", graph_, machine_);
  }
  std::string ErrorWith(const std::string& from, const std::string& to) const {
    EXPECT_THAT(Text(), HasSubstr(from));
    std::string error(Read(absl::StrReplaceAll(Text(), {{from, to}})).status().message());
    EXPECT_EQ(error.find('\n'), std::string::npos);
    return error;
  }

  OpGraph graph_;
  Machine machine_;
  Strategy strategy_;
};

TEST_F(StrategyTextTest, IsReadBackAsItWas) {
  const absl::StatusOr<Strategy> again = Read(Text());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, strategy_);
}

TEST_F(StrategyTextTest, MicroBatchesAreKept) {
  graph_ = *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}),
                        {.batch = 8, .micro_batches = 3});
  strategy_ = DataParallel(graph_, 2);
  const absl::StatusOr<Strategy> again = Read(Text());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, strategy_);
  EXPECT_THAT(ErrorWith("micro_batches: 3", "micro_batches: 2"),
              HasSubstr("for 2 micro-batches, not for 3"));
}

TEST_F(StrategyTextTest, ServersThatKeepAGroupAreKept) {
  machine_ = *ParseMachine(R"(name: "two"
kinds { name: "gpu" tflops: 1 memory_gbytes_per_s: 100 memory_gib: 1 }
nodes {
  name: "n" count: 2 devices: 2 kind: "gpu" mesh { gbytes_per_s: 10 } host { gbytes_per_s: 10 }
  nics { count: 1 connection { gbytes_per_s: 1 } } servers: 2 server_apply_gbytes_per_s: 10
})",
                           "two");
  strategy_.synchronization = Synchronization::kServers;
  // Files without any say that all keep all.
  EXPECT_EQ(Text().find("kept"), std::string::npos);
  EXPECT_EQ(*Read(Text()), strategy_);
  strategy_.servers.resize(graph_.groups.size());
  const auto first = std::find_if(graph_.ops.begin(), graph_.ops.end(),
                                  [](const PlanOp& op) { return !op.params.empty(); });
  strategy_.servers[first->group] = {1, 2};
  const absl::StatusOr<Strategy> again = Read(Text());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, strategy_);
  const std::string op = "op: \"" + first->name + "\"";
  EXPECT_THAT(ErrorWith("servers: 2\n", "servers: 4\n"), HasSubstr("there is no server 4 among 4"));
  EXPECT_THAT(ErrorWith("servers: 2\n", "servers: 1\n"), HasSubstr("they must ascend, each once"));
  EXPECT_THAT(ErrorWith(op, "op: \"other\""), HasSubstr("f: kept: no parameter group begins with"));
  EXPECT_THAT(ErrorWith(op, "op: \"" + graph_.ops.back().name + "\""),
              HasSubstr("f: servers of " + graph_.ops.back().name + ": it has no parameters"));
  EXPECT_THAT(ErrorWith("kept {", "kept { " + op + " servers: 0 }\nkept {"),
              HasSubstr("stands there twice"));
  EXPECT_THAT(ErrorWith("kept {", "kept { op: \"" + graph_.ops.back().name + "\" }\nkept {"),
              HasSubstr("has no servers"));
  EXPECT_THAT(ErrorWith("\"servers\"", "\"ring\""), HasSubstr("do not synchronize"));
}

TEST_F(StrategyTextTest, NamesWhatItWasMadeFor) {
  const wire::Strategy message = MessageOf(graph_, machine_, "costs", strategy_);
  EXPECT_EQ(message.model_sha256(), graph_.model_sha256);
  EXPECT_EQ(message.machine_sha256(), HashOf(machine_));
  EXPECT_EQ(message.costs_sha256(), "costs");
  EXPECT_EQ(message.devices(), 4u);
}

TEST_F(StrategyTextTest, IsRefusedForAnotherModelBatchOrMachineNamingBoth) {
  const wire::Strategy message = MessageOf(graph_, machine_, "costs", strategy_);
  const OpGraph other =
      *MakeOpGraph(*models::BuildModel("softmax", models::ModelInput{}), {.batch = 8});
  EXPECT_THAT(std::string(StrategyFrom(message, "f", other, machine_).status().message()),
              testing::AllOf(HasSubstr("a strategy for mlp ("), HasSubstr("not for softmax (")));
  const OpGraph batch =
      *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}), {.batch = 16});
  EXPECT_THAT(std::string(StrategyFrom(message, "f", batch, machine_).status().message()),
              HasSubstr("for batch 8 and time chunk 0, not for 16 and 0"));
  const OpGraph micro = *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}),
                                     {.batch = 8, .micro_batches = 4});
  EXPECT_THAT(std::string(StrategyFrom(message, "f", micro, machine_).status().message()),
              HasSubstr("for 1 micro-batches, not for 4"));
  const Machine faster = *ParseMachine(
      absl::StrReplaceAll(kFour, {{"tflops: 1", "tflops: 2"}, {"four", "fast"}}), "m");
  EXPECT_THAT(
      std::string(StrategyFrom(message, "f", graph_, faster).status().message()),
      testing::AllOf(HasSubstr("for 4 devices of four ("), HasSubstr("not for 4 of fast (")));
  EXPECT_THAT(
      std::string(
          StrategyFrom(message, "f", graph_, *FirstDevices(machine_, 2)).status().message()),
      HasSubstr("for 4 devices of four"));
}

TEST_F(StrategyTextTest, WhatDoesNotFitIsRefusedInOneLine) {
  EXPECT_THAT(ErrorWith("version: 2", "version: 7"), HasSubstr("version 7 are not known"));
  EXPECT_THAT(ErrorWith("\"ring\"", "\"tree\""), HasSubstr("synchronization: 'tree' is none of"));
  EXPECT_THAT(ErrorWith("devices: 3\n", "devices: 9\n"), HasSubstr("there is no device 9"));
  EXPECT_THAT(ErrorWith("cuts: 3", "cuts: 8"), HasSubstr("cuts of n must be"));
  EXPECT_THAT(ErrorWith("dim: \"o\"", "dim: \"z\""), HasSubstr("it has no dimension 'z'"));
  EXPECT_THAT(ErrorWith("parts: 2\n", "parts: 3\n"), HasSubstr("f: configuration of"));
  EXPECT_THAT(ErrorWith("name: \"" + graph_.ops[0].name, "name: \"other"),
              HasSubstr("stands where the model has"));
  EXPECT_THAT(ErrorWith("batch: 8", "bath: 8"), HasSubstr("f:4:"));
}

TEST_F(StrategyTextTest, AnOrderIsReadBackAndOneThatCannotRunIsRefused) {
  graph_ = *MakeOpGraph(*models::BuildModel("mlp", models::ModelInput{}),
                        {.batch = 8, .micro_batches = 4});
  strategy_ = SingleDevice(graph_, 0);
  for (size_t k = 0; k < graph_.ops.size(); k += 2) strategy_.ops[k].devices = {1};
  wire::Strategy message = MessageOf(graph_, machine_, "costs", strategy_);
  const auto read = [&] { return OrderFrom(message, "f", graph_, strategy_); };
  EXPECT_EQ(*read(), CanonicalOrder(graph_, strategy_, 4));  // a file that has none
  const Order order = CanonicalOrder(graph_, strategy_, 4, 1);
  ASSERT_TRUE(order != CanonicalOrder(graph_, strategy_, 4));
  SetOrder(graph_, strategy_, order, &message);
  EXPECT_EQ(*read(), order);
  const auto error = [&] { return std::string(read().status().message()); };
  message.mutable_order(1)->set_halves(0, 1000);
  EXPECT_THAT(error(), HasSubstr("f: order: device 1 has"));
  message.mutable_order(1)->set_halves(0, message.order(1).halves(1));
  EXPECT_THAT(error(), HasSubstr("f: order: the order of seat 1 has a task twice"));
  SetOrder(graph_, strategy_, order, &message);
  message.mutable_order(1)->mutable_halves()->RemoveLast();
  EXPECT_THAT(error(), HasSubstr("f: order: the order lacks"));
  message.mutable_order()->RemoveLast();
  EXPECT_THAT(error(), HasSubstr("f: order: of 3 devices, and there are 4"));
}

TEST_F(StrategyTextTest, AFileThatEndsEarlyIsRefused) {
  const wire::Strategy message = MessageOf(graph_, machine_, "costs", strategy_);
  wire::Strategy shorter = message;
  shorter.mutable_ops()->RemoveLast();
  EXPECT_THAT(std::string(StrategyFrom(shorter, "f", graph_, machine_).status().message()),
              HasSubstr("f: ops: it has"));
}

}  // namespace
}  // namespace soapstone::planner
