// Identity: who this node is. Stamps what a transport sends and decides which of the received
// messages it takes. The rules are the same for every transport.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace soapstone::transport {

class Identity {
 public:
  explicit Identity(wire::FrameLimits limits) : limits_(limits) {}

  void SetSelf(wire::Address self) { self_ = self; }
  void SetSession(uint64_t session) { session_ = session; }
  // From here on nobody speaks but in the role whose key was shown, and nobody but the scheduler
  // says what only it may say.
  void RequireRoles() { requires_roles_ = true; }
  wire::Address self() const { return self_; }
  uint64_t session() const { return session_; }

  // The message as it goes out to `node`: `from` is this node where it is empty or a node of this
  // role (a shard's stays), `to` is `node` and `session` is ours where they are empty (but of a
  // Refuse, which tells it to nobody).
  // Errors: FailedPrecondition before SetSelf; InvalidArgument when no receiver would take it.
  absl::StatusOr<wire::Message> Stamp(wire::Address node, const wire::Message& message) const;

  // How a message came.
  struct Way {
    bool by_our_connection = false;       // else by one that was made to us
    bool connected_to_sender = false;     // we have a connection of our own to its sender
    wire::Role role = wire::Role::kNone;  // whose key was shown; kNone: nobody's
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
  absl::Status CheckRole(const wire::Received& received, const Way& way) const;

  wire::FrameLimits limits_;
  wire::Address self_;
  uint64_t session_ = 0;
  bool requires_roles_ = false;
};

}  // namespace soapstone::transport
