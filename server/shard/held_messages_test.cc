#include "server/shard/held_messages.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace soapstone::server {
namespace {

using consistency::Ticket;
using wire::Message;
using wire::MessageType;

Message Sized(MessageType type, size_t bytes, Clock clock = 0) {
  Message message;
  message.type = type;
  message.clock = clock;
  message.payload.push_back(Buffer::CopyOf(std::vector<char>(bytes).data(), bytes));
  return message;
}

TEST(HeldMessagesTest, ATicketNamesItsMessageUntilThatIsTaken) {
  HeldMessages held(100);
  const Ticket push = held.Keep(Sized(MessageType::kPush, 8, /*clock=*/3));
  const Ticket pull = held.Keep(Sized(MessageType::kPull, 0, /*clock=*/4));
  HeldMessages::Entry entry = held.Take(push);
  ASSERT_FALSE(entry.empty());
  EXPECT_EQ(entry.mapped().clock, 3);
  EXPECT_TRUE(held.Take(push).empty());
  EXPECT_EQ(held.Take(pull).mapped().clock, 4);
}

TEST(HeldMessagesTest, TicketsAreGivenOutOnceAndAscend) {
  HeldMessages held(100);
  EXPECT_TRUE(held.Take(Ticket{}).empty());  // of a worker that has asked for nothing
  Ticket last{};
  for (int i = 0; i < 10; ++i) {
    const Ticket ticket = held.Keep(Sized(MessageType::kPull, 0));
    EXPECT_GT(ticket, last);
    if (i % 2 == 0) held.Take(ticket);
    last = ticket;
  }
}

TEST(HeldMessagesTest, BytesAreThoseOfThePushesInHand) {
  HeldMessages held(100);
  const Ticket first = held.Keep(Sized(MessageType::kPush, 40));
  const Ticket pull = held.Keep(Sized(MessageType::kPull, 30));
  const Ticket second = held.Keep(Sized(MessageType::kPush, 24));
  EXPECT_EQ(held.bytes(), 64u);
  held.Take(pull);
  EXPECT_EQ(held.bytes(), 64u);
  for (int time = 0; time < 2; ++time) {
    held.Take(first);
    EXPECT_EQ(held.bytes(), 24u);
  }
  held.Take(second);
  EXPECT_EQ(held.bytes(), 0u);
}

TEST(HeldMessagesTest, ThereIsRoomUpToTheBound) {
  HeldMessages held(100);
  held.Keep(Sized(MessageType::kPull, 90));
  const Ticket push = held.Keep(Sized(MessageType::kPush, 60));
  EXPECT_TRUE(held.HasRoomFor(Sized(MessageType::kPush, 40)));
  EXPECT_FALSE(held.HasRoomFor(Sized(MessageType::kPush, 41)));
  held.Take(push);
  EXPECT_TRUE(held.HasRoomFor(Sized(MessageType::kPush, 100)));
}

TEST(HeldMessagesTest, ACopyHoldsItsOwn) {
  HeldMessages held(100);
  const Ticket push = held.Keep(Sized(MessageType::kPush, 8));
  HeldMessages copy = held;
  held.Take(push);
  EXPECT_EQ(copy.bytes(), 8u);
  EXPECT_FALSE(copy.Take(push).empty());
}

}  // namespace
}  // namespace soapstone::server
