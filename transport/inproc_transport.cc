#include "transport/inproc_transport.h"

#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "base/steady_clock.h"
#include "transport/identity.h"
#include "transport/rejections.h"
#include "transport/route_table.h"

namespace soapstone::transport {
namespace {

constexpr size_t kNamesMax = 100'000;

}  // namespace

// What waits for one node. Any thread puts, the node's thread takes.
class InprocNetwork::Mailbox {
 public:
  struct Delivery {
    wire::Received received;
    Buffers frames;                 // instead of `received` where messages are encoded
    std::weak_ptr<Mailbox> origin;  // where the sender takes its answers
  };

  explicit Mailbox(size_t items_max) : items_max_(items_max) {}

  absl::Status Put(Delivery delivery) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    if (closed_) return absl::NotFoundError("the peer is not connected");
    if (items_.size() >= items_max_) {
      return absl::ResourceExhaustedError("the peer's send queue is full");
    }
    items_.push_back(std::move(delivery));
    signal_.Notify();
    return absl::OkStatus();
  }

  // The oldest delivery; empty when the deadline passed, after Wake, and once closed.
  std::optional<Delivery> Take(SteadyTime deadline) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    while (items_.empty() && !woken_ && !closed_) {
      if (!signal_.Wait(&mutex_, deadline)) return std::nullopt;
    }
    if (items_.empty()) {
      woken_ = false;
      return std::nullopt;
    }
    Delivery delivery = std::move(items_.front());
    items_.pop_front();
    return delivery;
  }

  void Wake() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    woken_ = true;
    signal_.Notify();
  }

  void Close() ABSL_LOCKS_EXCLUDED(mutex_) {
    std::deque<Delivery> dropped;  // destroyed outside the lock
    MutexLock lock(&mutex_);
    closed_ = true;
    dropped.swap(items_);
    signal_.Notify();
  }

 private:
  const size_t items_max_;
  Mutex mutex_;
  Signal signal_;
  std::deque<Delivery> items_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// Mailboxes by name. One that nobody listens at yet collects what is sent there, as a socket that
// is not connected yet does.
class InprocNetwork::Switchboard {
 public:
  explicit Switchboard(size_t items_max) : items_max_(items_max) {}

  absl::StatusOr<std::shared_ptr<Mailbox>> Claim(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    SOAP_ASSIGN_OR_RETURN(Entry * entry, FindLocked(name));
    if (entry->claimed) {
      return absl::AlreadyExistsError(absl::StrCat("address in use: ", name));
    }
    entry->claimed = true;
    return entry->mailbox;
  }

  absl::StatusOr<std::shared_ptr<Mailbox>> Find(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    SOAP_ASSIGN_OR_RETURN(Entry * entry, FindLocked(name));
    return entry->mailbox;
  }

  // The name is free again; what is sent there waits for the next to claim it.
  void Release(const std::string& name) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    entries_.erase(name);
  }

  std::shared_ptr<Mailbox> Unnamed() const { return std::make_shared<Mailbox>(items_max_); }

 private:
  struct Entry {
    std::shared_ptr<Mailbox> mailbox;
    bool claimed = false;
  };

  absl::StatusOr<Entry*> FindLocked(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (auto it = entries_.find(name); it != entries_.end()) return &it->second;
    if (entries_.size() >= kNamesMax) return absl::ResourceExhaustedError("too many endpoints");
    return &entries_.emplace(name, Entry{Unnamed()}).first->second;
  }

  const size_t items_max_;
  Mutex mutex_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

class InprocNetwork::Node final : public Transport {
 public:
  Node(const InprocOptions& options, std::string name, std::shared_ptr<Switchboard> switchboard,
       std::shared_ptr<Mailbox> mailbox)
      : options_(options),
        name_(std::move(name)),
        switchboard_(std::move(switchboard)),
        mailbox_(std::move(mailbox)),
        identity_(options.frame_limits) {}
  ~Node() override { Close(absl::ZeroDuration()); }

  absl::Status Connect(wire::Address peer, const std::string& endpoint) override;
  void SetSelf(wire::Address self) override { identity_.SetSelf(self); }
  void SetSession(uint64_t session) override { identity_.SetSession(session); }
  absl::Status Send(wire::Address node, const wire::Message& message) override;
  std::optional<wire::Message> Receive(SteadyTime deadline) override;
  void Wake() override { mailbox_->Wake(); }
  void Close(absl::Duration linger) override;
  std::string endpoint() const override { return name_; }
  TransportStats stats() const override {
    TransportStats stats = stats_;
    stats.rejected_messages = rejections_.count();
    return stats;
  }

 private:
  absl::Status SendStamped(wire::Address node, wire::Message message);
  absl::StatusOr<std::shared_ptr<Mailbox>> MailboxOf(wire::Address node) const;
  absl::StatusOr<wire::Message> Accept(Mailbox::Delivery delivery);

  const InprocOptions options_;
  const std::string name_;
  const std::shared_ptr<Switchboard> switchboard_;
  const std::shared_ptr<Mailbox> mailbox_;
  std::map<wire::Address, std::string> connections_;  // endpoint names
  RouteTable<std::weak_ptr<Mailbox>> routes_;
  Identity identity_;
  bool closed_ = false;
  TransportStats stats_;
  Rejections rejections_;
};

