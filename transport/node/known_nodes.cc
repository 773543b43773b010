#include "transport/node/known_nodes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::transport {
namespace {

std::string_view ViewOf(const security::PublicKey* key) {
  if (key == nullptr) return {};
  return {reinterpret_cast<const char*>(key->data()), key->size()};
}

}  // namespace

KnownNodes::KnownNodes(const ZmqOptions& options, const ShmLinks* links,
                       const ShmConnections* local, ZmqSockets* sockets)
    : identity_(options.frame_limits, options.places),
      holders_(options.keys),
      routes_(options.route_limits),
      links_(links),
      local_(local),
      sockets_(sockets) {
  if (options.keys != nullptr) identity_.RequireKeys();
}

bool KnownNodes::SetHolder(wire::Address node, const std::string& key) {
  if (!holders_.Set(node, key)) return false;
  // What is said to the rank is not for its former holder.
  const Route* route = routes_.Find(node);
  const security::PublicKey* before = route != nullptr ? KeyAt(*route) : nullptr;
  if (before != nullptr && holders_.HolderOf(*before) != node) routes_.Forget(node);
  return true;
}

absl::StatusOr<security::PublicKey> KnownNodes::KeyOf(wire::Address node) const {
  if (!holders_.asked()) return security::PublicKey{};
  const std::optional<security::PublicKey> key = holders_.KeyOf(node);
  if (key.has_value()) return *key;
  return absl::FailedPreconditionError(
      absl::StrCat("no roster says which process is ", node.ToString()));
}

absl::StatusOr<std::optional<Handshake>> KnownNodes::FirstNote(const std::string& routing_id,
                                                               const security::PublicKey& key) {
  Handshake note = {.word = Handshake::Word::kHere, .session = identity_.session()};
  if (holders_.asked()) {
    holders_.Bind(routing_id, key);
    SOAP_RETURN_IF_ERROR(holders_.Introduce(routing_id, key, &note));
  } else if (note.session == 0) {
    return std::nullopt;
  }
  return note;
}

absl::Status KnownNodes::TakeProcess(const ZmqSockets::Source& from, const Handshake& note) {
  if (from.answered && holders_.Prove(from.routing_id, note.key, note.token)) {
    return absl::OkStatus();
  }
  ++impostors_;
  return absl::PermissionDeniedError("said to be another process than it is");
}

bool KnownNodes::Waits(const std::string& routing_id) const {
  const security::PublicKey* key = holders_.KeyAt(routing_id);
  return key != nullptr && holders_.IsAwaited(*key);
}

const security::PublicKey* KnownNodes::KeyAt(const Route& route) const {
  if (route.link == 0) return holders_.KeyAt(route.routing_id);
  const LinkEnd* end = links_->Proven(route.link);
  return end != nullptr ? &end->key : nullptr;
}

absl::Status KnownNodes::Admit(const wire::Received& received, const Arrival& arrival) {
  const wire::Address sender = received.sender;
  const LinkId link = local_->LinkTo(sender);
  const bool linked = link != 0;
  // What peers say on a link they made is told from what is answered on ours by the link.
  const bool of_link = arrival.way == Way::kLink;
  const bool ours = of_link ? linked && link == arrival.route.link : !arrival.answered;
  Identity::Way way = {
      .by_our_connection = ours,
      .connected_to_sender = !ours && (linked || sockets_->Find(sender) != nullptr),
      .role = arrival.role};
  const security::PublicKey* key = nullptr;
  if (holders_.asked()) {
    key = KeyAt(arrival.route);
    way.key = ViewOf(key);
    if (key != nullptr) way.holder = holders_.HolderOf(*key);
    if (of_link && key != nullptr) way.role = RoleOf(links_->Proven(arrival.route.link)->role);
  }
  const absl::Status admitted = identity_.Admit(received, way);
  if (absl::IsPermissionDenied(admitted)) ++impostors_;
  SOAP_RETURN_IF_ERROR(admitted);
  if (ours || linked) return absl::OkStatus();
  if (key != nullptr && sender.IsTemporary()) {
    const Route* known = routes_.Find(sender);
    const security::PublicKey* first = known != nullptr ? KeyAt(*known) : nullptr;
    if (first != nullptr && *first != *key) {
      ++impostors_;
      return absl::PermissionDeniedError("another process has that temporary address");
    }
  }
  if (!routes_.Learn(sender, arrival.route, received.message.epoch)) {
    return absl::ResourceExhaustedError(
        "no room for another route, or of a former holder of the rank");
  }
  return absl::OkStatus();
}

std::optional<LostNode> KnownNodes::LostWith(const Route& route, const std::string& why) const {
  const auto node =
      route.link != 0 ? local_->NodeOf(route.link) : sockets_->PeerOf(route.routing_id);
  if (node.has_value()) return LostNode{*node, why};
  const auto known = routes_.NodeWhere([&](const Route& r) { return r == route; });
  if (!known.has_value()) return std::nullopt;
  return LostNode{known->first, why, known->second};
}

}  // namespace soapstone::transport
