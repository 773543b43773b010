#include "transport/identity.h"

#include <algorithm>
#include <iterator>

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
  message.body = wire::Pull{};
  message.from = from;
  return message;
}

Identity Node(Address self, uint64_t session) {
  Identity identity({});
  identity.SetSelf(self);
  identity.SetSession(session);
  return identity;
}

constexpr Identity::Way kOurs = {.by_our_connection = true, .connected_to_sender = true};
constexpr Identity::Way kTheirs = {};

bool Admits(const Identity& identity, MessageType type, uint64_t session, Address sender,
            Identity::Way way = kOurs) {
  Message message;
  message.type = type;
  message.session = session;
  message.from = sender;
  return identity.Admit({message, sender}, way).ok();
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

TEST(IdentityTest, ARefusalDoesNotTellTheSession) {
  Message refuse;
  refuse.type = MessageType::kRefuse;
  refuse.body = wire::Notice{.code = 78, .text = "no"};
  const Address stranger = Address::Temporary(Role::kWorker, 1);
  EXPECT_EQ(Node(Address::Scheduler(), 9).Stamp(stranger, refuse)->session, 0u);
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

// A worker's peer takes what its worker pushes as it is.
TEST(IdentityTest, WhatTheSchedulerSaysNobodyElseMay) {
  for (const MessageType type :
       {MessageType::kWelcome, MessageType::kRefuse, MessageType::kWait, MessageType::kRoster,
        MessageType::kStart, MessageType::kHeartbeatAck, MessageType::kEvaluate,
        MessageType::kShutdown, MessageType::kCheckpoint, MessageType::kBound,
        MessageType::kMayLeave}) {
    EXPECT_FALSE(Admits(Node(kWorker, 9), type, 9, kServer, kOurs)) << static_cast<int>(type);
    EXPECT_FALSE(Admits(Node(kServer, 9), type, 9, kWorker, kTheirs)) << static_cast<int>(type);
    EXPECT_TRUE(Admits(Node(kWorker, 9), type, 9, Address::Scheduler(), kOurs));
  }
}

TEST(IdentityTest, NobodySpeaksInItsOwnName) {
  for (const Address self : {kWorker, kServer, Address::Scheduler()}) {
    EXPECT_FALSE(Admits(Node(self, 9), MessageType::kPull, 9, self, kTheirs));
    EXPECT_FALSE(Admits(Node(self, 9), MessageType::kPull, 9, self, kOurs));
  }
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
  EXPECT_FALSE(Admits(worker, MessageType::kShutdown, 9, kServer)) << "not the scheduler's";
}

TEST(IdentityTest, BeforeWelcomeNobodyElseIsAdmittedWithoutASession) {
  const Identity server = Node(Address::Temporary(Role::kServer, 1), 0);
  EXPECT_FALSE(Admits(server, MessageType::kPull, 0, kWorker, kTheirs));
  EXPECT_FALSE(Admits(server, MessageType::kRoster, 0, Address::Scheduler(), kTheirs));
  EXPECT_FALSE(Admits(server, MessageType::kRoster, 0, Address::Scheduler(), kOurs));
}

TEST(IdentityTest, TheSchedulerSpeaksByOurConnectionAlone) {
  const Identity server = Node(kServer, 9);
  EXPECT_TRUE(Admits(server, MessageType::kShutdown, 9, Address::Scheduler(), kOurs));
  EXPECT_FALSE(Admits(server, MessageType::kShutdown, 9, Address::Scheduler(), kTheirs));
  const Identity newcomer = Node(Address::Temporary(Role::kServer, 1), 0);
  for (const MessageType type : {MessageType::kWelcome, MessageType::kShutdown}) {
    EXPECT_TRUE(Admits(newcomer, type, 4, Address::Scheduler(), kOurs));
    EXPECT_FALSE(Admits(newcomer, type, 4, Address::Scheduler(), kTheirs));
  }
}

TEST(IdentityTest, WhoWasConnectedToSpeaksByThatConnectionUnlessBothConnect) {
  constexpr Identity::Way kByTheOther = {.connected_to_sender = true};
  const Identity worker = Node(kWorker, 9);
  EXPECT_TRUE(Admits(worker, MessageType::kPullReply, 9, kServer, kOurs));
  EXPECT_FALSE(Admits(worker, MessageType::kPullReply, 9, kServer, kByTheOther));
  EXPECT_TRUE(Admits(worker, MessageType::kParcel, 9, {Role::kWorker, 4}, kByTheOther));
  EXPECT_TRUE(Admits(Node(kServer, 9), MessageType::kPull, 9, kWorker, kTheirs));
}

constexpr Role kKeyed[] = {Role::kScheduler, Role::kServer, Role::kWorker};
constexpr MessageType kSaidByTheSchedulerAlone[] = {
    MessageType::kWelcome,      MessageType::kRefuse,   MessageType::kRoster,   MessageType::kStart,
    MessageType::kHeartbeatAck, MessageType::kEvaluate, MessageType::kShutdown, MessageType::kWait,
    MessageType::kCheckpoint,   MessageType::kBound,    MessageType::kMayLeave};

constexpr char kKey[] = "thirty-two bytes that say who is";

Identity::Way WithKey(Identity::Way way, Role role, Address holder = {}) {
  way.role = role;
  way.key = kKey;
  way.holder = holder;
  return way;
}

// Every role's key, in every role's name, every type.
TEST(IdentityTest, WithKeysEachSpeaksInItsRoleWhatThatMaySay) {
  Identity server = Node({Role::kServer, 9}, 9);
  server.RequireKeys();
  for (const Role key : {Role::kNone, Role::kScheduler, Role::kServer, Role::kWorker}) {
    for (const Role name : kKeyed) {
      for (uint8_t number = 1; number <= static_cast<uint8_t>(MessageType::kRecorded); ++number) {
        const auto type = static_cast<MessageType>(number);
        const bool of_scheduler = std::count(std::begin(kSaidByTheSchedulerAlone),
                                             std::end(kSaidByTheSchedulerAlone), type) > 0;
        const bool may = key == name && (key == Role::kScheduler || !of_scheduler);
        EXPECT_EQ(Admits(server, type, 9, {name, 0}, WithKey(kOurs, key, {name, 0})), may)
            << static_cast<int>(key) << " as " << static_cast<int>(name) << " says " << int{number};
      }
    }
  }
}

TEST(IdentityTest, WithKeysEachSpeaksInTheRankOfItsProcess) {
  Identity server = Node({Role::kServer, 9}, 9);
  server.RequireKeys();
  const auto takes = [&](Address sender, Address holder, Identity::Way way = kTheirs) {
    return Admits(server, MessageType::kPull, 9, sender, WithKey(way, sender.role, holder));
  };
  for (const Identity::Way way : {kOurs, kTheirs}) {
    EXPECT_TRUE(takes(kWorker, kWorker, way));
    EXPECT_FALSE(takes(kWorker, {Role::kWorker, 4}, way)) << "another worker";
    EXPECT_FALSE(takes(kWorker, {Role::kServer, 3}, way)) << "the same rank of another role";
    EXPECT_FALSE(takes(kWorker, {}, way)) << "a process without a rank";
    EXPECT_FALSE(takes(kServer, {Role::kServer, 2}, way)) << "another server";
  }
  Identity::Way keyless = WithKey(kTheirs, Role::kWorker, kWorker);
  keyless.key = {};
  EXPECT_FALSE(Admits(server, MessageType::kPull, 9, kWorker, keyless));
}

TEST(IdentityTest, WithKeysWhoHasNoRankSaysHelloAndWhichKeyIsToHaveOne) {
  Identity scheduler = Node(Address::Scheduler(), 9);
  scheduler.RequireKeys();
  const Address newcomer = Address::Temporary(Role::kWorker, 1);
  const auto takes = [&](MessageType type, const std::string& said, Identity::Way way) {
    Message message;
    message.type = type;
    message.session = 9;
    message.from = newcomer;
    if (type == MessageType::kHello) message.body = wire::Hello{.key = said};
    return scheduler.Admit({message, newcomer}, way).ok();
  };
  EXPECT_TRUE(takes(MessageType::kHello, kKey, WithKey(kTheirs, Role::kWorker)));
  EXPECT_TRUE(takes(MessageType::kHello, kKey, WithKey(kTheirs, Role::kWorker, kWorker)))
      << "once more, after it was welcomed";
  EXPECT_FALSE(takes(MessageType::kHello, "", WithKey(kTheirs, Role::kWorker)));
  EXPECT_FALSE(takes(MessageType::kHello, "another's key", WithKey(kTheirs, Role::kWorker)));
  EXPECT_FALSE(takes(MessageType::kHeartbeat, kKey, WithKey(kTheirs, Role::kWorker)));
  for (const Role other : {Role::kNone, Role::kServer}) {
    EXPECT_FALSE(takes(MessageType::kHello, kKey, WithKey(kTheirs, other)));
  }
  Identity::Way keyless = WithKey(kTheirs, Role::kWorker);
  keyless.key = {};
  EXPECT_FALSE(takes(MessageType::kHello, "", keyless));
}

TEST(IdentityTest, WithKeysAServerSpeaksForItsOwnShards) {
  Identity worker({}, {.shards_per_server = 2});
  worker.SetSelf(kWorker);
  worker.SetSession(9);
  const auto takes = [&](const Identity& at, uint32_t shard) {
    Message message = PullOf(Address::Of(ShardId{shard}));
    message.session = 9;
    return at.Admit({message, kServer}, WithKey(kOurs, Role::kServer, kServer)).ok();
  };
  EXPECT_TRUE(takes(worker, 0)) << "without keys anybody may";
  worker.RequireKeys();
  for (const uint32_t shard : {2, 3}) EXPECT_TRUE(takes(worker, shard)) << shard;
  for (const uint32_t shard : {0, 1, 4}) EXPECT_FALSE(takes(worker, shard)) << shard;
}

}  // namespace
}  // namespace soapstone::transport
