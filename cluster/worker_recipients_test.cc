#include "cluster/worker_recipients.h"

#include <gtest/gtest.h>

#include "wire/header_fields.h"

namespace soapstone::cluster {
namespace {

using wire::Address;
using wire::MessageType;

constexpr WorkerRecipients kEngine = {.engine = true}, kPeer = {.peer = true},
                           kBoth = {.peer = true, .engine = true}, kNobody = {};

wire::Message Make(MessageType type, Address from, Address to = Address::Of(WorkerId{1})) {
  wire::Message message;
  message.type = type;
  message.from = from;
  message.to = to;
  message.body = wire::BodyFrom(type, {});
  return message;
}

TEST(WorkerRecipientsTest, RostersAreForBoth) {
  const wire::Message roster = Make(MessageType::kRoster, Address::Scheduler());
  EXPECT_EQ(RecipientsOf(roster, true), kBoth);
  EXPECT_EQ(RecipientsOf(roster, false), kEngine);
}

TEST(WorkerRecipientsTest, FinalValuesOfShardsAreThePeers) {
  const wire::Message of_shard = Make(MessageType::kPullReply, Address::Of(ShardId{0}));
  EXPECT_EQ(RecipientsOf(of_shard, true), kPeer);
  EXPECT_EQ(RecipientsOf(of_shard, false), kEngine);
  // The peer's own answers are what the engine waits for.
  const wire::Message of_peer = Make(MessageType::kPullReply, Address::PeerOf(WorkerId{1}));
  EXPECT_EQ(RecipientsOf(of_peer, true), kEngine);
}

TEST(WorkerRecipientsTest, WhatIsAddressedToThePeerIsThePeersAlone) {
  for (const MessageType type : {MessageType::kParcel, MessageType::kPull, MessageType::kRoster}) {
    const wire::Message message =
        Make(type, Address::PeerOf(WorkerId{0}), Address::PeerOf(WorkerId{1}));
    EXPECT_EQ(RecipientsOf(message, true), kPeer);
    EXPECT_EQ(RecipientsOf(message, false), kNobody);
  }
}

TEST(WorkerRecipientsTest, TheEngineTakesAllElse) {
  for (const MessageType type : {MessageType::kStart, MessageType::kHeld, MessageType::kChosen}) {
    const wire::Message message = Make(type, Address::Scheduler());
    EXPECT_EQ(RecipientsOf(message, true), kEngine);
    EXPECT_EQ(RecipientsOf(message, false), kEngine);
  }
}

}  // namespace
}  // namespace soapstone::cluster
