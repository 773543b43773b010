// A job with keys: its members speak as ever, and a stranger, or a member in another's role, in
// vain.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/node_transport.h"
#include "transport/zmq/zap_handler.h"
#include "transport/zmq/zmq_socket.h"

namespace soapstone::transport {
namespace {

using security::JobKeys;
using security::KeyRole;
using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Role;

constexpr uint64_t kSecuredSession = 78;
constexpr Address kSecuredServer = {Role::kServer, 0};
constexpr Address kSecuredWorker = {Role::kWorker, 0};
constexpr absl::Duration kInVain = absl::Milliseconds(700);

class SecuredTransportTest : public testing::Test {
 protected:
  using Keys = std::shared_ptr<const JobKeys>;

  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/secured-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(security::GenerateKeys(folder_).ok());
    server_ = Make({.listen = "tcp://127.0.0.1:0", .keys = Of(KeyRole::kServer)}, kSecuredServer);
  }

  Keys Of(KeyRole role) const {
    absl::StatusOr<JobKeys> keys = security::ReadJobKeys(folder_, role);
    EXPECT_TRUE(keys.ok()) << keys.status();
    return std::make_shared<const JobKeys>(*std::move(keys));
  }
  static std::unique_ptr<Transport> Make(const ZmqOptions& options, Address self) {
    absl::StatusOr<std::unique_ptr<Transport>> made = MakeZmqTransport(options);
    EXPECT_TRUE(made.ok()) << made.status();
    (*made)->SetSelf(self);
    (*made)->SetSession(kSecuredSession);
    return *std::move(made);
  }
  // One that knows the session, and connects to the server.
  std::unique_ptr<Transport> Member(Keys keys, Address self) {
    std::unique_ptr<Transport> member = Make({.keys = std::move(keys)}, self);
    EXPECT_TRUE(member->Connect(kSecuredServer, server_->endpoint()).ok());
    return member;
  }
  static Message PullAt(Clock clock) {
    Message message;
    message.type = MessageType::kPull;
    message.body = wire::Pull{};
    message.clock = clock;
    return message;
  }
  // The next that the server takes while `member`, too, is given time; nothing: none in time.
  std::optional<Message> Taken(Transport* member, absl::Duration within) {
    const SteadyTime deadline = SteadyNow() + within;
    while (SteadyNow() < deadline) {
      if (auto taken = server_->Receive(SteadyNow() + absl::Milliseconds(5))) return taken;
      member->Receive(SteadyNow() + absl::Milliseconds(5));
    }
    return std::nullopt;
  }
  void ExpectSecuredServes() {
    const auto worker = Member(Of(KeyRole::kWorker), kSecuredWorker);
    ASSERT_TRUE(worker->Send(kSecuredServer, PullAt(5)).ok());
    const std::optional<Message> taken = Taken(worker.get(), absl::Seconds(60));
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->from, kSecuredWorker);
    ASSERT_TRUE(server_->Send(kSecuredWorker, PullAt(6)).ok());
    const std::optional<Message> reply = worker->Receive(SteadyNow() + absl::Seconds(60));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->clock, 6);
  }

  std::string folder_;
  std::unique_ptr<Transport> server_;
};

TEST_F(SecuredTransportTest, MembersSpeakBothWays) {
  ExpectSecuredServes();
  EXPECT_EQ(server_->stats().strangers, 0u);
  EXPECT_EQ(server_->stats().rejected_messages, 0u);
}

// Where there is no shared memory between the two.
TEST_F(SecuredTransportTest, DataGoesBySealedStreams) {
  const auto server =
      Make({.listen = "tcp://127.0.0.1:0", .streams = true, .keys = Of(KeyRole::kServer)},
           kSecuredServer);
  const auto worker = Make({.streams = true, .keys = Of(KeyRole::kWorker)}, kSecuredWorker);
  ASSERT_TRUE(worker->Connect(kSecuredServer, server->endpoint()).ok());
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
       (worker->stats().streamed_messages == 0 || server->stats().streamed_messages == 0) &&
       SteadyNow() < end;
       ++clock) {
    ASSERT_NO_FATAL_FAILURE(pass(worker.get(), server.get(), kSecuredServer, PullAt(clock)));
    ASSERT_NO_FATAL_FAILURE(pass(server.get(), worker.get(), kSecuredWorker, PullAt(clock)));
  }
  Message push = PullAt(7);
  push.type = MessageType::kPush;
  push.body = wire::Push{.micro_batches = {0, 1}, .micro_batch_count = 1};
  for (const size_t bytes : {4, 5000, 70'000, 10'000'000}) {
    push.payload = {Buffer::CopyOf(std::string(bytes, 'x'))};
    ASSERT_NO_FATAL_FAILURE(pass(worker.get(), server.get(), kSecuredServer, push));
  }
  EXPECT_GE(worker->stats().streamed_messages, 4u);
  worker->Close(absl::Seconds(1));
  server->Close(absl::Seconds(1));
  for (const Transport* node : {worker.get(), server.get()}) {
    const TransportStats stats = node->stats();
    EXPECT_EQ(stats.shared_bytes, 0u);
    EXPECT_EQ(stats.proof_faults, ProofFaults());
    EXPECT_GE(stats.sockets.connections, 1u);
  }
}

