// MembershipClient: a server's or worker's side of its membership: says Hello until welcomed, then
// sends heartbeats, and notices when the scheduler falls silent. An actor that the shells of both
// roles (and the simulator) run beside the shards or the engine.
//
// Invariants: before Welcome nothing but Hello is sent; every wait has a deadline; ended() never
// changes once set, and nothing is sent after it. A value: keeps no pointers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/ids.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::wire {

struct MembershipClientOptions {
  Role role = Role::kWorker;
  int64_t wanted_rank = -1;  // -1: whatever is free
  std::string endpoint;      // of a server
  uint64_t nonce = 0;
  uint64_t config_digest = 0;
  std::string arithmetic;  // as wire::Hello
  std::string key;         // likewise
  std::string host;        // likewise
  std::string scheduler;   // where it is called, for the error's text
  Nanos heartbeat_ns = kSecond / 2;
  Nanos timeout_ns = 5 * kSecond;         // scheduler silent for this long: lost
  Nanos start_timeout_ns = 60 * kSecond;  // not welcomed by then: give up
};

class MembershipClient {
 public:
  static constexpr TimerId kTick{1000};
  static constexpr Nanos kSayWaitsEvery = 5 * kSecond;

  explicit MembershipClient(MembershipClientOptions options) : options_(std::move(options)) {}

  // Where the scheduler answers before there is a rank: {role, 2^31 | low bits of the nonce}.
  Address temporary_address() const;

  void Start(Nanos now, Outbox* out);
  // Takes kWelcome, kRefuse, kWait, kHeartbeatAck, kShutdown; any message from the scheduler counts
  // as a sign of life, so the shell passes all of them here, and also on to the shards or the
  // engine. Once welcomed, messages of another session are ignored.
  void OnMessage(Nanos now, const Message& message, Outbox* out);
  // At kTick. `body` rides on the heartbeat: a worker's Progress, a server's SlowWork, or none.
  void OnTimer(Nanos now, Body body, Outbox* out);

  // This node has to leave: the job may stop for that (kAskLeave). REQUIRES: it has a rank.
  void AskLeave(Outbox* out) const { Send(MessageType::kAskLeave, {}, out); }

  // The link to the scheduler is lost, and with it what was under way. It is asked once more, by
  // another link: if it has counted this node out, it says so; else this node ends a second later.
  // Without a rank as CallAgain.
  void OnLinkLost(Nanos now, std::string why, Outbox* out);

  // The connection to the scheduler has ended. Who has no rank yet has lost nothing: it asks
  // whoever is there next, by a connection that TakeCall has the shell make.
  void CallAgain();
  bool TakeCall() { return std::exchange(calls_, false); }

  // What it waits for while it has no place; empty: nothing, or that was said less than
  // kSayWaitsEvery ago.
  std::string TakeWaitLine(Nanos now);
  // It asks for a place, and nobody has said anything to that yet.
  bool unanswered() const { return tick_due_ != 0 && !rank_.has_value() && waits_.empty(); }

  std::optional<uint32_t> rank() const { return rank_; }
  uint64_t session() const { return session_; }  // 0 before Welcome
  // Set when this node's part is over: the exit code and one line that says why.
  const std::optional<Notice>& ended() const { return ended_; }

 private:
  Nanos Deadline() const;  // when the scheduler's present silence becomes the end
  void SendHello(Outbox* out) const;
  void Send(MessageType type, Body body, Outbox* out) const;
  void SetNextTick(Nanos now, Outbox* out);

  MembershipClientOptions options_;
  std::optional<uint32_t> rank_;
  uint64_t session_ = 0;
  Epoch epoch_ = 0;      // newest that the scheduler told; tells it from a rank's former holder
  bool calls_ = false;   // a new connection is to be made
  std::string waits_;    // for a place, as the scheduler last said
  Nanos say_waits_ = 0;  // not before
  Nanos started_ = 0;
  Nanos last_heard_ = 0;
  Nanos tick_due_ = 0;
  struct LostLink {
    Nanos ends_at = 0;
    std::string why;
  };
  std::optional<LostLink> lost_link_;
  std::optional<Notice> ended_;
};

}  // namespace soapstone::wire
