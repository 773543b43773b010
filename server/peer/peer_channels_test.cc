#include "server/peer/peer_channels.h"

#include <gtest/gtest.h>

namespace soapstone::server {
namespace {

constexpr WorkerId kOne{1};
constexpr WorkerId kTwo{2};

wire::Message EarlyAt(Clock clock) {
  wire::Message message;
  message.clock = clock;
  return message;
}

TEST(PeerChannelsTest, NumbersToOneReceiverGrow) {
  PeerChannels channels(4);
  const uint64_t first = channels.NextNumber(kOne, 1);
  EXPECT_EQ(channels.NextNumber(kOne, 1), first + 1);
  EXPECT_EQ(channels.NextNumber(kTwo, 1), first);  // each has its own
}

TEST(PeerChannelsTest, ALaterProcessOfARankHasGreaterNumbers) {
  PeerChannels former(4), later(4), receiver(4);
  for (int i = 0; i < 1000; ++i) receiver.Take(kOne, former.NextNumber(kTwo, /*admitted=*/1));
  EXPECT_TRUE(receiver.Take(kOne, later.NextNumber(kTwo, /*admitted=*/2)).has_value());
  EXPECT_FALSE(receiver.Take(kOne, former.NextNumber(kTwo, 1)).has_value());
}

TEST(PeerChannelsTest, WhatIsNotGreaterThanAllBeforeItIsADuplicate) {
  PeerChannels channels(4);
  EXPECT_EQ(channels.Take(kOne, 5), 0u);
  EXPECT_EQ(channels.Take(kOne, 5), std::nullopt);
  EXPECT_EQ(channels.Take(kOne, 7), 5u);
  EXPECT_EQ(channels.Take(kOne, 6), std::nullopt);
  EXPECT_EQ(channels.Take(kTwo, 6), 0u);
  EXPECT_EQ(channels.Take(kOne, 8), 7u);
}

TEST(PeerChannelsTest, EarlyMessagesComeOutOnceInTheirOrder) {
  PeerChannels channels(2);
  EXPECT_TRUE(channels.KeepEarly(EarlyAt(4)));
  EXPECT_TRUE(channels.KeepEarly(EarlyAt(3)));
  EXPECT_FALSE(channels.KeepEarly(EarlyAt(5)));  // the bound
  EXPECT_EQ(channels.early(), 2u);
  const std::vector<wire::Message> early = channels.TakeEarly();
  ASSERT_EQ(early.size(), 2u);
  EXPECT_EQ(early[0].clock, 4);
  EXPECT_EQ(early[1].clock, 3);
  EXPECT_EQ(channels.early(), 0u);
  EXPECT_TRUE(channels.KeepEarly(EarlyAt(5)));
}

TEST(PeerChannelsTest, TheFingerprintHasNumbersAndWhatIsEarly) {
  const auto print = [](const PeerChannels& channels) {
    Fingerprint f;
    channels.AddTo(&f);
    return f.value();
  };
  const PeerChannels none(4);
  PeerChannels sent = none, seen = none, early = none;
  sent.NextNumber(kOne, 1);
  seen.Take(kOne, 1);
  early.KeepEarly(EarlyAt(1));
  EXPECT_NE(print(sent), print(none));
  EXPECT_NE(print(seen), print(none));
  EXPECT_NE(print(early), print(none));
}

}  // namespace
}  // namespace soapstone::server
