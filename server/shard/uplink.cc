#include "server/shard/uplink.h"

#include <algorithm>
#include <utility>

#include "wire/membership/membership.h"

namespace soapstone::server {

using wire::Address;
using wire::Message;
using wire::MessageType;

Uplink::Uplink(ShardId branch, uint32_t root_shards)
    : self_(Address::Of(branch)),
      root_(Address::Of(consistency::RootOf(branch, root_shards))),
      group_(WorkerId{consistency::GroupOfBranch(branch, root_shards)}) {}

Message Uplink::ToRoot(MessageType type, Epoch epoch, Clock clock) const {
  Message message;
  message.type = type;
  message.from = self_;
  message.to = root_;
  message.epoch = epoch;
  message.worker = group_;
  message.clock = clock;
  return message;
}

void Uplink::Push(Epoch epoch, const Gathered& gathered, const std::vector<Contribution>& parts,
                  Buffers payload, wire::Outbox* out) {
  Message push = ToRoot(MessageType::kPush, epoch, gathered.clock);
  push.bucket = gathered.bucket;
  push.leaves = {parts.front().leaves.begin, parts.back().leaves.end};
  push.leaf_count = gathered.leaf_count;
  push.batch_samples = parts.front().batch_samples;
  for (const Contribution& part : parts) push.samples += part.samples;
  push.payload = std::move(payload);
  ++pushes_;
  out->Send(std::move(push));
}

void Uplink::Complete(Epoch epoch, Clock clock, wire::Outbox* out) {
  Message message = ToRoot(MessageType::kClock, epoch, clock);
  message.pushes = std::exchange(pushes_, 0);
  out->Send(std::move(message));
}

void Uplink::Fetch(Epoch epoch, Clock clock, bool final, wire::Outbox* out) {
  Message pull = ToRoot(MessageType::kPull, epoch, clock);
  pull.final = final;
  out->Send(std::move(pull));
}

wire::Roster GroupRoster(const wire::Roster& before, const wire::Roster& groups_before,
                         const wire::Roster& roster, Epoch epoch,
                         const consistency::PolicyTraits& traits) {
  wire::Roster groups = roster;
  groups.workers = {};
  std::vector<bool> goes_on;
  for (const wire::Member& member : roster.workers) {
    const WorkerId group{consistency::GroupOf(member.worker, traits)};
    if (groups.workers.empty() || groups.workers.back().worker != group) {  // they ascend
      groups.workers.push_back(
          {.worker = group, .start = member.start, .admitted = epoch, .joining = member.joining});
      goes_on.push_back(false);
    }
    wire::Member& entry = groups.workers.Mutable().back();
    if (!member.joining) {
      entry.start = entry.joining ? member.start : std::min(entry.start, member.start);
      entry.joining = false;
    }
    const wire::Member* was = FindMember(before, member.worker);
    goes_on.back() = goes_on.back() || (was != nullptr && was->admitted == member.admitted);
  }
  for (size_t i = 0; i < groups.workers.size(); ++i) {
    const wire::Member* was = FindMember(groups_before, groups.workers[i].worker);
    if (was == nullptr || !goes_on[i]) continue;
    wire::Member& entry = groups.workers.Mutable()[i];
    entry.admitted = was->admitted;
    if (!was->joining) entry = *was;  // whoever comes to it
  }
  return groups;
}

wire::Roster BranchRoster(const wire::Roster& roster, uint32_t group,
                          const consistency::PolicyTraits& traits) {
  wire::Roster own = roster;
  own.workers = {};
  for (const wire::Member& member : roster.workers) {
    if (consistency::GroupOf(member.worker, traits) == group) own.workers.push_back(member);
  }
  return own;
}

}  // namespace soapstone::server
