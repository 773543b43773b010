// A job with keys for tests of the transport: a server that listens, and whoever connects to it,
// with what a scheduler would have told each of who has which rank.
#pragma once

#include <zmq.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_clock.h"
#include "gtest/gtest.h"
#include "transport/node/node_transport.h"
#include "transport/node/rank_holders.h"
#include "transport/tcp/handshake.h"
#include "transport/zmq/zmq_socket.h"
#include "wire/frame.h"

namespace soapstone::transport {

class SecuredJob : public testing::Test {
 protected:
  using Keys = std::shared_ptr<const security::ProcessKeys>;

  static constexpr uint64_t kTheSession = 78;
  static constexpr wire::Address kFirstServer = {wire::Role::kServer, 0};
  static constexpr wire::Address kFirstWorker = {wire::Role::kWorker, 0};
  static constexpr wire::Address kSecondWorker = {wire::Role::kWorker, 1};
  static constexpr absl::Duration kInVain = absl::Milliseconds(700);

  void SetUp() override {
    folder_ = absl::StrCat(testing::TempDir(), "/secured-",
                           testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    ASSERT_TRUE(security::GenerateKeys(folder_).ok());
    server_ = Listen({});
  }

  // Of another process each time.
  Keys Of(security::KeyRole role) const {
    absl::StatusOr<security::JobKeys> keys = security::ReadJobKeys(folder_, role);
    EXPECT_TRUE(keys.ok()) << keys.status();
    return security::MakeProcessKeys(std::make_shared<const security::JobKeys>(*std::move(keys)));
  }

  // A process that knows what members know. The roster does not have it.
  std::unique_ptr<Transport> Outsider(const ZmqOptions& options, wire::Address self) const {
    absl::StatusOr<std::unique_ptr<Transport>> made = MakeNodeTransport(options);
    EXPECT_TRUE(made.ok()) << made.status();
    (*made)->SetSelf(self);
    (*made)->SetSession(kTheSession);
    for (const auto& [rank, key] : roster_) (*made)->SetHolder(rank, key);
    return *std::move(made);
  }
  // The same, of a member. The server has its roster.
  std::unique_ptr<Transport> Make(const ZmqOptions& options, wire::Address self) {
    std::unique_ptr<Transport> made = Outsider(options, self);
    Enter(self, made.get());
    made->SetHolder(self, made->process_key());
    return made;
  }
  // The process has the rank from now on, and the server has heard it.
  void Enter(wire::Address rank, Transport* process) {
    roster_[rank] = process->process_key();
    if (server_ != nullptr) server_->SetHolder(rank, process->process_key());
  }
  // The first server, the one of server_.
  std::unique_ptr<Transport> Listen(ZmqOptions options) {
    options.listen = "tcp://127.0.0.1:0";
    options.keys = Of(security::KeyRole::kServer);
    roster_.erase(kFirstServer);
    return Make(options, kFirstServer);
  }
  // A member with these keys that connects to the server.
  std::unique_ptr<Transport> Member(Keys keys, wire::Address self) {
    return Connected(Make({.keys = std::move(keys)}, self));
  }
  Transport* Connected(Transport* process) const {
    EXPECT_TRUE(process->Connect(kFirstServer, server_->endpoint()).ok());
    return process;
  }
  std::unique_ptr<Transport> Connected(std::unique_ptr<Transport> process) const {
    Connected(process.get());
    return process;
  }

  static wire::Message PullAt(Clock clock) {
    wire::Message message;
    message.type = wire::MessageType::kPull;
    message.body = wire::Pull{};
    message.clock = clock;
    return message;
  }
  // The next that `to` takes while `from`, too, is given time; nothing: none in time.
  static std::optional<wire::Message> Next(Transport* to, Transport* from, absl::Duration within) {
    const SteadyTime deadline = SteadyNow() + within;
    while (SteadyNow() < deadline) {
      if (auto taken = to->Receive(SteadyNow() + absl::Milliseconds(5))) return taken;
      from->Receive(SteadyNow() + absl::Milliseconds(5));
    }
    return std::nullopt;
  }
  std::optional<wire::Message> Taken(Transport* member, absl::Duration within) {
    return Next(server_.get(), member, within);
  }
  // Nothing of what the member sends arrives, and the server comes to count it.
  void ExpectInVain(Transport* member, const std::function<bool()>& counted) {
    EXPECT_FALSE(Taken(member, kInVain).has_value());
    for (const SteadyTime end = SteadyNow() + absl::Seconds(60); !counted() && SteadyNow() < end;) {
      EXPECT_FALSE(Taken(member, absl::Milliseconds(20)).has_value());
    }
    EXPECT_TRUE(counted());
  }
  // What the member sends arrives, in its name, and so does the answer.
  void ExpectServes(Transport* member, wire::Address name) {
    ASSERT_TRUE(member->Send(kFirstServer, PullAt(5)).ok());
    const std::optional<wire::Message> taken = Taken(member, absl::Seconds(60));
    ASSERT_TRUE(taken.has_value());
    EXPECT_EQ(taken->from, name);
    EXPECT_EQ(taken->clock, 5);
    ASSERT_TRUE(server_->Send(name, PullAt(6)).ok());
    const std::optional<wire::Message> reply = Next(member, server_.get(), absl::Seconds(60));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->clock, 6);
  }
  void ExpectServesMembers() {
    const auto worker = Member(Of(security::KeyRole::kWorker), kFirstWorker);
    ExpectServes(worker.get(), kFirstWorker);
  }

