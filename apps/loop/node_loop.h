// NodeLoop: what the loops of all three roles share: the transport, timers, the request to stop.
// The network, through it, is what picks the next message of a real cluster.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "apps/loop/message_router.h"
#include "base/ids.h"
#include "base/steady_clock.h"
#include "transport/transport.h"
#include "wire/outbox.h"

namespace soapstone::apps {

// One thread calls it, except RequestStop and Wake: any thread.
class NodeLoop {
 public:
  NodeLoop(std::unique_ptr<transport::Transport> transport, uint32_t shards_per_server);

  // Asks for a clean stop; `code` is the exit code it shall end with. The first request counts; a
  // second one asks to stop at once, but within kSameStop: who ends a group of processes, and one
  // of these, mean the same.
  static constexpr Nanos kSameStop = kSecond / 4;
  void RequestStop(int code);
  int stop_code() const { return stop_code_.load(); }  // 0: not asked
  bool stop_requested() const { return stop_code() != 0; }
  bool stop_now_requested() const { return stop_now_.load(); }
  void Wake() { transport_->Wake(); }

  // The steady clock's, as actors take it.
  static Nanos Now();

  // Sets the timers and sends the messages. Leaves the outbox empty.
  void Flush(wire::Outbox* out);

  // The next message. Waits until it comes, a timer is due, a Wake, or at most `patience`
  // (less where messages have just come one after the other) has passed.
  std::optional<wire::Message> Next(Nanos patience);

  // Timers that are due, each once.
  std::vector<wire::TimerId> TakeDue(Nanos now);

  // Nodes that what was sent to them does not reach, each once. Their epoch is at most that of the
  // rosters that had come when the link was lost: a later one may give the rank to another process.
  std::vector<transport::LostNode> TakeLost();

  // The longest that this loop has been without sending a heartbeat, since its first; the present
  // silence counts.
  double heartbeat_gap_s() const;
  // Heartbeats more than kLate after the one before.
  uint64_t heartbeats_late() const { return heartbeats_late_; }
  static constexpr Nanos kLate = 5 * kSecond / 2;  // half of what the scheduler waits by default

  // The greatest of the rosters that came.
  Epoch epoch() const { return epoch_; }

  MessageRouter& router() { return router_; }
  const MessageRouter& router() const { return router_; }
  transport::Transport& transport() { return *transport_; }
  const transport::Transport& transport() const { return *transport_; }

 private:
  SteadyTime DeadlineOf(Nanos patience) const;
  void NoteHeartbeat();

  std::unique_ptr<transport::Transport> transport_;
  MessageRouter router_;
  std::map<wire::TimerId, Nanos> timers_;
  // Of the last Next, which serves again while messages come one after the other.
  SteadyTime deadline_;
  Epoch epoch_ = 0;
  std::vector<transport::LostNode> lost_;  // until the roster that came last
  Nanos deadline_patience_ = 0;
  int deadline_uses_ = 0;
  std::atomic<int> stop_code_{0};
  std::atomic<bool> stop_now_{false};
  std::atomic<Nanos> stop_asked_at_{std::numeric_limits<Nanos>::max()};
  std::optional<Nanos> last_heartbeat_;
  Nanos heartbeat_gap_max_ = 0;
  uint64_t heartbeats_late_ = 0;
};

// Logs why a node ends: an error, unless it was asked to.
void LogEnd(const wire::Notice& end);

}  // namespace soapstone::apps
