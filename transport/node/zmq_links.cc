#include "transport/node/zmq_links.h"

#include <zmq.h>

#include <algorithm>

#include "base/status_macros.h"
#include "glog/logging.h"

namespace soapstone::transport {
namespace {

constexpr int kNotesInARow = 64;                                 // to a look at deadlines
constexpr absl::Duration kBrokenEvery = absl::Milliseconds(50);  // to a look at connections
constexpr absl::Duration kDueWait = absl::Milliseconds(10);      // something is due on a session
constexpr absl::Duration kIdleWait = absl::Milliseconds(200);    // else

}  // namespace

ZmqLinks::ZmqLinks(const ZmqSocketOptions& sockets, const DoorLimits& door,
                   const NumberedOptions& sessions, size_t frames_max, Rejections* rejections)
    : frames_max_(frames_max),
      rejections_(rejections),
      sockets_(sockets, door),
      numbered_(
          sessions,
          [this](const std::string& peer, bool ours, std::string_view first,
                 absl::Span<const Buffer> rest,
                 bool again) { return Put(peer, ours, first, rest, again); },
          [this](const std::string& peer) { return sockets_.Redial(peer); },
          [this](const std::string& peer, bool ours) { return sockets_.MovedOn(peer, ours); }) {}

absl::Status ZmqLinks::Connect(wire::Address node, const std::string& endpoint,
                               const security::PublicKey& key) {
  return sockets_.Connect(node, endpoint, key);
}

void ZmqLinks::Disconnect(wire::Address node) {
  numbered_.Drop(sockets_.Find(node)->routing_id);
  sockets_.Disconnect(node);
}

absl::Status ZmqLinks::Send(const std::string& peer, bool ours, std::string_view first,
                            absl::Span<const Buffer> rest) {
  return numbered_.Send(peer, ours, first, rest, SteadyNow());
}

// Frames of a message, of a note on streams, or of the sessions themselves.
absl::Status ZmqLinks::Put(const std::string& peer, bool ours, std::string_view first,
                           absl::Span<const Buffer> rest, bool again) {
  ZmqSockets::Connection* connection = ours ? sockets_.FindByRoutingId(peer) : nullptr;
  if (ours && connection == nullptr) return absl::NotFoundError("no such connection");
  SOAP_RETURN_IF_ERROR(ours ? sockets_.SendTo(connection, first, rest)
                            : sockets_.Answer(peer, first, rest));
  uint64_t bytes = ZmtpFramingOf(first.size(), rest);
  bytes += again ? first.size() : NumberedLinks::kTrailerBytes;
  for (size_t i = 0; again && i < rest.size(); ++i) bytes += rest[i].size();
  framing_sent_ += bytes;
  return absl::OkStatus();
}

ZmqLinks::Came ZmqLinks::Receive(Buffers* frames, ZmqSockets::Source* from) {
  for (int notes = 0; sockets_.Receive(frames_max_, frames, from);) {
    if (from->answered && frames->size() == 1 && frames->front().size() == 0) {
      // Nobody else knows the routing id: a connection that was made again is the peer's.
      if (numbered_.IsProven(from->routing_id)) sockets_.Knocked(*from);
      return Came::kOther;
    }
    switch (numbered_.Receive(from->routing_id, !from->answered, frames, SteadyNow())) {
      case NumberedLinks::Came::kMessage:
        return Came::kMessage;
      case NumberedLinks::Came::kForeign:
        rejections_->Add(absl::InvalidArgumentError("no message of a session"), SteadyNow());
        return Came::kOther;
      case NumberedLinks::Came::kOther:
        // Nobody else knows the routing id: a connection that was made again is the peer's.
        if (numbered_.IsProven(from->routing_id)) Watch(*from);
        if (++notes >= kNotesInARow) return Came::kOther;
        break;
    }
  }
  return Came::kNothing;
}

void ZmqLinks::Tend(SteadyTime now) {
  if (now >= look_for_broken_at_) {
    look_for_broken_at_ = now + kBrokenEvery;
    for (const std::string& peer : sockets_.Broken()) numbered_.Broke(peer, now);
    sockets_.TendRetired(now);
  }
  numbered_.Tend(now);
}

absl::Duration ZmqLinks::longest_sleep() const {
  if (numbered_.waiting() || sockets_.has_retired()) return kDueWait;
  return numbered_.size() > 0 ? kIdleWait : absl::InfiniteDuration();
}

// What ZeroMQ has taken over may be lost with a connection: until the others have it in hand.
void ZmqLinks::Close(SteadyTime deadline, SocketCounts* counts) {
  numbered_.AskAll(SteadyNow());
  std::vector<zmq_pollitem_t> items;
  Buffers frames;
  for (ZmqSockets::Source from;;) {
    while (Receive(&frames, &from) != Came::kNothing && SteadyNow() < deadline) {
    }
    Tend(SteadyNow());
    if (numbered_.all_acknowledged() || SteadyNow() >= deadline) break;
    items.clear();
    sockets_.AddPollItems(&items);
    zmq_poll(items.data(), static_cast<int>(items.size()), 1);
  }
  numbered_.SayBye();
  sockets_.Close(std::max(deadline - SteadyNow(), absl::ZeroDuration()), counts);
}

}  // namespace soapstone::transport
