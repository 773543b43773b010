#include "scheduler/planner/blocks/edge_messages.h"

#include <vector>

#include "gtest/gtest.h"
#include "scheduler/planner/planner_fixture.h"

namespace soapstone::planner {
namespace {

class EdgeMessagesTest : public testing::Test {
 protected:
  void Find(const std::vector<Overlap>& overlaps, const std::vector<uint32_t>& from,
            const std::vector<uint32_t>& to) {
    const std::vector<Overlap>* const edges[] = {&overlaps};
    messages_.Find(edges, from, to);
  }

  const Machine machine_ = FakeMachine({.nodes = 2, .devices_per_node = 2});
  EdgeMessages messages_{&machine_};
};

TEST_F(EdgeMessagesTest, ConsumersOnADeviceShareAMessageOfARegion) {
  // One part on device 0; two consumers on device 1 read the same region, one another.
  Find({{.producer = 0, .consumer = 0, .region = 0, .bytes = 8},
        {.producer = 0, .consumer = 1, .region = 0, .bytes = 8},
        {.producer = 0, .consumer = 2, .region = 1, .bytes = 4}},
       {0}, {1, 1, 1});
  ASSERT_EQ(messages_.all().size(), 2u);
  EXPECT_EQ(messages_.all()[0].consumers, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(messages_.all()[0].bytes, 8);
  EXPECT_EQ(messages_.all()[1].consumers, std::vector<uint32_t>{2});
}

TEST_F(EdgeMessagesTest, WhatStaysOnItsDeviceIsNoMessage) {
  Find({{.producer = 0, .consumer = 0, .bytes = 8}}, {1}, {1});
  EXPECT_TRUE(messages_.all().empty());
}

TEST_F(EdgeMessagesTest, EachProducerSendsItsOwn) {
  for (int turn = 0; turn < 2; ++turn) {  // nothing is left of the first
    Find({{.producer = 0, .consumer = 0, .region = 0, .bytes = 8},
          {.producer = 1, .consumer = 0, .region = 0, .bytes = 8}},
         {0, 1}, {2});
    ASSERT_EQ(messages_.all().size(), 2u);
    EXPECT_EQ(messages_.all()[0].producer, 0u);
    EXPECT_EQ(messages_.all()[1].producer, 1u);
  }
}

TEST_F(EdgeMessagesTest, TheyAreOrderedBySenderAndReceiverEachWay) {
  // Devices 0 and 1 are of node 0, 2 and 3 of node 1.
  Find({{.producer = 0, .consumer = 0, .region = 0, .bytes = 1},
        {.producer = 0, .consumer = 1, .region = 0, .bytes = 1},
        {.producer = 1, .consumer = 0, .region = 0, .bytes = 1}},
       {2, 0}, {1, 3});
  const auto order = [&](bool forward) {
    std::vector<std::pair<uint32_t, uint32_t>> nodes;
    for (const uint32_t i : messages_.ByNodes(forward)) {
      nodes.push_back(messages_.all()[i].Nodes(forward));
    }
    return nodes;
  };
  using Nodes = std::vector<std::pair<uint32_t, uint32_t>>;
  EXPECT_EQ(order(true), (Nodes{{0, 0}, {1, 0}, {1, 1}}));
  EXPECT_EQ(order(false), (Nodes{{0, 0}, {0, 1}, {1, 1}}));
}

}  // namespace
}  // namespace soapstone::planner
