#include "transport/identity.h"

#include "gtest/gtest.h"

namespace soapstone::transport {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr Address kWorker = {Role::kWorker, 3};
constexpr Address kServer = {Role::kServer, 1};

Message PullOf(Address from = {}) {
  Message message;
  message.type = MessageType::kPull;
  message.from = from;
  return message;
}

Identity Node(Address self, uint64_t session) {
  Identity identity({});
  identity.SetSelf(self);
  identity.SetSession(session);
  return identity;
}

bool Admits(const Identity& identity, MessageType type, uint64_t session, Address sender) {
  Message message;
  message.type = type;
  message.session = session;
  message.from = sender;
  return identity.Admit({message, sender}).ok();
}

TEST(IdentityTest, StampsWhatIsEmpty) {
  const absl::StatusOr<Message> stamped = Node(kWorker, 9).Stamp(kServer, PullOf());
  ASSERT_TRUE(stamped.ok()) << stamped.status();
  EXPECT_EQ(stamped->from, kWorker);
  EXPECT_EQ(stamped->to, kServer);
  EXPECT_EQ(stamped->session, 9u);
}

TEST(IdentityTest, StampsTheRankOverAnEarlierAddress) {
  const Address before = Address::Temporary(Role::kWorker, 1);
  EXPECT_EQ(Node(kWorker, 9).Stamp(kServer, PullOf(before))->from, kWorker);
}

TEST(IdentityTest, KeepsTheShardOfAMessage) {
  const Address shard = Address::Of(ShardId{5});
  EXPECT_EQ(Node(kServer, 9).Stamp(kWorker, PullOf(shard))->from, shard);
  EXPECT_FALSE(Node(kWorker, 9).Stamp(kServer, PullOf(shard)).ok());
}

TEST(IdentityTest, KeepsAddresseeAndSession) {
  Message message = PullOf();
  message.to = Address::Of(ShardId{2});
  message.session = 4;
  const absl::StatusOr<Message> stamped = Node(kWorker, 9).Stamp(kServer, message);
  EXPECT_EQ(stamped->to, message.to);
  EXPECT_EQ(stamped->session, 4u);
}

TEST(IdentityTest, SendsNothingWithoutAnAddress) {
  EXPECT_EQ(Identity({}).Stamp(kServer, PullOf()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(IdentityTest, SendsNothingThatNobodyTakes) {
  EXPECT_EQ(Node(kWorker, 9).Stamp(kServer, Message()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(IdentityTest, AdmitsItsOwnSessionOnly) {
  const Identity server = Node(kServer, 9);
  EXPECT_TRUE(Admits(server, MessageType::kPull, 9, kWorker));
  EXPECT_FALSE(Admits(server, MessageType::kPull, 8, kWorker));
  EXPECT_FALSE(Admits(server, MessageType::kPull, 0, kWorker));
  EXPECT_FALSE(Admits(server, MessageType::kWelcome, 8, Address::Scheduler()));
  EXPECT_FALSE(Admits(server, MessageType::kHello, 0, Address::Temporary(Role::kWorker, 1)));
}

TEST(IdentityTest, SchedulerAdmitsStrangersHellos) {
  const Identity scheduler = Node(Address::Scheduler(), 9);
  EXPECT_TRUE(Admits(scheduler, MessageType::kHello, 0, Address::Temporary(Role::kWorker, 1)));
  EXPECT_TRUE(Admits(scheduler, MessageType::kHello, 8, Address::Temporary(Role::kServer, 1)));
  EXPECT_TRUE(Admits(scheduler, MessageType::kHello, 9, kWorker));
  EXPECT_FALSE(Admits(scheduler, MessageType::kHello, 0, kWorker)) << "takes a member's route";
  EXPECT_FALSE(Admits(scheduler, MessageType::kHeartbeat, 0, Address::Temporary(Role::kWorker, 1)));
}

TEST(IdentityTest, BeforeWelcomeAdmitsTheSchedulersAnswer) {
  const Identity worker = Node(Address::Temporary(Role::kWorker, 1), 0);
  EXPECT_TRUE(Admits(worker, MessageType::kWelcome, 9, Address::Scheduler()));
  EXPECT_TRUE(Admits(worker, MessageType::kRefuse, 9, Address::Scheduler()));
  EXPECT_TRUE(Admits(worker, MessageType::kShutdown, 9, Address::Scheduler()));
  EXPECT_FALSE(Admits(worker, MessageType::kPullReply, 9, kServer));
}

}  // namespace
}  // namespace soapstone::transport
