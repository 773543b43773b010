// What shards say to shards: the choice of a round's updates (backup), and a branch and its root (a
// tree of servers).
#include <algorithm>
#include <utility>

#include "server/shard/shard.h"

namespace soapstone::server {

using consistency::Action;
using consistency::ActionKind;
using consistency::Level;
using wire::Address;
using wire::Message;
using wire::MessageType;

wire::Roster Shard::MembersOf(const wire::Roster& roster, Epoch epoch, wire::Outbox* out) {
  if (level_ == Level::kFlat) return roster;
  const wire::Roster before =
      std::exchange(groups_, GroupRoster(workers_, groups_, roster, epoch, options_.policy));
  workers_ = roster;
  if (level_ == Level::kRoot) return groups_;
  const WorkerId group{consistency::GroupOfBranch(options_.id, options_.layout->shard_count())};
  const wire::Member* was = FindMember(before, group);
  const wire::Member* is = FindMember(groups_, group);
  const bool same = was != nullptr && is != nullptr && was->admitted == is->admitted;
  if (is != nullptr && !(same && was->joining == is->joining)) {
    final_fetched_ = false;
    ledger_.Void();
    CarryOut(policy_.OnRestart(is->joining ? 0 : is->start), out);
  }
  return BranchRoster(roster, Index(group), options_.policy);
}

Address Shard::AddressOf(WorkerId worker) const {
  if (level_ != Level::kRoot) return Address::Of(worker);
  return Address::Of(
      consistency::BranchOf(options_.id, Index(worker), options_.layout->shard_count()));
}

// Whether it has a buffer for each slice, of its size.
bool Shard::HasValues(const Message& message) const {
  if (!store_.checks_payload()) return true;
  const std::vector<wire::Slice>& slices = options_.layout->slices(options_.id);
  return std::equal(slices.begin(), slices.end(), message.payload.begin(), message.payload.end(),
                    [](const wire::Slice& slice, const Buffer& buffer) {
                      return buffer.size() == slice.elements() * sizeof(float) &&
                             buffer.IsFloatAligned();
                    });
}

// Values for a round to come; or the last ones, which the branch's workers wait for.
void Shard::OnRoot(Message message, wire::Outbox* out) {
  if (!uplink_.has_value() || message.from != uplink_->root()) {
    ++stats_.rejects;
    return;
  }
  if (!HasValues(message)) {
    ++stats_.rejects;
    return;
  }
  if (message.final) {
    if (!std::exchange(final_fetched_, false)) return;
    store_.Load(std::move(message.payload));
    for (const auto& [worker, pull] : final_pulls_) Reply(pull, out);
    final_pulls_.clear();
    return;
  }
  if (!policy_.fetching() || message.clock != policy_.Frontier()) return;  // a second answer
  store_.Load(std::move(message.payload));
  CarryOut(policy_.OnFetched(message.clock), out);
  Settle(out);
}

// What policies of several shards tell each other.
void Shard::TellShards(const Action& action, wire::Outbox* out) {
  Message message;
  message.from = Address::Of(options_.id);
  message.epoch = epoch_;
  message.clock = action.clock;
  if (action.kind == ActionKind::kTellHeld) {
    message.type = MessageType::kHeld;
    message.to = Address::Of(ShardId{0});
    message.worker = action.worker;
    message.leaves = {Index(action.worker), Index(action.worker) + 1};  // names it in recordings
    out->Send(std::move(message));
    return;
  }
  message.type = MessageType::kChosen;
  message.body = wire::WorkerSet{{policy_.chosen().begin(), policy_.chosen().end()}};
  for (uint32_t k = 1; k < options_.layout->shard_count(); ++k) {
    message.to = Address::Of(ShardId{k});
    out->Send(message);
  }
}

void Shard::OnShard(const Message& message, wire::Outbox* out) {
  const bool held = message.type == MessageType::kHeld;
  const auto* chosen = std::get_if<wire::WorkerSet>(&message.body);
  const bool from_shard =
      message.from.role == wire::Role::kShard &&
      message.from.index < options_.layout->shard_count() &&
      (held ? Index(message.worker) < roster_.worker_count : message.from.index == 0);
  if (!from_shard || (!held && chosen == nullptr)) {
    ++stats_.rejects;
    return;
  }
  CarryOut(held ? policy_.OnHeld(ShardId{message.from.index}, message.worker, message.clock)
                : policy_.OnChosen(message.clock, chosen->workers),
           out);
  Settle(out);
}

// Server 0 asks for bucket after bucket. Of a branch the root has the values.
void Shard::OnSave(const Message& message, wire::Outbox* out) {
  if (message.from != Address::Of(ServerId{0}) || uplink_.has_value() ||
      Index(message.bucket) >= options_.layout->bucket_count(options_.id)) {
    ++stats_.rejects;
    return;
  }
  Message slices;
  slices.type = MessageType::kSlices;
  slices.from = Address::Of(options_.id);
  slices.to = message.from;
  slices.epoch = epoch_;
  slices.bucket = message.bucket;
  Store::Answer answer = store_.ReadToSave(message.bucket);
  slices.payload = std::move(answer.values);
  slices.checksum = answer.checksum;
  out->Send(std::move(slices));
}

}  // namespace soapstone::server
