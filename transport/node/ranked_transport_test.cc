// A job with keys: who has a role's key is not for that another process of the role. What a member
// knows of the others (the session, who has which rank, their public keys) does not make it one.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/rank_holders.h"
#include "transport/node/secured_job.h"

namespace soapstone::transport {
namespace {

using security::KeyRole;
using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

// A way by which data goes.
enum class Path { kZmq, kStream, kMemory };

ZmqOptions By(Path path) {
  return {.shared_memory = path == Path::kMemory, .streams = path == Path::kStream};
}

class RankedTransportTest : public SecuredJob {
 protected:
  std::unique_ptr<Transport> WorkerBy(Path path, Address self, bool member = true) {
    ZmqOptions options = By(path);
    options.keys = Of(KeyRole::kWorker);
    return member ? Make(options, self) : Outsider(options, self);
  }
  uint64_t names() const { return server_->stats().proof_faults.names; }
  // Until data goes that way.
  void Settle(Path path, Transport* worker, Address name) {
    const SteadyTime end = SteadyNow() + absl::Seconds(60);
    const auto settled = [&] {
      return path != Path::kStream ||
             (worker->stats().streamed_messages > 0 && server_->stats().streamed_messages > 0);
    };
    do {
      ASSERT_NO_FATAL_FAILURE(ExpectServes(worker, name));
    } while (!settled() && SteadyNow() < end);
    ASSERT_TRUE(settled());
  }
};

TEST_F(RankedTransportTest, AMemberIsNotHeardAsAnother) {
  for (const Path path : {Path::kZmq, Path::kStream, Path::kMemory}) {
    server_ = Listen(By(path));
    const auto worker = Connected(WorkerBy(path, kFirstWorker));
    const auto other = Connected(WorkerBy(path, kSecondWorker));
    ASSERT_NO_FATAL_FAILURE(Settle(path, worker.get(), kFirstWorker));
    ASSERT_NO_FATAL_FAILURE(Settle(path, other.get(), kSecondWorker));
    EXPECT_EQ(names(), 0u);
    worker->SetSelf(kSecondWorker);
    ASSERT_TRUE(worker->Send(kFirstServer, PullAt(9)).ok());
    worker->SetSelf(kFirstWorker);
    ASSERT_TRUE(worker->Send(kFirstServer, PullAt(5)).ok());
    const std::optional<Message> taken = Taken(worker.get(), absl::Seconds(60));
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->clock, 5) << "the one before was in another's name";
    EXPECT_EQ(names(), 1u);
    // Nor is it answered in the other's place.
    ASSERT_NO_FATAL_FAILURE(ExpectServes(other.get(), kSecondWorker));
  }
}

// With the session, the roster, and a key of the role: all but the member's own process.
TEST_F(RankedTransportTest, AnotherProcessIsNotHeardAsAMember) {
  for (const Path path : {Path::kZmq, Path::kMemory}) {
    server_ = Listen(By(path));
    const auto worker = Connected(WorkerBy(path, kFirstWorker));
    ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
    const auto other = Connected(WorkerBy(path, kFirstWorker, /*member=*/false));
    ASSERT_TRUE(other->Send(kFirstServer, PullAt(9)).ok());
    EXPECT_FALSE(Taken(other.get(), kInVain).has_value());
    ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
  }
}

TEST_F(RankedTransportTest, WhoProvesNoProcessIsNotHeard) {
  const auto worker = Connected(WorkerBy(Path::kZmq, kFirstWorker));
  ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
  const auto keys = Of(KeyRole::kWorker);
  const auto listener = *security::PublicKeyOf(roster_.at(kFirstServer));
  const auto members_key = *security::PublicKeyOf(roster_.at(kFirstWorker));
  Message pull = PullAt(9);
  pull.to = kFirstServer;
  pull.session = kTheSession;
  uint64_t refused = 0;
  for (const std::string lie : {"none", "bent", "a member's key", "as shown elsewhere"}) {
    RawWorker raw(keys, listener, server_->endpoint(), "S" + lie);
    Handshake note = raw.Introduction(kTheSession);
    if (lie == "none") note = {.word = Handshake::Word::kHere, .session = kTheSession};
    if (lie == "bent") note.token[5] ^= 1;
    if (lie == "a member's key") note.key = members_key;
    if (lie == "as shown elsewhere") {
      EXPECT_TRUE(RankHolders(keys).Introduce("Selsewhere", listener, &note).ok());
    }
    raw.Say(note);
    raw.Say(pull, kFirstWorker);
    refused += lie == "none" ? 1 : 2;
    for (const SteadyTime end = SteadyNow() + absl::Seconds(60);
         names() < refused && SteadyNow() < end;) {
      ASSERT_FALSE(server_->Receive(SteadyNow() + absl::Milliseconds(5)).has_value()) << lie;
    }
    EXPECT_EQ(names(), refused) << lie;
  }
  ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
}

// Recorded by a member, or by who has been one, and said again.
TEST_F(RankedTransportTest, AWelcomeThatIsReplayedGivesNothing) {
  const auto keys = Of(KeyRole::kWorker);
  const auto listener = *security::PublicKeyOf(roster_.at(kFirstServer));
  server_->SetHolder(kSecondWorker, security::BytesOf(keys->own.open));
  RawWorker raw(keys, listener, server_->endpoint(), "Smember");
  raw.Say(raw.Introduction(kTheSession));
  Message welcome;
  welcome.type = MessageType::kWelcome;
  welcome.session = kTheSession;
  welcome.body = wire::Welcome{.rank = 0, .nonce = 5};
  Message roster = welcome;
  roster.type = MessageType::kRoster;
  roster.body =
      wire::Roster{.workers = {{.key = security::BytesOf(keys->own.open)}}, .worker_count = 1};
  uint64_t refused = 0;
  for (const Message& message : {welcome, roster}) {
    for (const Address name : {Address::Scheduler(), kSecondWorker}) {
      raw.Say(message, name);
      ++refused;
    }
  }
  for (const SteadyTime end = SteadyNow() + absl::Seconds(60);
       server_->stats().rejected_messages < refused && SteadyNow() < end;) {
    ASSERT_FALSE(server_->Receive(SteadyNow() + absl::Milliseconds(5)).has_value());
  }
  EXPECT_EQ(server_->stats().rejected_messages, refused);
  ASSERT_NO_FATAL_FAILURE(ExpectServesMembers());
}

// The routing id is all that a connection made anew is known by: nobody else knows it, and it is
// no other process's even so.
TEST_F(RankedTransportTest, AConnectionIsNotAnothersForItsName) {
  const auto keys = Of(KeyRole::kWorker);
  const auto others = Of(KeyRole::kWorker);
  const auto listener = *security::PublicKeyOf(roster_.at(kFirstServer));
  server_->SetHolder(kFirstWorker, security::BytesOf(keys->own.open));
  server_->SetHolder(kSecondWorker, security::BytesOf(others->own.open));
  Message pull = PullAt(5);
  pull.to = kFirstServer;
  pull.session = kTheSession;
  const auto next = [&](absl::Duration within) { return server_->Receive(SteadyNow() + within); };
  RawWorker honest(keys, listener, server_->endpoint(), "Snamed");
  honest.Say(honest.Introduction(kTheSession));
  honest.Say(pull, kFirstWorker);
  ASSERT_TRUE(next(absl::Seconds(60)).has_value());
  RawWorker other(others, listener, server_->endpoint(), "Snamed");
  for (const Address name : {kFirstWorker, kSecondWorker}) {
    other.Say(other.Introduction(kTheSession));
    other.Say(pull, name);
  }
  EXPECT_FALSE(next(kInVain).has_value());
}

TEST_F(RankedTransportTest, AMemberIsHeardOnceARosterNamesIt) {
  for (const Path path : {Path::kZmq, Path::kMemory}) {
    server_ = Listen(By(path));
    const auto worker = Connected(WorkerBy(path, kFirstWorker, /*member=*/false));
    for (Clock clock = 1; clock <= 3; ++clock) {
      ASSERT_TRUE(worker->Send(kFirstServer, PullAt(clock)).ok());
    }
    EXPECT_FALSE(Taken(worker.get(), kInVain).has_value());
    EXPECT_EQ(server_->stats().rejected_messages, 0u);
    Enter(kFirstWorker, worker.get());
    for (Clock clock = 1; clock <= 3; ++clock) {
      const std::optional<Message> taken = Taken(worker.get(), absl::Seconds(60));
      ASSERT_TRUE(taken.has_value());
      EXPECT_EQ(taken->clock, clock);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectServes(worker.get(), kFirstWorker));
    EXPECT_EQ(server_->stats().rejected_messages, 0u);
    EXPECT_TRUE(worker->TakeLost().empty());
  }
}

// Who was counted out, with all that it knows and all its connections.
TEST_F(RankedTransportTest, ASuccessorHasTheRankAndItsRouteFromTheRosterOn) {
  for (const Path path : {Path::kZmq, Path::kStream, Path::kMemory}) {
    server_ = Listen(By(path));
    const auto former = Connected(WorkerBy(path, kFirstWorker));
    ASSERT_NO_FATAL_FAILURE(Settle(path, former.get(), kFirstWorker));
    const auto successor = WorkerBy(path, kFirstWorker);
    EXPECT_FALSE(server_->Send(kFirstWorker, PullAt(7)).ok()) << "the former one's way is known";
    Message ahead = PullAt(9);
    ahead.epoch = kLastEpoch - 1;
    ASSERT_TRUE(former->Send(kFirstServer, ahead).ok());
    ExpectInVain(former.get(), [&] { return names() >= 1; });
    EXPECT_EQ(names(), 1u);
    ASSERT_NO_FATAL_FAILURE(ExpectServes(Connected(successor.get()), kFirstWorker));
    ASSERT_TRUE(former->Send(kFirstServer, ahead).ok());
    ExpectInVain(former.get(), [&] { return names() >= 2; });
    EXPECT_EQ(names(), 2u);
    ASSERT_NO_FATAL_FAILURE(ExpectServes(successor.get(), kFirstWorker));
    // By another connection, as another process.
    ASSERT_TRUE(former->Connect(kFirstServer, server_->endpoint()).ok());
    ASSERT_TRUE(former->Send(kFirstServer, ahead).ok());
    EXPECT_FALSE(Taken(former.get(), kInVain).has_value());
    ASSERT_NO_FATAL_FAILURE(ExpectServes(successor.get(), kFirstWorker));
  }
}

// Who has server.key and the server's place on the network is told nothing, and nothing is taken
// from it.
TEST_F(RankedTransportTest, AnotherServerIsNotTakenForTheOne) {
  for (const bool memory : {false, true}) {
    const auto false_one = Outsider(
        {.listen = "tcp://127.0.0.1:0", .shared_memory = memory, .keys = Of(KeyRole::kServer)},
        kFirstServer);
    const auto worker = Make({.shared_memory = memory, .keys = Of(KeyRole::kWorker)}, kFirstWorker);
    false_one->SetHolder(kFirstWorker, worker->process_key());
    ASSERT_TRUE(worker->Connect(kFirstServer, false_one->endpoint()).ok());
    ASSERT_TRUE(worker->Send(kFirstServer, PullAt(1)).ok());
    EXPECT_FALSE(Next(false_one.get(), worker.get(), kInVain).has_value());
    EXPECT_EQ(false_one->stats().received_messages, 0u);
    EXPECT_EQ(worker->stats().proof_faults.links, memory ? 1u : 0u);
    ASSERT_NO_FATAL_FAILURE(ExpectServes(Connected(worker.get()), kFirstWorker));
  }
}

TEST_F(RankedTransportTest, AServerIsConnectedToOnceARosterNamesIt) {
  roster_.clear();
  const auto worker = WorkerBy(Path::kZmq, kFirstWorker);
  EXPECT_TRUE(absl::IsFailedPrecondition(worker->Connect(kFirstServer, server_->endpoint())));
}

// At the scheduler, before anybody has a rank.
TEST_F(RankedTransportTest, AHelloIsOfItsOwnProcessAndKeepsItsAddress) {
  const auto scheduler = Outsider({.listen = "tcp://127.0.0.1:0", .keys = Of(KeyRole::kScheduler)},
                                  Address::Scheduler());
  const Address temporary = Address::Temporary(Role::kWorker, 5);
  const auto newcomer = [&] {
    auto made = Outsider({.keys = Of(KeyRole::kWorker)}, temporary);
    made->SetSession(0);
    EXPECT_TRUE(made->Connect(Address::Scheduler(), scheduler->endpoint()).ok());
    return made;
  };
  const auto hello = [](const std::string& key) {
    Message message;
    message.type = MessageType::kHello;
    message.body = wire::Hello{.role = Role::kWorker, .nonce = 5, .key = key};
    return message;
  };
  const auto first = newcomer(), other = newcomer();
  ASSERT_TRUE(first->Send(Address::Scheduler(), hello(first->process_key())).ok());
  ASSERT_TRUE(Next(scheduler.get(), first.get(), absl::Seconds(60)).has_value());
  for (const std::string& key : {first->process_key(), other->process_key(), std::string()}) {
    ASSERT_TRUE(other->Send(Address::Scheduler(), hello(key)).ok());
    EXPECT_FALSE(Next(scheduler.get(), other.get(), kInVain / 2).has_value());
  }
  EXPECT_EQ(scheduler->stats().proof_faults.names, 3u);
  Message welcome;
  welcome.type = MessageType::kWelcome;
  welcome.body = wire::Welcome{.nonce = 5};
  ASSERT_TRUE(scheduler->Send(temporary, welcome).ok());
  EXPECT_TRUE(Next(first.get(), scheduler.get(), absl::Seconds(60)).has_value());
  EXPECT_FALSE(Next(other.get(), scheduler.get(), kInVain / 2).has_value());
  // Once it has a rank it speaks as that, by the same connection.
  first->SetSession(kTheSession);
  first->SetSelf(kFirstWorker);
  Message beat;
  beat.type = MessageType::kHeartbeat;
  scheduler->SetHolder(kFirstWorker, first->process_key());
  ASSERT_TRUE(first->Send(Address::Scheduler(), beat).ok());
  const auto taken = Next(scheduler.get(), first.get(), absl::Seconds(60));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->from, kFirstWorker);
}

}  // namespace
}  // namespace soapstone::transport
