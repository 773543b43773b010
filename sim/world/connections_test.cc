#include "sim/world/connections.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace soapstone::sim {
namespace {

wire::Message OfClock(Clock clock) {
  wire::Message message;
  message.clock = clock;
  return message;
}

std::pair<uint64_t, uint64_t> Print(const Connections& connections) {
  Fingerprint f;
  connections.AddTo(&f);
  return f.value();
}

std::vector<Clock> TakeAll(Connections* connections, Connections::Ends ends) {
  std::vector<Clock> clocks;
  while (connections->channels().contains(ends)) clocks.push_back(connections->Take(ends).clock);
  return clocks;
}

TEST(ConnectionsTest, AChannelKeepsItsOrderThroughABreak) {
  Connections connections;
  connections.Send({2, 1}, OfClock(1));
  connections.Send({1, 2}, OfClock(7));
  const auto whole = Print(connections);
  connections.Break(1, 2, /*keeps=*/true);
  EXPECT_TRUE(connections.channels().empty());
  EXPECT_TRUE(connections.IsBroken(2, 1));
  connections.Send({2, 1}, OfClock(2));
  size_t under_way = 0;
  connections.ForEach([&](const wire::Message&) { ++under_way; });
  EXPECT_EQ(under_way, 3u);
  EXPECT_NE(Print(connections), whole);
  connections.Resume(1, 2);
  EXPECT_EQ(TakeAll(&connections, {2, 1}), (std::vector<Clock>{1, 2}));
  EXPECT_EQ(TakeAll(&connections, {1, 2}), std::vector<Clock>{7});
}

TEST(ConnectionsTest, ABreakThatKeepsNothingLosesWhatIsUnderWayAlone) {
  Connections connections;
  connections.Send({1, 2}, OfClock(1));
  connections.Break(1, 2, /*keeps=*/false);
  EXPECT_FALSE(connections.IsBroken(1, 2));
  connections.Send({1, 2}, OfClock(2));
  EXPECT_EQ(TakeAll(&connections, {1, 2}), std::vector<Clock>{2});
}

TEST(ConnectionsTest, NothingArrivesOverALostLink) {
  Connections connections;
  connections.Send({1, 2}, OfClock(1));
  connections.Lose(2, 1);
  connections.Send({2, 1}, OfClock(2));
  EXPECT_TRUE(connections.channels().empty());
  EXPECT_TRUE(connections.IsLost(1, 2));
  EXPECT_TRUE(connections.HasLostOne(2));
  EXPECT_FALSE(connections.HasLostOne(3));
}

TEST(ConnectionsTest, WhoIsGoneGetsNothingAlsoWhenItsConnectionIsMadeAgain) {
  Connections connections;
  connections.Send({1, 2}, OfClock(1));
  connections.Send({2, 1}, OfClock(2));
  connections.Break(1, 2, /*keeps=*/true);
  connections.Send({3, 2}, OfClock(3));
  connections.CutAllTo(2);
  connections.Resume(1, 2);
  EXPECT_EQ(connections.channels().size(), 1u);
  EXPECT_EQ(connections.Head({2, 1}).clock, 2);
}

}  // namespace
}  // namespace soapstone::sim
