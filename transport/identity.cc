#include "transport/identity.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::transport {
namespace {

// Who bends or ends a job may be no other.
bool IsOfTheScheduler(wire::MessageType type) {
  using wire::MessageType;
  switch (type) {
    case MessageType::kWelcome:
    case MessageType::kRefuse:
    case MessageType::kRoster:
    case MessageType::kStart:
    case MessageType::kHeartbeatAck:
    case MessageType::kEvaluate:
    case MessageType::kShutdown:
    case MessageType::kWait:
    case MessageType::kCheckpoint:
    case MessageType::kBound:
    case MessageType::kMayLeave:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<wire::Message> Identity::Stamp(wire::Address node,
                                              const wire::Message& message) const {
  if (self_.role == wire::Role::kNone) {
    return absl::FailedPreconditionError("a transport sends only after SetSelf");
  }
  wire::Message stamped = message;
  if (stamped.from.role == wire::Role::kNone || stamped.from.role == self_.role) {
    stamped.from = self_;
  }
  if (stamped.to.role == wire::Role::kNone) stamped.to = node;
  // Who is refused, or is to wait, is not of the job, and does not learn its session.
  const bool tells =
      stamped.type != wire::MessageType::kRefuse && stamped.type != wire::MessageType::kWait;
  if (stamped.session == 0 && tells) stamped.session = session_;
  SOAP_RETURN_IF_ERROR(wire::ValidateSender(stamped.from, self_));
  SOAP_RETURN_IF_ERROR(wire::Validate(stamped, limits_));
  return stamped;
}

absl::Status Identity::CheckWay(wire::Address sender, const Way& way) const {
  if (way.by_our_connection) return absl::OkStatus();
  const bool expected_on_ours = sender.role == wire::Role::kScheduler ||
                                (way.connected_to_sender && sender.role != self_.role);
  if (!expected_on_ours) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "said to be from ", sender.ToString(), ", to whom we connected, but not by that connection"));
}

absl::Status Identity::CheckKeys(const wire::Received& received, const Way& way) const {
  const wire::Address from = received.message.from;
  const auto said = [&](const char* but) {
    return absl::PermissionDeniedError(
        absl::StrCat("said to be from ", from.ToString(), " at ", received.sender.ToString(), but));
  };
  if (way.role == wire::Role::kNone || received.sender.role != way.role) {
    return said(", with another role's key");
  }
  if (!IsOfHolder(received, way)) return said(", by another process");
  const bool of_shard = from.role == wire::Role::kShard;
  const ServerId server{received.sender.index};
  if (of_shard && !places_.MayBeOn(server, ShardId{from.index})) {
    return said(", which has no such shard");
  }
  return absl::OkStatus();
}

// Who has no rank yet has only to say Hello, and which key is to have one.
bool Identity::IsOfHolder(const wire::Received& received, const Way& way) {
  if (way.key.empty()) return false;
  if (!received.sender.IsTemporary()) return received.sender == way.holder;
  const auto* hello = std::get_if<wire::Hello>(&received.message.body);
  return hello != nullptr && hello->key == way.key;
}

absl::Status Identity::Admit(const wire::Received& received, const Way& way) const {
  const wire::Message& message = received.message;
  SOAP_RETURN_IF_ERROR(CheckWay(received.sender, way));
  if (requires_keys_) SOAP_RETURN_IF_ERROR(CheckKeys(received, way));
  // What a node says to itself stays within it; its parts trust it.
  if (received.sender == self_) return absl::InvalidArgumentError("in this node's own name");
  if (received.sender.role != wire::Role::kScheduler && IsOfTheScheduler(message.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("what only the scheduler may say, from ", received.sender.ToString()));
  }
  if (session_ != 0 && message.session == session_) return absl::OkStatus();
  if (message.type == wire::MessageType::kHello && self_.role == wire::Role::kScheduler) {
    // A rank is taught only with the session: a stranger cannot take a member's route.
    if (received.sender.IsTemporary()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("hello without the session from ", received.sender.ToString()));
  }
  if (session_ == 0 && received.sender.role == wire::Role::kScheduler &&
      (message.type == wire::MessageType::kWelcome || message.type == wire::MessageType::kRefuse ||
       message.type == wire::MessageType::kWait || message.type == wire::MessageType::kShutdown)) {
    return absl::OkStatus();
  }
  // Neither session is printed: logs travel further than what guards the routes should.
  return absl::InvalidArgumentError(
      absl::StrCat("not of our session, from ", received.sender.ToString()));
}

}  // namespace soapstone::transport
