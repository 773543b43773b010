#include "apps/mailer.h"

#include <glog/logging.h>

#include <algorithm>
#include <utility>

namespace soapstone::apps {

wire::Address Mailer::NodeOf(wire::Address to, uint32_t shards_per_server) {
  if (to.role == wire::Role::kPeer) return wire::Address::Of(WorkerId{to.index});
  if (to.role != wire::Role::kShard) return to;
  return wire::Address::Of(wire::ServerOf(ShardId{to.index}, shards_per_server));
}

bool Mailer::TrySend(wire::Address node, const wire::Message& message) {
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
void Mailer::SayRefused(const wire::Message& message, const absl::Status& why) {
  if (!refused_.insert(message.type).second) return;
  LOG(ERROR) << "a message that is not valid was not sent, nor will those like it be: "
             << wire::ToString(message) << ": " << why.message();
}

void Mailer::Send(wire::Message message) {
  const wire::Address node = NodeOf(message.to);
  if (lost_.contains(node)) return;
  const auto it = waiting_.find(node);
  if (it == waiting_.end()) {
    if (!TrySend(node, message)) waiting_[node].push_back(std::move(message));
    return;
  }
  std::deque<wire::Message>& queue = it->second;
  if (queue.size() < waiting_max_) {
    const auto less_urgent = std::find_if(
        queue.rbegin(), queue.rend(),
        [&](const wire::Message& waiting) { return waiting.priority <= message.priority; });
    queue.insert(less_urgent.base(), std::move(message));
    return;
  }
  LOG(WARNING) << node.ToString() << " takes no messages: " << waiting_max_ << " wait for it";
  waiting_.erase(it);
  lost_[node] = false;
}

void Mailer::Retry() {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    std::deque<wire::Message>& queue = it->second;
    while (!queue.empty() && TrySend(it->first, queue.front())) queue.pop_front();
    it = queue.empty() ? waiting_.erase(it) : std::next(it);
  }
}

std::vector<wire::Address> Mailer::TakeLost() {
  std::vector<wire::Address> fresh;
  for (auto& [node, told] : lost_) {
    if (!told) fresh.push_back(node);
    told = true;
  }
  return fresh;
}

void Mailer::ConnectTo(wire::Address node, const std::string& endpoint) {
  std::string& known = endpoints_[node];
  if (known == endpoint) return;
  known = endpoint;
  lost_.erase(node);
  const absl::Status status = transport_->Connect(node, endpoint);
  if (!status.ok()) {
    LOG(ERROR) << "cannot connect to " << node.ToString() << " at " << endpoint << ": "
               << status.message();
  }
}

void Mailer::ConnectServers(const wire::Roster& roster, uint32_t begin, uint32_t end) {
  for (const wire::ServerEntry& entry : roster.servers) {
    const wire::Address server = wire::Address::Of(entry.server);
    if (server == self_ || Index(entry.server) < begin || Index(entry.server) >= end) continue;
    ConnectTo(server, entry.endpoint);
  }
}

void Mailer::ConnectWorkers(const wire::Roster& roster) {
  for (const wire::Member& member : roster.workers) {
    const wire::Address worker = wire::Address::Of(member.worker);
    if (worker == self_ || member.endpoint.empty()) continue;
    ConnectTo(worker, member.endpoint);
  }
}

}  // namespace soapstone::apps
