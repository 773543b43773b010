// ShmConnections: the nodes that a node has connected to through shared memory. Who listens at an
// endpoint need not take a link; so what is sent before it is taken is kept, and where it never is,
// the endpoint is to be connected to instead, and gets that. Who calls: NodeTransport.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/shm/shm_links.h"
#include "wire/message.h"

namespace soapstone::transport {

// Invariants
//  1. Of a link that is not taken at most untaken_max messages are kept.
//  2. A node has one link at most; a later Connect takes the place of an earlier.
//  3. opening() while the links of some are not taken.
// One thread calls it.
class ShmConnections {
 public:
  // Keeps the pointer, which outlives it.
  ShmConnections(ShmLinks* links, size_t untaken_max) : links_(links), untaken_max_(untaken_max) {}

  // Takes links of who connects to `endpoint`, where the system lets it; else says that it does
  // not.
  void Listen(const std::string& endpoint);
  // False: nobody of this machine takes links there. `key`: with keys, of the node's process.
  bool Connect(wire::Address node, const std::string& endpoint, const security::PublicKey& key);
  // Forgets the link to the node, if there is one.
  void Drop(wire::Address node);
  bool opening() const { return opening_; }

  // 0: it is not connected to in this way.
  LinkId LinkTo(wire::Address node) const;
  std::optional<wire::Address> NodeOf(LinkId link) const;
  // The link to the node was not taken yet, and no more can be kept for it.
  bool IsFull(wire::Address node) const;
  // The message was sent by the link to the node.
  void Sent(wire::Address node, const wire::Message& message);

  // Who has not taken the link, and what was sent to it in vain.
  struct Refused {
    wire::Address node;
    std::string endpoint;
    std::vector<wire::Message> untaken;
  };
  // Looks which links have been taken; forgets those that were refused, and returns them. Call it
  // after ShmLinks::Progress, while opening().
  std::vector<Refused> Follow();

 private:
  struct Connection {
    LinkId link = 0;
    std::string endpoint;
    bool opened = false;
    std::vector<wire::Message> untaken;
  };

  ShmLinks* const links_;
  const size_t untaken_max_;
  std::map<wire::Address, Connection> connections_;
  bool opening_ = false;
};

}  // namespace soapstone::transport