absl::Status InprocNetwork::Node::Connect(wire::Address peer, const std::string& endpoint) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  if (!absl::StartsWith(endpoint, "inproc://")) {
    return absl::InvalidArgumentError(absl::StrCat("'", endpoint, "' is not inproc://NAME"));
  }
  connections_[peer] = endpoint;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<InprocNetwork::Mailbox>> InprocNetwork::Node::MailboxOf(
    wire::Address node) const {
  if (const auto it = connections_.find(node); it != connections_.end()) {
    return switchboard_->Find(it->second);
  }
  const std::weak_ptr<Mailbox>* route = routes_.Find(node);
  if (route == nullptr) return absl::NotFoundError("no route");
  std::shared_ptr<Mailbox> mailbox = route->lock();
  if (mailbox == nullptr) return absl::NotFoundError("the peer is not connected");
  return mailbox;
}

absl::Status InprocNetwork::Node::Send(wire::Address node, const wire::Message& message) {
  if (closed_) return absl::FailedPreconditionError("the transport is closed");
  SOAP_ASSIGN_OR_RETURN(wire::Message stamped, identity_.Stamp(node, message));
  absl::Status sent = SendStamped(node, std::move(stamped));
  if (sent.ok()) return sent;
  ++stats_.dropped_messages;
  return absl::Status(sent.code(), absl::StrCat(node.ToString(), ": ", sent.message()));
}

absl::Status InprocNetwork::Node::SendStamped(wire::Address node, wire::Message message) {
  SOAP_ASSIGN_OR_RETURN(const std::shared_ptr<Mailbox> mailbox, MailboxOf(node));
  const wire::MessageType type = message.type;
  const uint64_t payload_bytes = message.payload_bytes();
  uint64_t header_bytes = 0;
  Mailbox::Delivery delivery = {.origin = mailbox_};
  if (options_.encode) {
    delivery.frames.push_back(Buffer::CopyOf(wire::EncodeHeader(message, identity_.self())));
    header_bytes = delivery.frames[0].size();
    delivery.frames.insert(delivery.frames.end(), message.payload.begin(), message.payload.end());
  } else {
    delivery.received = {std::move(message), identity_.self()};
  }
  SOAP_RETURN_IF_ERROR(mailbox->Put(std::move(delivery)));
  ++stats_.sent_messages;
  stats_.sent.AddMessage(type, header_bytes, payload_bytes);
  return absl::OkStatus();
}

std::optional<wire::Message> InprocNetwork::Node::Receive(SteadyTime deadline) {
  while (!closed_) {
    std::optional<Mailbox::Delivery> delivery = mailbox_->Take(deadline);
    if (!delivery.has_value()) return std::nullopt;
    absl::StatusOr<wire::Message> accepted = Accept(*std::move(delivery));
    if (accepted.ok()) return *std::move(accepted);
    rejections_.Add(accepted.status(), SteadyNow());
    if (SteadyNow() >= deadline) return std::nullopt;
  }
  return std::nullopt;
}

absl::StatusOr<wire::Message> InprocNetwork::Node::Accept(Mailbox::Delivery delivery) {
  uint64_t header_bytes = 0;
  if (options_.encode) {
    header_bytes = delivery.frames[0].size();
    SOAP_ASSIGN_OR_RETURN(delivery.received, wire::Decode(delivery.frames, options_.frame_limits));
  }
  wire::Received& received = delivery.received;
  // Nobody in a process speaks in another's name.
  SOAP_RETURN_IF_ERROR(
      identity_.Admit(received, {.by_our_connection = connections_.contains(received.sender)}));
  if (!routes_.Learn(received.sender, delivery.origin, received.message.epoch)) {
    return absl::ResourceExhaustedError(
        "no room for another route, or of a former holder of the rank");
  }
  ++stats_.received_messages;
  stats_.received.AddMessage(received.message.type, header_bytes, received.message.payload_bytes());
  return std::move(received.message);
}

void InprocNetwork::Node::Close(absl::Duration /*linger*/) {
  // Nothing lingers: what was sent is in the receiver's mailbox already.
  if (closed_) return;
  closed_ = true;
  if (!name_.empty()) switchboard_->Release(name_);
  mailbox_->Close();
}

InprocNetwork::InprocNetwork(const InprocOptions& options)
    : options_(options), switchboard_(std::make_shared<Switchboard>(options.queue_messages_max)) {}

absl::StatusOr<std::unique_ptr<Transport>> InprocNetwork::Join(const std::string& name) {
  std::shared_ptr<Mailbox> mailbox = switchboard_->Unnamed();
  if (!name.empty()) {
    if (!absl::StartsWith(name, "inproc://")) {
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not inproc://NAME"));
    }
    SOAP_ASSIGN_OR_RETURN(mailbox, switchboard_->Claim(name));
  }
  return std::make_unique<Node>(options_, name, switchboard_, std::move(mailbox));
}

}  // namespace soapstone::transport
