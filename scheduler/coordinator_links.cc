// The Coordinator's part in links that are lost between two nodes which both live.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/exit_codes.h"
#include "scheduler/coordinator.h"
#include "scheduler/spoken.h"
#include "wire/membership/chains.h"
#include "wire/membership/membership.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::Message;
using wire::MessageType;
using wire::Notice;
using wire::Outbox;
using wire::Role;

void Coordinator::OnLostLink(Nanos now, const Message& message, const wire::LostLink& lost,
                             Outbox* out) {
  if (!HasBeenTold(lost.other, message.epoch) || !HasBeenTold(message.from, message.epoch)) {
    ++ignored_;  // of a link to the rank's former holder
    return;
  }
  broken_links_.Record(now, message.from, lost);
  AwaitSettling(now, out);
}

// A worker that waits to be let in is named by no roster: nobody has a link to it yet.
bool Coordinator::HasBeenTold(Address node, Epoch epoch) const {
  const Node* holder = nodes_.Find(node);
  if (holder == nullptr || epoch < holder->welcomed) return false;
  if (node.role != Role::kWorker) return true;
  const wire::Member* member = wire::FindMember(roster(), WorkerId{node.index});
  return member != nullptr && epoch >= member->admitted;
}

void Coordinator::AwaitSettling(Nanos now, Outbox* out) const {
  const std::optional<Nanos> due = broken_links_.NextDue(now, options_.link_patience_ns);
  if (due.has_value()) out->SetTimer(kSettle, *due);
}

void Coordinator::SettleLinks(Nanos now, Outbox* out) {
  const auto lives = [&](Address node) {
    return nodes_.HeardWithin(node, now, 3 * options_.heartbeat_ns);
  };
  while (auto verdict = broken_links_.Judge(now, options_.link_patience_ns, lives)) {
    const Notice why = {kExitPeerLost, verdict->line};
    const bool of_server = verdict->out.role == Role::kServer;
    // Rather the one whose shards others have.
    if (of_server && !wire::OnlyOn(roster().chains, ServerId{verdict->out.index}).empty()) {
      std::swap(verdict->out, verdict->other);
    }
    if (of_server && roster().chains.empty()) return End(why, out);
    const WorkerId worker{verdict->out.index};
    news_.Add(absl::StrCat(verdict->line, ": ", Spoken(verdict->out), " is counted out"));
    out->Send(messages_.Notice(verdict->out, MessageType::kShutdown, why));
    if (of_server) {
      nodes_.Remove(verdict->out);
      RemoveServer(now, ServerId{verdict->out.index}, why, out);
      if (ended_.has_value()) return;
      continue;
    }
    RemoveWorker(now, worker, {kExitPeerLost, absl::StrCat(verdict->line, "; no worker is left")},
                 out);
    if (ended_.has_value()) return;
  }
}

}  // namespace soapstone::scheduler
