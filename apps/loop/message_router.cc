#include "apps/loop/message_router.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::apps {

wire::Address MessageRouter::NodeOf(wire::Address to, uint32_t shards_per_server) {
  if (to.role == wire::Role::kPeer) return wire::Address::Of(WorkerId{to.index});
  if (to.role != wire::Role::kShard) return to;
  return wire::Address::Of(wire::ServerOf(ShardId{to.index}, shards_per_server));
}

wire::Address MessageRouter::NodeOf(wire::Address to) const {
  if (to.role != wire::Role::kShard || to.index >= chains_.size()) {
    return NodeOf(to, shards_per_server_);
  }
  return wire::Address::Of(chains_[to.index].links.front().server);
}

bool MessageRouter::TrySend(wire::Address node, const wire::Message& message) {
  const auto alias = aliases_.find(node);
  absl::Status status = transport_->Send(alias != aliases_.end() ? alias->second : node, message);
  if (absl::IsNotFound(status) && alias != aliases_.end()) {
    aliases_.erase(alias);
    status = transport_->Send(node, message);
  }
  if (absl::IsResourceExhausted(status)) return false;
  if (absl::IsInvalidArgument(status)) SayRefused(message, status);
  // No route: the peer is gone, or was never there. Whoever waits for it has a deadline.
  if (!status.ok()) VLOG(1) << "not sent to " << node.ToString() << ": " << status;
  return true;
}

// Not even we ourselves would take it: a bug, and whoever waits for the message waits in vain.
void MessageRouter::SayRefused(const wire::Message& message, const absl::Status& why) {
  if (!refused_.insert(message.type).second) return;
  LOG(ERROR) << "a message that is not valid was not sent, nor will those like it be: "
             << wire::ToString(message) << ": " << why.message();
}

void MessageRouter::Send(wire::Message message) {
  const wire::Address node = NodeOf(message.to);
  if (lost_.contains(node)) return;
  if (!waiting_.contains(node) && TrySend(node, message)) return;
  Enqueue(&waiting_[node], std::move(message));
  if (waiting_bytes_ > waiting_bytes_max_) LoseTheLargest();
}

void MessageRouter::Enqueue(Queue* queue, wire::Message message) {
  const uint64_t bytes = kMessageBytes + message.payload_bytes();
  queue->bytes += bytes;
  waiting_bytes_ += bytes;
  std::deque<wire::Message>& messages = queue->messages;
  const auto less_urgent = std::find_if(
      messages.rbegin(), messages.rend(),
      [&](const wire::Message& waiting) { return waiting.priority <= message.priority; });
  messages.insert(less_urgent.base(), std::move(message));
}

std::optional<MessageRouter::Backlog> MessageRouter::Greatest() const {
  std::optional<Backlog> greatest;
  for (const auto& [node, queue] : waiting_) {
    if (!greatest.has_value() || queue.bytes > greatest->bytes) greatest = {node, queue.bytes};
  }
  return greatest;
}

void MessageRouter::LoseTheLargest() {
  const auto largest = waiting_.find(Greatest()->node);
  if (largest->second.messages.size() == 1) return;
  LOG(WARNING) << largest->first.ToString()
               << " takes no messages: " << largest->second.messages.size() << " of "
               << largest->second.bytes << " bytes wait for it, where " << waiting_bytes_max_
               << " bytes may wait in all";
  waiting_bytes_ -= largest->second.bytes;
  lost_.insert(largest->first);
  to_tell_.push_back(
      {.node = largest->first, .why = "it takes no messages, and too many wait for it"});
  waiting_.erase(largest);
}

void MessageRouter::Retry() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    Queue& queue = it->second;
    while (!queue.messages.empty() && TrySend(it->first, queue.messages.front())) {
      const uint64_t bytes = kMessageBytes + queue.messages.front().payload_bytes();
      queue.bytes -= bytes;
      waiting_bytes_ -= bytes;
      queue.messages.pop_front();
    }
    it = queue.messages.empty() ? waiting_.erase(it) : std::next(it);
  }
}

std::vector<transport::LostNode> MessageRouter::TakeLost() { return std::exchange(to_tell_, {}); }

void MessageRouter::SetAlias(wire::Address node, wire::Address at) {
  wire::Address& known = aliases_[node];
  if (known == at) return;
  known = at;
  Forget(node);
}

void MessageRouter::Follow(const wire::Roster& roster) {
  // Of servers that are counted out nobody waits for anything; those who speak to them have heard.
  for (const wire::Chain& chain : chains_) {
    for (const wire::Link& link : chain.links) {
      const auto listed = [&](const auto& entry) { return entry.server == link.server; };
      if (std::ranges::any_of(roster.servers, listed)) continue;
      Forget(wire::Address::Of(link.server));
      lost_.insert(wire::Address::Of(link.server));
    }
  }
  chains_ = roster.chains;
  for (const wire::ServerEntry& entry : roster.servers) {
    transport_->SetHolder(wire::Address::Of(entry.server), entry.key);
  }
  for (const wire::Member& member : roster.workers) {
    transport_->SetHolder(wire::Address::Of(member.worker), member.key);
    const auto [known, is_first] = admitted_.try_emplace(member.worker, member.admitted);
    if (is_first || known->second == member.admitted) continue;
    known->second = member.admitted;
    Forget(wire::Address::Of(member.worker));
  }
  std::erase_if(admitted_, [&](const auto& known) {
    const bool is_member = std::any_of(roster.workers.begin(), roster.workers.end(),
                                       [&](const auto& m) { return m.worker == known.first; });
    if (!is_member) Forget(wire::Address::Of(known.first));
    return !is_member;
  });
}

void MessageRouter::Forget(wire::Address former) {
  lost_.erase(former);
  endpoints_.erase(former);
  std::erase_if(to_tell_, [&](const transport::LostNode& lost) { return lost.node == former; });
  const auto waits = waiting_.find(former);
  if (waits == waiting_.end()) return;
  waiting_bytes_ -= waits->second.bytes;
  waiting_.erase(waits);
}

void MessageRouter::ConnectTo(wire::Address node, const std::string& endpoint) {
  std::string& known = endpoints_[node];
  if (known == endpoint) return;
  known = endpoint;
  lost_.erase(node);
  const absl::Status status = transport_->Connect(node, endpoint);
  if (!status.ok()) {
    Forget(node);
    lost_.insert(node);
    to_tell_.push_back(
        {.node = node,
         .why = absl::StrCat("cannot connect to ", endpoint, ": ", status.message())});
  }
}

void MessageRouter::ConnectServers(const wire::Roster& roster, uint32_t begin, uint32_t end) {
  for (const wire::ServerEntry& entry : roster.servers) {
    const wire::Address server = wire::Address::Of(entry.server);
    if (server == self_ || Index(entry.server) < begin || Index(entry.server) >= end) continue;
    ConnectTo(server, entry.endpoint);
  }
}

void MessageRouter::ConnectWorkers(const wire::Roster& roster) {
  for (const wire::Member& member : roster.workers) {
    const wire::Address worker = wire::Address::Of(member.worker);
    if (worker == self_ || member.endpoint.empty()) continue;
    ConnectTo(worker, member.endpoint);
  }
}

}  // namespace soapstone::apps