  std::string folder_;
  std::map<wire::Address, std::string> roster_;
  std::unique_ptr<Transport> server_;
};

// A worker by libzmq alone, with worker.key: says what it is told to, be it what no member says.
class RawWorker {
 public:
  // The connection's routing id begins with an S.
  RawWorker(std::shared_ptr<const security::ProcessKeys> keys, const security::PublicKey& listener,
            const std::string& endpoint, std::string routing_id)
      : keys_(std::move(keys)), listener_(listener), routing_id_(std::move(routing_id)) {
    socket_ = *ZmqSocket::Open(context_, ZMQ_DEALER,
                               {.routing_id = routing_id_,
                                .keys = keys_,
                                .connects_to = wire::Role::kServer,
                                .listener_key = listener_});
    EXPECT_TRUE(socket_.Connect(endpoint).ok());
  }
  ~RawWorker() {
    socket_.Close(absl::ZeroDuration());
    zmq_ctx_term(context_);
  }
  RawWorker(const RawWorker&) = delete;
  RawWorker& operator=(const RawWorker&) = delete;

  // What an honest one says first.
  Handshake Introduction(uint64_t session) const {
    Handshake note = {.session = session};
    EXPECT_TRUE(RankHolders(keys_).Introduce(routing_id_, listener_, &note).ok());
    return note;
  }
  void Say(const Handshake& note) { Send(EncodeNote(note), {}); }
  void Say(wire::Message message, wire::Address sender) {
    message.from = sender;
    Send(wire::EncodeHeader(message, sender), message.payload);
  }

 private:
  // With the trailer of docs/wire.md.
  void Send(std::string frame, const Buffers& payload) {
    struct {
      char magic[4] = {'S', 'T', 'R', 'L'};
      uint32_t version = 1;
      uint64_t number = 0, self = 7, other = 0, received = 0;
    } trailer;
    trailer.number = ++number_;
    frame.append(reinterpret_cast<const char*>(&trailer), sizeof(trailer));
    ASSERT_TRUE(socket_.Send("", frame, payload).ok());
  }

  void* const context_ = zmq_ctx_new();
  const std::shared_ptr<const security::ProcessKeys> keys_;
  const security::PublicKey listener_;
  const std::string routing_id_;
  ZmqSocket socket_;
  uint64_t number_ = 0;
};

}  // namespace soapstone::transport
