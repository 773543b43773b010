// Identity: who this node is. Stamps what a transport sends and decides which of the received
// messages it takes. The rules are the same for every transport.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/frame.h"
#include "wire/message.h"
#include "wire/shard_places.h"

namespace soapstone::transport {

class Identity {
 public:
  // `places`: for which shards a server may speak.
  explicit Identity(wire::FrameLimits limits, wire::ShardPlaces places = {})
      : limits_(limits), places_(places) {}

  void SetSelf(wire::Address self) { self_ = self; }
  void SetSession(uint64_t session) { session_ = session; }
  // From here on nobody speaks but in the role whose key was shown, and in the rank that the roster
  // gives to the process whose key was shown. Who has no rank yet says Hello, with that key.
  void RequireKeys() { requires_keys_ = true; }
  wire::Address self() const { return self_; }
  uint64_t session() const { return session_; }

  // The message as it goes out to `node`: `from` is this node where it is empty or a node of this
  // role (a shard's stays), `to` is `node` and `session` is ours where they are empty (but of a
  // Refuse, which tells it to nobody).
  // Errors: FailedPrecondition before SetSelf; InvalidArgument when no receiver would take it.
  absl::StatusOr<wire::Message> Stamp(wire::Address node, const wire::Message& message) const;

  // How a message came.
  struct Way {
    bool by_our_connection = false;    // else by one that was made to us
    bool connected_to_sender = false;  // we have a connection of our own to its sender
    // Of a job with keys.
    wire::Role role = wire::Role::kNone;  // whose key was shown; kNone: nobody's
    std::string_view key = {};            // of which process; empty: none was shown
    wire::Address holder = {};            // who that is; kNone: it has no rank
  };

  // OK when the message's session allows it in:
  //   ours                                 any message
  //   another or none, at the scheduler    Hello, from a temporary address
  //   any, while ours is not known         Welcome, Refuse, Shutdown, of the scheduler
  // and its sender may speak that way: the scheduler, and whoever else we connected to, by our
  // connection alone. Nodes of one role, which connect to each other both, also by the other's.
  absl::Status Admit(const wire::Received& received, const Way& way) const;

 private:
  absl::Status CheckWay(wire::Address sender, const Way& way) const;
  absl::Status CheckKeys(const wire::Received& received, const Way& way) const;
  static bool IsOfHolder(const wire::Received& received, const Way& way);

  wire::FrameLimits limits_;
  wire::ShardPlaces places_;
  wire::Address self_;
  uint64_t session_ = 0;
  bool requires_keys_ = false;
};

}  // namespace soapstone::transport
