// KnownNodes: who a node hears and how it answers each: judges what comes (transport/identity.h),
// learns from it by which connection its sender is answered, and, of a job with keys, knows which
// process has which rank. Who calls: NodeTransport. It moves nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "security/process_keys.h"
#include "transport/identity.h"
#include "transport/node/node_counts.h"
#include "transport/node/node_transport.h"
#include "transport/node/rank_holders.h"
#include "transport/node/shm_connections.h"
#include "transport/route_table.h"
#include "transport/transport.h"
#include "transport/zmq/zmq_sockets.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace soapstone::transport {

// A connection between this node and another: over ZeroMQ, with or without a stream, or a link.
struct Route {
  std::string routing_id;
  LinkId link = 0;  // or this, where it is not 0
  friend bool operator==(const Route&, const Route&) = default;
};

// Invariants
//  1. Of a job with keys nobody is heard as, or answered in the place of, a node whose rank another
//     process has.
//  2. A temporary address stays with the process that was heard there first.
// One thread calls it.
class KnownNodes {
 public:
  // Keeps the pointers, which outlive it.
  KnownNodes(const ZmqOptions& options, const ShmLinks* links, const ShmConnections* local,
             ZmqSockets* sockets);

  Identity& identity() { return identity_; }
  const Identity& identity() const { return identity_; }
  RankHolders& holders() { return holders_; }
  const RankHolders& holders() const { return holders_; }

  // As Transport's. True: it has changed who is heard.
  bool SetHolder(wire::Address node, const std::string& key);
  // By which key the node is known, to connect to it; without keys any. Error: FailedPrecondition:
  // no roster has named it.
  absl::StatusOr<security::PublicKey> KeyOf(wire::Address node) const;

  // What is to be said first on a connection that was made to the process with that key, so that
  // the other side takes more than a little (transport/zmq/door.h) and, of a job with keys, knows
  // which process it is; nothing: there is nothing to say. Error: InvalidArgument: that is no key.
  absl::StatusOr<std::optional<Handshake>> FirstNote(const std::string& routing_id,
                                                     const security::PublicKey& key);
  // The first note on a connection to this node, of a job with keys. Error: PermissionDenied: it
  // proves nothing.
  absl::Status TakeProcess(const ZmqSockets::Source& from, const Handshake& note);
  // Who has made the connection may be a member of whom no roster has come yet.
  bool Waits(const std::string& routing_id) const;

  // By which connection something came.
  struct Arrival {
    Way way = Way::kZmq;
    Route route;
    bool answered = false;                // it was made to us; of a link that is known here
    wire::Role role = wire::Role::kNone;  // with keys: whose was shown, where that is not a link
  };
  // Whether its sender may say it that way; its route is known then. Errors: those of
  // Identity::Admit; PermissionDenied: in another's name; ResourceExhausted.
  absl::Status Admit(const wire::Received& received, const Arrival& arrival);
  // In another process's name, or without a proof of one's own.
  uint64_t impostors() const { return impostors_; }

  // How a node that we did not connect to is answered; null: it was not heard. Until the next Take.
  const Route* RouteTo(wire::Address node) const { return routes_.Find(node); }
  // Who was lost with a connection; nothing: nobody was heard on it.
  std::optional<LostNode> LostWith(const Route& route, const std::string& why) const;

 private:
  const security::PublicKey* KeyAt(const Route& route) const;

  Identity identity_;
  RankHolders holders_;
  RouteTable<Route> routes_;
  const ShmLinks* const links_;
  const ShmConnections* const local_;
  ZmqSockets* const sockets_;
  uint64_t impostors_ = 0;
};

}  // namespace soapstone::transport
