#include "server/peer/held_parcels.h"

#include <gtest/gtest.h>

namespace soapstone::server {
namespace {

using consistency::Ticket;

Buffers FloatOf(float value) { return {Buffer::CopyOf<float>(std::vector<float>{value})}; }

TEST(HeldParcelsTest, ATicketNamesItsPayloadUntilThatIsTaken) {
  HeldParcels held;
  const Ticket one = held.Keep(FloatOf(1));
  const Ticket two = held.Keep(FloatOf(2));
  const Ticket none = held.Keep({});
  EXPECT_EQ(held.size(), 3u);
  EXPECT_EQ(held.Take(two), FloatOf(2));
  EXPECT_EQ(held.Take(one), FloatOf(1));
  EXPECT_TRUE(held.Take(none).empty());
  EXPECT_EQ(held.size(), 0u);
  EXPECT_GT(held.Keep(FloatOf(3)), none);  // never again
}

TEST(HeldParcelsDeathTest, WhatWasTakenIsNotInHand) {
  HeldParcels held;
  const Ticket ticket = held.Keep(FloatOf(1));
  held.Take(ticket);
  EXPECT_DEATH(held.Take(ticket), "");
}

}  // namespace
}  // namespace soapstone::server
