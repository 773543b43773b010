// HandPlayedJob: for the coordinator's tests, a coordinator with a cluster that the test plays by
// hand: it says what nodes say, lets time pass, and looks at what the coordinator sent.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/coordinator.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Notice;
using wire::Role;
using Phase = Coordinator::Phase;

inline constexpr uint64_t kSession = 42;
inline constexpr uint64_t kDigest = 7;

inline Address Worker(uint32_t rank) { return Address::Of(WorkerId{rank}); }
inline Address Server(uint32_t rank) { return Address::Of(ServerId{rank}); }
inline Address Shard(uint32_t k) { return Address::Of(ShardId{k}); }
inline Address Temporary(Role role, uint64_t nonce) {
  return {role, 0x80000000u | static_cast<uint32_t>(nonce)};
}

class HandPlayedJob {
 public:
  explicit HandPlayedJob(CoordinatorOptions options)
      : options_(Complete(std::move(options))), coordinator_(options_) {
    wire::Outbox out;
    coordinator_.Start(now_, &out);
    Collect(&out);
  }

  static CoordinatorOptions Complete(CoordinatorOptions options) {
    options.session = kSession;
    options.config_digest = kDigest;
    return options;
  }

  // --- what nodes say
  void Say(Address from, MessageType type, wire::Body body = {}, Clock clock = kNoClock) {
    Message message;
    message.type = type;
    message.from = from;
    message.to = Address::Scheduler();
    message.session = kSession;
    message.clock = clock;
    message.body = std::move(body);
    Deliver(message);
  }
  void Deliver(const Message& message) {
    wire::Outbox out;
    coordinator_.OnMessage(now_, message, &out);
    Collect(&out);
  }
  // Of the process that says this nonce.
  static std::string KeyOf(uint64_t nonce) { return "key " + std::to_string(nonce); }
  void SayHello(Role role, int64_t wanted_rank, uint64_t nonce, uint64_t digest = kDigest,
                const std::string& arithmetic = "") {
    Message message;
    message.type = MessageType::kHello;
    message.from = Temporary(role, nonce);
    message.body =
        wire::Hello{role, wanted_rank, "tcp://host", nonce, digest, arithmetic, KeyOf(nonce)};
    Deliver(message);
  }
  void Ack(uint32_t shard, Clock frontier = 0) {
    Message message;
    message.type = MessageType::kRosterAck;
    message.from = Shard(shard);
    message.session = kSession;
    message.epoch = coordinator_.epoch();
    message.clock = frontier;
    Deliver(message);
  }
  void AckAll(Clock frontier = 0) {
    for (uint32_t k = 0; k < shards(); ++k) Ack(k, frontier);
  }
  void Lose(Address node, Epoch heard = kLastEpoch) {
    wire::Outbox out;
    coordinator_.OnLost(now_, node, heard, &out);
    Collect(&out);
  }
  bool Leaves(Address server) {
    wire::Outbox out;
    const bool leaves = coordinator_.OnServerLeaves(now_, server, &out);
    Collect(&out);
    return leaves;
  }
  void Abort(int32_t code, const std::string& reason) {
    wire::Outbox out;
    coordinator_.Abort(now_, code, reason, &out);
    Collect(&out);
  }

  // --- time: fires the timers that are due; who is alive sends a heartbeat before each
  void RunTo(Nanos until, const std::set<Address>& alive) {
    while ((due_ >= 0 && due_ <= until) || (settle_due_ >= 0 && settle_due_ <= until)) {
      if (settle_due_ >= 0 && (due_ < 0 || settle_due_ < due_)) {
        now_ = std::exchange(settle_due_, -1);
        Fire(Coordinator::kSettle);
        continue;
      }
      now_ = due_;
      for (const Address node : alive) Say(node, MessageType::kHeartbeat);
      Fire();
    }
    now_ = until;
  }
  void Fire(wire::TimerId timer = Coordinator::kTick) {
    if (timer == Coordinator::kTick) due_ = -1;
    wire::Outbox out;
    coordinator_.OnTimer(now_, timer, &out);
    Collect(&out);
  }
  void SetNow(Nanos now) { now_ = now; }
  Nanos now() const { return now_; }

  // --- short cuts to later phases
  void RegisterAll() {
    for (uint32_t k = 0; k < options_.servers; ++k) SayHello(Role::kServer, k, 1000 + k);
    for (uint32_t k = 0; k < options_.workers; ++k) SayHello(Role::kWorker, k, 2000 + k);
  }
  void StartAll() {
    RegisterAll();
    AckAll();
    Clear();
  }
  std::set<Address> Everybody() const {
    std::set<Address> all;
    for (uint32_t k = 0; k < options_.servers; ++k) all.insert(Server(k));
    for (uint32_t k = 0; k < options_.workers; ++k) all.insert(Worker(k));
    return all;
  }

  // --- what the coordinator said since Clear
  void Clear() { sent_.clear(); }
  std::vector<Address> ReceiversOf(MessageType type) const {
    std::vector<Address> receivers;
    for (const Message& message : sent_) {
      if (message.type == type) receivers.push_back(message.to);
    }
    return receivers;
  }
  Message Last(MessageType type) const {
    for (auto it = sent_.rbegin(); it != sent_.rend(); ++it) {
      if (it->type == type) return *it;
    }
    ADD_FAILURE() << "no message of type " << static_cast<int>(type);
    return {};
  }
  Notice LastNotice(MessageType type) const {
    const Message message = Last(type);
    const auto* notice = std::get_if<Notice>(&message.body);
    return notice != nullptr ? *notice : Notice{-1, "no notice"};
  }
  const std::vector<Message>& sent() const { return sent_; }
  uint32_t shards() const { return options_.servers * options_.shards_per_server; }
  Coordinator& coordinator() { return coordinator_; }

 private:
  void Collect(wire::Outbox* out) {
    for (Message& message : out->messages) {
      EXPECT_EQ(message.from, Address::Scheduler());
      const bool outside =
          message.type == MessageType::kRefuse || message.type == MessageType::kWait;
      EXPECT_EQ(message.session, outside ? 0 : kSession);
      sent_.push_back(std::move(message));
    }
    for (const wire::TimerRequest& timer : out->timers) {
      (timer.id == Coordinator::kSettle ? settle_due_ : due_) = timer.at;
    }
  }

  CoordinatorOptions options_;
  Coordinator coordinator_;
  Nanos now_ = 0;
  Nanos due_ = -1;         // of kTick
  Nanos settle_due_ = -1;  // of kSettle
  std::vector<Message> sent_;
};

inline std::vector<WorkerId> RosterWorkers(const Message& message) {
  std::vector<WorkerId> workers;
  for (const wire::Member& member : std::get<wire::Roster>(message.body).workers) {
    workers.push_back(member.worker);
  }
  return workers;
}

inline wire::Progress AtClock(Clock clock) { return {.clock = clock}; }

}  // namespace soapstone::scheduler
