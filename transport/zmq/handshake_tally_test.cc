#include "transport/zmq/handshake_tally.h"

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(3);
constexpr absl::Duration kLong = absl::Seconds(5);

class HandshakeTallyTest : public testing::Test {
 protected:
  SteadyTime now_ = SteadyTime::At(0);
  HandshakeTally tally_{kPatience};
};

TEST_F(HandshakeTallyTest, WhatIsToldIsCountedAsItIsTold) {
  for (int i = 0; i < 11; ++i) tally_.Accepted(now_);
  for (int i = 0; i < 4; ++i) tally_.Succeeded();
  tally_.WasRefused();
  for (int i = 0; i < 2; ++i) tally_.WasUnopened();
  tally_.WasCutOff();
  for (int i = 0; i < 3; ++i) tally_.WasForItsWords();
  for (const absl::Duration later : {absl::ZeroDuration(), kLong}) {
    EXPECT_EQ(tally_.cut_off(), 1u);
    EXPECT_EQ(tally_.unopened(), 2u);
    EXPECT_EQ(tally_.mechanisms(now_ + later), 3u);
  }
}

TEST_F(HandshakeTallyTest, OfWhomNothingIsToldIsOfNoMechanism) {
  for (int i = 0; i < 5; ++i) tally_.Accepted(now_);
  tally_.Succeeded();
  EXPECT_EQ(tally_.mechanisms(now_ + kPatience), 0u) << "they may be at it";
  EXPECT_EQ(tally_.mechanisms(now_ + kLong), 4u);
  EXPECT_EQ(tally_.cut_off(), 0u);
}

// A count may come late, and never goes back.
TEST_F(HandshakeTallyTest, MembersThatComeAndGoAreNotCounted) {
  tally_.Accepted(now_);  // the one
  uint64_t seen = 0;
  for (int i = 0; i < 1000; ++i) {
    now_ += absl::Milliseconds(20);
    tally_.Accepted(now_);
    tally_.Succeeded();
    EXPECT_GE(tally_.mechanisms(now_), seen);
    seen = tally_.mechanisms(now_);
    EXPECT_LE(seen, 1u);
  }
  EXPECT_EQ(tally_.mechanisms(now_ + kLong), 1u);
}

TEST_F(HandshakeTallyTest, AFloodIsCountedInFewPlaces) {
  for (int i = 0; i < 100'000; ++i) {
    now_ += absl::Microseconds(50);
    tally_.Accepted(now_);
  }
  EXPECT_GT(tally_.mechanisms(now_), 0u);
  EXPECT_EQ(tally_.mechanisms(now_ + kLong), 100'000u);
}

}  // namespace
}  // namespace soapstone::transport
