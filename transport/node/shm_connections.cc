#include "transport/node/shm_connections.h"

#include <utility>

#include "absl/status/status.h"
#include "base/memory/shared_arena.h"
#include "glog/logging.h"
#include "transport/zmq/zap_handler.h"

namespace soapstone::transport {

void ShmConnections::Listen(const std::string& endpoint) {
  absl::Status listening = absl::UnavailableError("the system gives no sealed memory (memfd)");
  if (SharedArena::Enable()) listening = links_->Listen(endpoint);
  LOG_IF(INFO, !listening.ok()) << "no shared memory with other processes of this machine, which "
                                << "are reached at " << endpoint
                                << " as well: " << listening.message();
}

bool ShmConnections::Connect(wire::Address node, const std::string& endpoint,
                             const security::PublicKey& key) {
  Drop(node);
  const LinkEnd listener = {.role = KeyRoleOf(node.role), .key = key};
  const std::optional<LinkId> link = links_->Connect(endpoint, listener);
  if (!link.has_value()) return false;
  connections_[node] = {.link = *link, .endpoint = endpoint};
  opening_ = true;
  return true;
}

void ShmConnections::Drop(wire::Address node) {
  const auto before = connections_.find(node);
  if (before == connections_.end()) return;
  links_->Drop(before->second.link);
  connections_.erase(before);
}

LinkId ShmConnections::LinkTo(wire::Address node) const {
  const auto found = connections_.find(node);
  return found == connections_.end() ? 0 : found->second.link;
}

std::optional<wire::Address> ShmConnections::NodeOf(LinkId link) const {
  for (const auto& [node, connection] : connections_) {
    if (connection.link == link) return node;
  }
  return std::nullopt;
}

bool ShmConnections::IsFull(wire::Address node) const {
  const Connection& connection = connections_.at(node);
  return !connection.opened && connection.untaken.size() >= untaken_max_;
}

void ShmConnections::Sent(wire::Address node, const wire::Message& message) {
  Connection& connection = connections_.at(node);
  if (!connection.opened) connection.untaken.push_back(message);
}

std::vector<ShmConnections::Refused> ShmConnections::Follow() {
  std::vector<Refused> refused;
  opening_ = false;
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection& connection = it->second;
    const ShmLinks::State state = links_->state(connection.link);
    if (state == ShmLinks::State::kOpen) {
      connection.opened = true;
      connection.untaken.clear();
    }
    if (state != ShmLinks::State::kGone || connection.opened) {
      opening_ = opening_ || state == ShmLinks::State::kOpening;
      ++it;
      continue;
    }
    refused.push_back({it->first, std::move(connection.endpoint), std::move(connection.untaken)});
    it = connections_.erase(it);
  }
  return refused;
}

}  // namespace soapstone::transport
