// The Coordinator's part in servers that are lost, or leave, while it runs.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "scheduler/coordinator.h"
#include "scheduler/spoken.h"
#include "wire/membership/chains.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {
namespace {

using wire::Address;
using wire::MessageType;
using wire::Notice;
using wire::Outbox;

// "shards 2, 3 go on at server 0; no replica is left of shards 2, 3": what changes hands by a
// server's loss, and what is kept once from now on.
std::string TextOfChange(const wire::Roster& before, const wire::Roster& after) {
  std::vector<std::string> moved, single;
  for (uint32_t k = 0; k < after.chains.size(); ++k) {
    const ServerId head = wire::HeadOf(after, ShardId{k});
    if (head != wire::HeadOf(before, ShardId{k})) {
      moved.push_back(absl::StrCat("shard ", k, " goes on at server ", Index(head)));
    }
    const size_t were = before.chains[k].links.size();
    if (after.chains[k].links.size() == 1 && were > 1) single.push_back(absl::StrCat(k));
  }
  std::string text = absl::StrJoin(moved, ", ");
  if (single.empty()) return text;
  return absl::StrCat(text, text.empty() ? "" : "; ", single.size() == 1 ? "shard " : "shards ",
                      absl::StrJoin(single, ", "), single.size() == 1 ? " has" : " have",
                      " no other replica now");
}

}  // namespace

Address Coordinator::Saver() const {
  const auto& servers = roster().servers;
  return Address::Of(servers.empty() ? ServerId{0} : servers.front().server);
}

void Coordinator::RemoveServer(Nanos now, ServerId server, Notice why, Outbox* out) {
  const wire::Roster before = roster();
  if (!members_.RemoveServer(server, messages_.epoch() + 1)) return End(std::move(why), out);
  reports_.Forget(server);
  broken_links_.Forget(Address::Of(server));
  news_.Add(TextOfChange(before, roster()));
  messages_.Publish(roster(), out);
  // What was gathered of shards that have moved is not known to be all.
  if (phase_ == Phase::kSaving) BeginSaving(now, out);
}

bool Coordinator::OnServerLeaves(Nanos now, Address node, Outbox* out) {
  const ServerId server{node.index};
  if (ended_.has_value() || nodes_.Find(node) == nullptr || phase_ == Phase::kRegistering ||
      roster().chains.empty() || !wire::OnlyOn(roster().chains, server).empty()) {
    return false;
  }
  news_.Add(absl::StrCat(Spoken(node), " leaves"));
  out->Send(messages_.Notice(node, MessageType::kShutdown, {kExitTerminated, "left"}));
  nodes_.Remove(node);
  RemoveServer(now, server, {kExitPeerLost, "left"}, out);
  return true;
}

}  // namespace soapstone::scheduler
