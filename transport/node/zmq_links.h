// ZmqLinks: ZeroMQ's sockets with numbered sessions over them, so that what is sent arrives once
// and in order although connections break, and are made again, without a word. It is the
// one of a node's three ways that is always there. Who calls: NodeTransport. It moves frames, and
// must not know what they mean.
//
// A peer is known by the routing id of its connection, which both ends know; `ours`: we connected
// to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "base/steady_clock.h"
#include "transport/byte_counts.h"
#include "transport/node/numbered_links.h"
#include "transport/rejections.h"
#include "transport/zmq/zmq_sockets.h"
#include "wire/message.h"

namespace soapstone::transport {

// Invariants
//  1. Receive gives out only what its session lets pass: each message once, in the order sent.
//  2. What a session asks ZeroMQ for stays between the two: a connection that ends, or on which
//     nothing moves, is made again without a word to the caller, until it is TakeLost.
//  3. Who has not proved to be of the job is held back by the door (transport/zmq/door.h).
// One thread calls it.
class ZmqLinks {
 public:
  // `frames_max`: of one message, with its header. `rejections` outlives it, and counts what is no
  // message of a session.
  ZmqLinks(const ZmqSocketOptions& sockets, const DoorLimits& door, const NumberedOptions& sessions,
           size_t frames_max, Rejections* rejections);
  ZmqLinks(const ZmqLinks&) = delete;
  ZmqLinks& operator=(const ZmqLinks&) = delete;

  // To listen, to look connections up, and to wait for them.
  ZmqSockets* sockets() { return &sockets_; }
  const ZmqSockets& sockets() const { return sockets_; }

  // `key`: with keys, of the node's process. REQUIRES: there is no connection to the node.
  absl::Status Connect(wire::Address node, const std::string& endpoint,
                       const security::PublicKey& key);
  // REQUIRES: there is a connection to the node.
  void Disconnect(wire::Address node);
  // The peer is known to be there: if it is never heard, it is lost.
  void Expect(const std::string& peer) { numbered_.Expect(peer, SteadyNow()); }

  // Errors as NumberedLinks::Send.
  absl::Status Send(const std::string& peer, bool ours, std::string_view first,
                    absl::Span<const Buffer> rest);

  enum class Came : uint8_t {
    kNothing,
    kMessage,
    kOther,  // of the sessions, or nothing of ours: call again, but look at the time before
  };
  Came Receive(Buffers* frames, ZmqSockets::Source* from);
  // What came last from there was valid (to a connection of ours), or of our session.
  void Watch(const ZmqSockets::Source& from) { framing_sent_ += sockets_.Watch(from); }
  // Whose messages had to wait may be heard now (NumberedOptions::waits).
  void Release() { numbered_.Release(); }
  // It was of our session.
  void Prove(const std::string& peer) { numbered_.Prove(peer); }
  // The same, of one that was last heard by the connection that it has now. Nothing: nobody's.
  void Welcomed(const std::string& peer) {
    numbered_.Prove(peer);
    sockets_.ProveHeard(peer);
  }

  // Connections are made again, messages sent again, links given up. Call it where nothing is
  // received for longest_sleep(), and once in so many messages.
  void Tend(SteadyTime now);
  absl::Duration longest_sleep() const;
  std::vector<LostLink> TakeLost() { return numbered_.TakeLost(); }

  // Sends what is queued, until the deadline at most. Adds what the kernel counted.
  void Close(SteadyTime deadline, SocketCounts* counts);

  // Of ZeroMQ and of the sessions: what goes twice, and what sessions say, is framing.
  uint64_t framing_sent() const { return framing_sent_; }

 private:
  absl::Status Put(const std::string& peer, bool ours, std::string_view first,
                   absl::Span<const Buffer> rest, bool again);

  const size_t frames_max_;
  Rejections* const rejections_;
  ZmqSockets sockets_;
  NumberedLinks numbered_;
  SteadyTime look_for_broken_at_ = SteadyTime::InfinitePast();
  uint64_t framing_sent_ = 0;
};

}  // namespace soapstone::transport
