#include "server/replica/replica.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "wire/frame.h"

namespace soapstone::server {
namespace {

using wire::Address;
using wire::Message;
using wire::MessageType;

// A message as the payload of a record, and back.
Buffers AsPayload(const Message& message, ServerId self) {
  const bool of_node = message.from.role != wire::Role::kShard;
  const Address sender = of_node ? message.from : Address::Of(self);
  Buffers payload = {Buffer::CopyOf(wire::EncodeHeader(message, sender))};
  payload.insert(payload.end(), message.payload.begin(), message.payload.end());
  return payload;
}

absl::StatusOr<Message> FromPayload(const Buffers& payload) {
  absl::StatusOr<wire::Received> received = wire::Decode(payload);
  if (!received.ok()) return received.status();
  return std::move(received->message);
}

// Of many, nobody waits for an answer: the last of the chain says nothing of it, unless asked to.
bool IsSilent(const Message& message) { return message.type == MessageType::kPush; }

}  // namespace

void Replica::OnMessage(Nanos now, Message message, wire::Outbox* out, ReplicaWatcher* watcher) {
  if (!options_.chained) return shard_.OnMessage(now, std::move(message), out);
  watcher_ = watcher;
  if (failure_.has_value()) return;
  switch (message.type) {
    case MessageType::kRoster:
      return OnRoster(now, std::move(message), out);
    case MessageType::kRecord:
      return OnRecord(std::move(message), out);
    case MessageType::kRecorded:
      return OnRecorded(message, out);
    default:
      break;
  }
  // Who is to save the model is the roster's word as well.
  const bool ahead = message.type == MessageType::kSave && message.epoch > epoch_;
  if (at_.place == Place::kHead && !ahead) return Take(now, std::move(message), out);
  // Who has heard before this server that it is the head. Of a former roster: its sender has said
  // it to the head as well, or will say it again.
  if (message.epoch > epoch_) KeepEarly(std::move(message));
}

void Replica::KeepEarly(Message message) {
  if (options_.fault == ReplicaFault::kEarlyDropped) return;
  early_.bytes += sizeof(Message) + message.payload_bytes();
  early_.messages.push_back(std::move(message));
  if (early_.bytes <= options_.early_bytes_max) return;
  failure_ = absl::StrCat("a replica of shard ", Index(shard_.id()), " has ", early_.bytes >> 20,
                          " MiB of messages that are of a roster to come");
}

// ---- Who is where

void Replica::OnRoster(Nanos now, Message message, wire::Outbox* out) {
  const auto* roster = std::get_if<wire::Roster>(&message.body);
  const uint32_t shard = Index(shard_.id());
  if (roster == nullptr || message.from != Address::Scheduler() || message.epoch <= epoch_ ||
      shard >= roster->chains.size()) {
    return;
  }
  epoch_ = message.epoch;
  at_.chain = roster->chains[shard];
  const std::vector<wire::Link>& links = at_.chain.links;
  const auto own = std::ranges::find(links, options_.self, &wire::Link::server);
  if (own == links.end()) {  // it was counted out
    at_.place = Place::kOut;
    log_ = {};
    held_.clear();
    early_ = {};
    return;
  }
  const bool was_head = at_.place == Place::kHead;
  at_.place = own == links.begin() ? Place::kHead : Place::kFollower;
  at_.own = *own;
  at_.before.reset();
  if (at_.place == Place::kFollower) at_.before = std::prev(own)->server;
  if (at_.place == Place::kHead && !was_head) times_.offset = std::max<Nanos>(0, times_.last - now);
  const auto next = std::next(own);
  const auto was_next = std::exchange(
      at_.next, next != links.end() ? std::optional<wire::Link>(*next) : std::nullopt);
  if (at_.next.has_value() && at_.next != was_next &&
      options_.fault != ReplicaFault::kNotSaidAgain) {
    for (const Entry& entry : log_.entries) SendRecord(entry, out);
  }
  if (!at_.next.has_value()) {
    acked_ = index_;
    Release(out);
    if (at_.place == Place::kFollower && index_ > 0) SendRecorded(out);
  }
  if (at_.place == Place::kHead) {
    message.to = Address::Of(shard_.id());
    if (options_.fault == ReplicaFault::kRosterUnlogged) {
      shard_.OnMessage(now, std::move(message), out);
    } else {
      Take(now, std::move(message), out);
    }
  }
  early_.bytes = 0;
  for (Message& early : std::exchange(early_.messages, {}))
    OnMessage(now, std::move(early), out, watcher_);
}

// ---- Records

void Replica::Take(Nanos now, Message message, wire::Outbox* out) {
  times_.last = std::max(times_.last, now + times_.offset);
  ++index_;
  const bool alone = !at_.next.has_value();
  if (!alone) Keep(times_.last, message, out);
  const bool silent = IsSilent(message);
  held_.push_back({index_, Feed(std::move(message))});
  if (held_.back().said.empty()) held_.pop_back();
  if (alone) acked_ = index_;
  if (held_.empty() || held_.back().index < index_) return;
  if (silent && !alone) AskForWord(out);
  if (alone || options_.fault == ReplicaFault::kSaidBeforeAck) {
    for (Message& message_said : held_.back().said) out->Send(std::move(message_said));
    held_.pop_back();
    return;
  }
  if (options_.fault == ReplicaFault::kAloneUnasked && log_.entries.size() > 2) {
    acked_ = index_;
    Release(out);
  }
}

// Of a push that has let others' answers go.
void Replica::AskForWord(wire::Outbox* out) const {
  SendRecord({.index = index_, .now = times_.last}, out);
  out->messages.back().payload.clear();
}

void Replica::Keep(Nanos now, const Message& message, wire::Outbox* out) {
  log_.entries.push_back({.index = index_, .now = now, .message = message});
  log_.bytes += message.payload_bytes();
  SendRecord(log_.entries.back(), out);
}

void Replica::OnRecord(Message message, wire::Outbox* out) {
  const auto& record = wire::As<wire::Record>(message);
  if (message.from.role != wire::Role::kServer) return;
  if (record.since > at_.own.since) return KeepEarly(std::move(message));
  const bool by_link = at_.place == Place::kFollower && record.since == at_.own.since &&
                       at_.before.has_value() && message.from == Address::Of(*at_.before);
  if (!by_link) return;
  acked_ = std::max(acked_, std::min(record.acked, index_));
  if (record.index > index_ + 1) {
    failure_ = absl::StrCat("shard ", Index(shard_.id()), ": record ", record.index, " of ",
                            message.from.ToString(), " comes where ", index_ + 1, " is next");
    return;
  }
  const bool again = record.index <= index_;
  const bool silent = !again && Repeat(record, message.payload, out);
  if (failure_.has_value()) return;
  if (!at_.next.has_value()) {
    if (!silent) SendRecorded(out);
    return;
  }
  if (again) AskForWord(out);
  Release(out);
}

bool Replica::Repeat(const wire::Record& record, const Buffers& payload, wire::Outbox* out) {
  absl::StatusOr<Message> taken = FromPayload(payload);
  if (!taken.ok()) {
    failure_ = absl::StrCat("shard ", Index(shard_.id()), ": record ", record.index, " of server ",
                            Index(*at_.before), " is no message: ", taken.status().message());
    return false;
  }
  ++index_;
  times_.last = std::max<Nanos>(times_.last, record.now_ns);
  if (at_.next.has_value()) Keep(times_.last, *taken, out);
  const bool silent = IsSilent(*taken);
  Feed(*std::move(taken));  // the head says what the shard does
  return silent;
}

// A shard sets no timers.
std::vector<Message> Replica::Feed(Message message) {
  wire::Outbox said;
  if (watcher_ == nullptr) {
    shard_.OnMessage(times_.last, std::move(message), &said);
  } else {
    shard_.OnMessage(times_.last, message, &said);
    watcher_->OnRecord(shard_, index_, message, said.messages);
  }
  return std::move(said.messages);
}

void Replica::OnRecorded(const Message& message, wire::Outbox* out) {
  const auto& recorded = wire::As<wire::Recorded>(message);
  // Of who was the last when it said so; the head may hear of that roster after its word.
  const bool of_chain = std::ranges::any_of(at_.chain.links, [&](const wire::Link& link) {
    return message.from == Address::Of(link.server);
  });
  if (at_.place == Place::kOut || !of_chain) return;
  acked_ = std::max(acked_, std::min(recorded.index, index_));
  Release(out);
}

void Replica::Release(wire::Outbox* out) {
  while (!held_.empty() && held_.front().index <= acked_) {
    for (Message& message : held_.front().said) out->Send(std::move(message));
    held_.pop_front();
  }
  while (!log_.entries.empty() && (log_.entries.front().index <= acked_ || !at_.next.has_value())) {
    log_.bytes -= log_.entries.front().message.payload_bytes();
    log_.entries.pop_front();
  }
}

Message Replica::To(ServerId server, MessageType type) const {
  Message message;
  message.type = type;
  message.from = Address::Of(options_.self);
  message.to = Address::Of(server);
  message.epoch = epoch_;
  return message;
}

void Replica::SendRecord(const Entry& entry, wire::Outbox* out) const {
  Message message = To(at_.next->server, MessageType::kRecord);
  message.body = wire::Record{.shard = Index(shard_.id()),
                              .since = at_.next->since,
                              .index = entry.index,
                              .acked = acked_,
                              .now_ns = entry.now};
  message.payload = AsPayload(entry.message, options_.self);
  out->Send(std::move(message));
}

void Replica::SendRecorded(wire::Outbox* out) const {
  Message message = To(at_.chain.links.front().server, MessageType::kRecorded);
  message.body = wire::Recorded{.shard = Index(shard_.id()), .index = index_};
  out->Send(std::move(message));
}

void Replica::AddTo(Fingerprint* f) const {
  shard_.AddTo(f);
  if (!options_.chained) return;
  f->Add(epoch_);
  f->Add(at_.place);
  f->Add(index_);
  f->Add(acked_);
  f->Add(log_.entries.size());
  for (const Entry& entry : log_.entries) entry.message.AddTo(f);
  f->Add(held_.size());
  for (const Held& held : held_) {
    f->Add(held.index);
    for (const Message& message : held.said) message.AddTo(f);
  }
  f->Add(early_.messages.size());
  for (const Message& message : early_.messages) message.AddTo(f);
  f->Add(failure_.has_value());
}

}  // namespace soapstone::server
