// The Coordinator's part in changes of the workers' shares (scheduler/rebalancer.h).
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/exit_codes.h"
#include "scheduler/coordinator.h"
#include "scheduler/spoken.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::MessageType;
using wire::Outbox;

// Called at each report of a worker, so it must be cheap while nothing changes.
void Coordinator::ConsiderRebalance(Nanos now, Outbox* out) {
  const bool admitting = members_.admission().has_value() || members_.somebody_waits();
  if (phase_ != Phase::kRunning || admitting) return;
  std::optional<Rebalancer::Proposal> proposal = rebalancer_.Propose(roster());
  if (!proposal.has_value()) return;
  wait_began_ = now;
  rebalancer_.Begin(*std::move(proposal), messages_.epoch() + 1);
  members_.SetShareLead(options_.rebalance.lead);
  messages_.Publish(roster(), out);
}

void Coordinator::EndRebalanceIfAgreed(Nanos now, Outbox* out) {
  const std::optional<double> gain = rebalancer_.EndIfAgreed(roster(), members_.mutable_shares());
  if (!gain.has_value()) return;
  members_.SetShareLead(0);
  messages_.Publish(roster(), out);
  const wire::Shares& last = roster().shares.back();
  const auto [low, high] = std::ranges::minmax_element(last.micro_batches);
  news_.Add(absl::StrFormat(
      "re-balanced: %d to %d of %d micro-batches a worker from clock %d, steps %.0f%% shorter",
      *low, *high, options_.rebalance.micro_batch_count, last.from, 100 * *gain / (1 + *gain)));
  AdmitNext(now, out);
}

// Who lives and does not say where it can change its share would keep all others from theirs, and
// newcomers out, for ever.
void Coordinator::CheckRebalance(Nanos now, Outbox* out) {
  if (!rebalancer_.changing() || now - wait_began_ < options_.start_timeout_ns) return;
  for (const WorkerId worker : rebalancer_.Unanswered(roster())) {
    const Address node = Address::Of(worker);
    const std::string line = absl::StrCat(Spoken(node), " has not agreed to new shares for ",
                                          (now - wait_began_) / kSecond, " s: it is counted out");
    news_.Add(line);
    out->Send(messages_.Notice(node, MessageType::kShutdown, {kExitPeerLost, line}));
    RemoveWorker(now, worker, {kExitPeerLost, line}, out);
    if (ended_.has_value()) return;
  }
}

}  // namespace soapstone::scheduler
