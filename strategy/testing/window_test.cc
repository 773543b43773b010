#include "strategy/window.h"

#include "gtest/gtest.h"

namespace soapstone::planner {
namespace {

BlockMessage Sent(uint32_t from, uint32_t to, bool backward = false) {
  return {.from = from, .to = to, .backward = backward};
}

using Leads = std::vector<uint32_t>;

TEST(WindowTest, AStageRunsAheadByTheStagesBehindIt) {
  const std::vector<BlockMessage> chain = {Sent(0, 1), Sent(1, 2), Sent(2, 3), Sent(3, 2, true)};
  EXPECT_EQ(LeadsOf(chain, 4, 4), (Leads{3, 2, 1, 0}));
  EXPECT_EQ(LeadsOf(chain, 4, 9), (Leads{3, 2, 1, 0}));
}

TEST(WindowTest, NobodyRunsAheadByMoreThanTheWindow) {
  const std::vector<BlockMessage> chain = {Sent(0, 1), Sent(1, 2), Sent(2, 3)};
  EXPECT_EQ(LeadsOf(chain, 4, 2), (Leads{1, 1, 1, 0}));
  EXPECT_EQ(LeadsOf(chain, 4, 1), (Leads{0, 0, 0, 0}));
}

TEST(WindowTest, SeatsThatSendToEachOtherHaveTheSame) {
  // 1 and 2 split an operator's samples, then its outputs; 3 computes the loss.
  const std::vector<BlockMessage> mixed = {Sent(0, 1), Sent(0, 2), Sent(1, 2), Sent(2, 1),
                                           Sent(2, 3)};
  EXPECT_EQ(LeadsOf(mixed, 4, 4), (Leads{2, 1, 1, 0}));
  EXPECT_EQ(LeadsOf({Sent(0, 1), Sent(1, 0)}, 2, 4), (Leads{0, 0}));
}

TEST(WindowTest, TheLongestWayCounts) {
  const std::vector<BlockMessage> skip = {Sent(0, 3), Sent(0, 1), Sent(1, 2), Sent(2, 3)};
  EXPECT_EQ(LeadsOf(skip, 4, 4), (Leads{3, 2, 1, 0}));
}

TEST(WindowTest, NoBlockGoesToASeatOfAGreaterLead) {
  uint64_t state = 1;
  const auto draw = [&](uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33) % below;
  };
  for (int trial = 0; trial < 500; ++trial) {
    const uint32_t seats = 2 + draw(7), window = 1 + draw(6);
    std::vector<BlockMessage> messages;
    for (uint32_t m = draw(20); m > 0; --m) {
      messages.push_back(Sent(draw(seats), draw(seats), draw(4) == 0));
    }
    const Leads leads = LeadsOf(messages, seats, window);
    for (const BlockMessage& message : messages) {
      if (message.backward) continue;
      EXPECT_GE(leads[message.from], leads[message.to]);
    }
    for (const uint32_t lead : leads) EXPECT_LT(lead, window);
  }
}

TEST(WindowTest, ForwardHalvesComeFirstWhereASeatRunsAhead) {
  const TaskRef f0 = {.op = 0}, f1 = {.op = 1}, b0 = {.op = 0, .backward = true},
                b1 = {.op = 1, .backward = true};
  const Order order = {{f0, b0, f1, b1}, {f0, b0, f1, b1}};
  EXPECT_EQ(ForwardFirst(order, {1, 0}), (Order{{f0, f1, b0, b1}, {f0, b0, f1, b1}}));
}

}  // namespace
}  // namespace soapstone::planner
