// A job with keys: its members speak as ever, and a stranger, or a member in another's role, in
// vain.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/secured_job.h"
#include "transport/zmq/zap_handler.h"

namespace soapstone::transport {
namespace {

using security::JobKeys;
using security::KeyRole;
using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

using SecuredTransportTest = SecuredJob;

TEST_F(SecuredTransportTest, MembersSpeakBothWays) {
  ExpectServesMembers();
  EXPECT_EQ(server_->stats().strangers, 0u);
  EXPECT_EQ(server_->stats().rejected_messages, 0u);
}

// Where there is no shared memory between the two.
TEST_F(SecuredTransportTest, DataGoesBySealedStreams) {
  server_ = Listen({.streams = true});
  const auto worker =
      Connected(Make({.streams = true, .keys = Of(KeyRole::kWorker)}, kFirstWorker));
  const auto pass = [](Transport* from, Transport* to, wire::Address whom, const Message& message) {
    ASSERT_TRUE(from->Send(whom, message).ok());
    std::optional<Message> taken;
    for (const SteadyTime end = SteadyNow() + absl::Seconds(60); !taken && SteadyNow() < end;) {
      ASSERT_FALSE(from->Receive(SteadyNow() + absl::Milliseconds(1)).has_value());
      taken = to->Receive(SteadyNow() + absl::Milliseconds(1));
    }
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->clock, message.clock);
    EXPECT_EQ(taken->payload, message.payload);
  };
  const SteadyTime end = SteadyNow() + absl::Seconds(60);
  for (Clock clock = 1;
       (worker->stats().streamed_messages == 0 || server_->stats().streamed_messages == 0) &&
       SteadyNow() < end;
       ++clock) {
    ASSERT_NO_FATAL_FAILURE(pass(worker.get(), server_.get(), kFirstServer, PullAt(clock)));
    ASSERT_NO_FATAL_FAILURE(pass(server_.get(), worker.get(), kFirstWorker, PullAt(clock)));
  }
  Message push = PullAt(7);
  push.type = MessageType::kPush;
  push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  for (const size_t bytes : {4, 5000, 70'000, 10'000'000}) {
    push.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
    ASSERT_NO_FATAL_FAILURE(pass(worker.get(), server_.get(), kFirstServer, push));
  }
  EXPECT_GE(worker->stats().streamed_messages, 4u);
  worker->Close(absl::Seconds(1));
  server_->Close(absl::Seconds(1));
  for (const Transport* node : {worker.get(), server_.get()}) {
    const TransportStats stats = node->stats();
    EXPECT_EQ(stats.shared_bytes, 0u);
    EXPECT_EQ(stats.proof_faults, ProofFaults());
    EXPECT_GE(stats.sockets.connections, 1u);
  }
}

// Within a machine: each is still heard in the role of its key alone.
TEST_F(SecuredTransportTest, DataGoesBySharedMemory) {
  server_ = Listen({.shared_memory = true, .streams = true});
  for (const bool honest : {true, false}) {
    const auto worker = Connected(Make({.shared_memory = true, .keys = Of(KeyRole::kWorker)},
                                       honest ? kFirstWorker : Address{Role::kServer, 1}));
    ASSERT_TRUE(worker->Send(kFirstServer, PullAt(3)).ok());
    EXPECT_EQ(Taken(worker.get(), honest ? absl::Seconds(60) : kInVain).has_value(), honest);
    EXPECT_GT(worker->stats().shared_bytes, 0u);
  }
  EXPECT_GE(server_->stats().rejected_messages, 1u);
  EXPECT_EQ(server_->stats().proof_faults, ProofFaults{.names = 1});
}

TEST_F(SecuredTransportTest, WithoutKeysNothingArrivesEitherWay) {
  const auto plain = Member(nullptr, kFirstWorker);
  ASSERT_TRUE(plain->Send(kFirstServer, PullAt(1)).ok());
  // Who reads the other's greeting first ends the connection. If that is always the member, the
  // server knows why by the time that a handshake may take.
  ExpectInVain(plain.get(), [&] { return server_->stats().handshakes.mechanisms >= 1; });
  EXPECT_EQ(server_->stats().received_messages, 0u);
  EXPECT_EQ(server_->stats().rejected_messages, 0u) << "it came as far as the node";
  const HandshakeFailures failures = server_->stats().handshakes;
  EXPECT_EQ(failures.keys + failures.roles, 0u);
  ExpectServesMembers();
}

TEST_F(SecuredTransportTest, WhoLeavesInTheHandshakeIsCounted) {
  const std::string at = server_->endpoint();
  for (const std::string& said : {std::string(), std::string("\xff\0\0\0\0\0\0\0\1\x7f", 10)}) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(at.substr(at.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    send(fd, said.data(), said.size(), MSG_NOSIGNAL);
    close(fd);
  }
  for (const SteadyTime end = SteadyNow() + absl::Seconds(60);
       server_->stats().handshakes.cut_off < 2 && SteadyNow() < end;) {
    server_->Receive(SteadyNow() + absl::Milliseconds(5));
  }
  EXPECT_EQ(server_->stats().handshakes, HandshakeFailures{.cut_off = 2});
}

// A server has nothing to say to a worker that listens, nor the scheduler to anybody that it would
// have to connect to.
TEST_F(SecuredTransportTest, ARoleOfNoUseIsRefusedInTheHandshake) {
  struct Case {
    KeyRole listens, connects;
    bool may;
  };
  for (const Case& c : {Case{KeyRole::kWorker, KeyRole::kWorker, true},
                        {KeyRole::kWorker, KeyRole::kServer, false},
                        {KeyRole::kWorker, KeyRole::kScheduler, false},
                        {KeyRole::kServer, KeyRole::kServer, true},
                        {KeyRole::kServer, KeyRole::kScheduler, false}}) {
    const auto as = [](KeyRole role, uint32_t rank) { return Address{RoleOf(role), rank}; };
    const auto listener =
        Outsider({.listen = "tcp://127.0.0.1:0", .keys = Of(c.listens)}, as(c.listens, 5));
    const auto other = Outsider({.keys = Of(c.connects)}, as(c.connects, 6));
    listener->SetHolder(as(c.connects, 6), other->process_key());
    other->SetHolder(as(c.listens, 5), listener->process_key());
    ASSERT_TRUE(other->Connect(as(c.listens, 5), listener->endpoint()).ok());
    ASSERT_TRUE(other->Send(as(c.listens, 5), PullAt(1)).ok());
    const auto taken = Next(listener.get(), other.get(), c.may ? absl::Seconds(60) : kInVain);
    for (const SteadyTime end = SteadyNow() + absl::Seconds(60);
         !c.may && listener->stats().handshakes.roles == 0 && SteadyNow() < end;) {
      EXPECT_FALSE(Next(listener.get(), other.get(), absl::Milliseconds(20)).has_value());
    }
    const std::string what =
        absl::StrCat(security::NameOf(c.connects), " to ", security::NameOf(c.listens));
    EXPECT_EQ(taken.has_value(), c.may) << what;
    EXPECT_EQ(listener->stats().handshakes.roles > 0, !c.may) << what;
    EXPECT_EQ(listener->stats().rejected_messages, 0u) << what;
  }
}

TEST_F(SecuredTransportTest, TheKeysOfAnotherJobAreRefusedAndCounted) {
  const std::string other = absl::StrCat(folder_, "/other");
  ASSERT_TRUE(security::GenerateKeys(other).ok());
  // It has learned the server's public key, which is no secret.
  auto forged = std::make_shared<JobKeys>(*security::ReadJobKeys(other, KeyRole::kWorker));
  const size_t server = static_cast<size_t>(KeyRole::kServer);
  forged->public_keys[server] = Of(KeyRole::kServer)->job->public_keys[server];
  const auto stranger = Member(security::MakeProcessKeys(forged), kFirstWorker);
  ASSERT_TRUE(stranger->Send(kFirstServer, PullAt(1)).ok());
  ExpectInVain(stranger.get(), [&] { return server_->stats().handshakes.keys >= 1; });
  EXPECT_EQ(server_->stats().received_messages, 0u);
  EXPECT_EQ(server_->stats().rejected_messages, 0u) << "it came as far as the node";
  EXPECT_GE(server_->stats().strangers, 1u);
  EXPECT_EQ(server_->stats().handshakes.roles, 0u);
  ExpectServesMembers();
}

TEST_F(SecuredTransportTest, AMemberSpeaksInItsOwnRoleAlone) {
  const auto worker = Member(Of(KeyRole::kWorker), {Role::kServer, 1});
  ASSERT_TRUE(worker->Send(kFirstServer, PullAt(1)).ok());
  ExpectInVain(worker.get(), [&] { return server_->stats().rejected_messages >= 1; });
  EXPECT_EQ(server_->stats().received_messages, 0u);
  ExpectServesMembers();
}

TEST_F(SecuredTransportTest, AWorkerDoesNotEndTheJob) {
  const auto worker = Member(Of(KeyRole::kWorker), kFirstWorker);
  Message end;
  end.type = MessageType::kShutdown;
  end.body = wire::Notice{.code = 0, .text = "done"};
  ASSERT_TRUE(worker->Send(kFirstServer, end).ok());
  ExpectInVain(worker.get(), [&] { return server_->stats().rejected_messages >= 1; });
}

TEST_F(SecuredTransportTest, WhoHasNotTheSchedulersKeyIsNotTakenForIt) {
  for (const bool has_keys : {true, false}) {
    const auto false_one =
        Make({.listen = "tcp://127.0.0.1:0", .keys = has_keys ? Of(KeyRole::kWorker) : nullptr},
             Address::Scheduler());
    const auto member = Make({.keys = Of(KeyRole::kServer)}, kFirstServer);
    ASSERT_TRUE(member->Connect(Address::Scheduler(), false_one->endpoint()).ok());
    ASSERT_TRUE(member->Send(Address::Scheduler(), PullAt(1)).ok());
    const SteadyTime deadline = SteadyNow() + kInVain;
    while (SteadyNow() < deadline) {
      EXPECT_FALSE(false_one->Receive(SteadyNow() + absl::Milliseconds(5)).has_value());
      EXPECT_FALSE(member->Receive(SteadyNow() + absl::Milliseconds(5)).has_value());
    }
    EXPECT_EQ(false_one->stats().rejected_messages, 0u) << "something came in";
  }
}

TEST(ZapHandlerTest, UserIdsAreRoles) {
  for (const Role role : {Role::kScheduler, Role::kServer, Role::kWorker}) {
    EXPECT_EQ(RoleOfUserId(security::NameOf(KeyRoleOf(role))), role);
  }
  EXPECT_EQ(RoleOfUserId(""), Role::kNone);
  EXPECT_EQ(RoleOfUserId("peer"), Role::kNone);
}

}  // namespace
}  // namespace soapstone::transport