// Within a machine: each is still heard in the role of its key alone.
TEST_F(SecuredTransportTest, DataGoesBySharedMemory) {
  const auto server = Make({.listen = "tcp://127.0.0.1:0",
                            .shared_memory = true,
                            .streams = true,
                            .keys = Of(KeyRole::kServer)},
                           kSecuredServer);
  for (const bool honest : {true, false}) {
    const auto worker = Make({.shared_memory = true, .keys = Of(KeyRole::kWorker)},
                             honest ? kSecuredWorker : Address{Role::kServer, 1});
    ASSERT_TRUE(worker->Connect(kSecuredServer, server->endpoint()).ok());
    ASSERT_TRUE(worker->Send(kSecuredServer, PullAt(3)).ok());
    std::optional<Message> taken;
    const SteadyTime end = SteadyNow() + (honest ? absl::Seconds(60) : kInVain);
    while (!taken.has_value() && SteadyNow() < end) {
      worker->Receive(SteadyNow() + absl::Milliseconds(1));
      taken = server->Receive(SteadyNow() + absl::Milliseconds(1));
    }
    EXPECT_EQ(taken.has_value(), honest);
    EXPECT_GT(worker->stats().shared_bytes, 0u);
  }
  EXPECT_GE(server->stats().rejected_messages, 1u);
  EXPECT_EQ(server->stats().proof_faults, ProofFaults());
}

TEST_F(SecuredTransportTest, WithoutKeysNothingArrivesEitherWay) {
  const auto plain = Member(nullptr, kSecuredWorker);
  ASSERT_TRUE(plain->Send(kSecuredServer, PullAt(1)).ok());
  EXPECT_FALSE(Taken(plain.get(), kInVain).has_value());
  EXPECT_EQ(server_->stats().received_messages, 0u);
  EXPECT_EQ(server_->stats().rejected_messages, 0u) << "it came as far as the node";
  ExpectSecuredServes();
}

TEST_F(SecuredTransportTest, TheKeysOfAnotherJobAreRefusedAndCounted) {
  const std::string other = absl::StrCat(folder_, "/other");
  ASSERT_TRUE(security::GenerateKeys(other).ok());
  // It has learned the server's public key, which is no secret.
  auto forged = std::make_shared<JobKeys>(*security::ReadJobKeys(other, KeyRole::kWorker));
  const size_t server = static_cast<size_t>(KeyRole::kServer);
  forged->public_keys[server] = Of(KeyRole::kServer)->public_keys[server];
  const auto stranger = Member(forged, kSecuredWorker);
  ASSERT_TRUE(stranger->Send(kSecuredServer, PullAt(1)).ok());
  EXPECT_FALSE(Taken(stranger.get(), kInVain).has_value());
  EXPECT_EQ(server_->stats().received_messages, 0u);
  EXPECT_EQ(server_->stats().rejected_messages, 0u) << "it came as far as the node";
  EXPECT_GE(server_->stats().strangers, 1u);
  ExpectSecuredServes();
}

TEST_F(SecuredTransportTest, AMemberSpeaksInItsOwnRoleAlone) {
  const auto worker = Member(Of(KeyRole::kWorker), {Role::kServer, 1});
  ASSERT_TRUE(worker->Send(kSecuredServer, PullAt(1)).ok());
  EXPECT_FALSE(Taken(worker.get(), kInVain).has_value());
  EXPECT_EQ(server_->stats().received_messages, 0u);
  EXPECT_GE(server_->stats().rejected_messages, 1u);
  ExpectSecuredServes();
}

TEST_F(SecuredTransportTest, AWorkerDoesNotEndTheJob) {
  const auto worker = Member(Of(KeyRole::kWorker), kSecuredWorker);
  Message end;
  end.type = MessageType::kShutdown;
  end.body = wire::Notice{.code = 0, .text = "done"};
  ASSERT_TRUE(worker->Send(kSecuredServer, end).ok());
  EXPECT_FALSE(Taken(worker.get(), kInVain).has_value());
  EXPECT_GE(server_->stats().rejected_messages, 1u);
}

TEST_F(SecuredTransportTest, WhoHasNotTheSchedulersKeyIsNotTakenForIt) {
  for (const bool has_keys : {true, false}) {
    const auto false_one =
        Make({.listen = "tcp://127.0.0.1:0", .keys = has_keys ? Of(KeyRole::kWorker) : nullptr},
             Address::Scheduler());
    const auto member = Make({.keys = Of(KeyRole::kServer)}, kSecuredServer);
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
