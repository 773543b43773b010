// Connections of a world that break, and links that are lost: World's part (sim/world.h).
#include <algorithm>
#include <utility>

#include "sim/world.h"

namespace soapstone::sim {

using wire::Address;
using Kind = Choice::Kind;

std::pair<World::NodeIndex, World::NodeIndex> World::PairOf(NodeIndex a, NodeIndex b) {
  return std::minmax(a, b);
}

// A break matters where something is under way; a loss also where nothing is.
void World::AddLinkChoices(std::vector<Choice>* choices) const {
  std::set<std::pair<NodeIndex, NodeIndex>> under_way;
  for (const auto& [ends, messages] : channels_) under_way.insert(PairOf(ends.first, ends.second));
  for (const auto& [a, b] : under_way) {
    if (faults_.breaks > 0) choices->push_back({Kind::kBreak, a, b});
  }
  for (const auto& [ends, kept] : broken_) {
    choices->push_back({Kind::kResume, ends.first, ends.second});
  }
  for (uint32_t shard = 0; shard < factory_->shards() && faults_.losses > 0; ++shard) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      const bool one = CanLose(NodeOfShard(shard), NodeOfSlot(slot));
      if (one) choices->push_back({Kind::kLose, NodeOfShard(shard), NodeOfSlot(slot)});
    }
  }
  if (coordinator_.links_to_settle()) choices->push_back({Kind::kSettle});
}

// The worker is counted out: somebody has to be left.
bool World::CanLose(NodeIndex server, NodeIndex worker) const {
  const uint32_t slot = worker - NodeOfSlot(0);
  return slots_[slot].started && CanSpare(slot) && !lost_.contains(PairOf(server, worker)) &&
         !broken_.contains(PairOf(server, worker)) &&
         coordinator_.phase() == scheduler::Coordinator::Phase::kRunning;
}

void World::Break(NodeIndex a, NodeIndex b) {
  Channels kept;
  for (const auto& ends : {std::pair(a, b), std::pair(b, a)}) {
    const auto channel = channels_.find(ends);
    if (channel == channels_.end()) continue;
    kept.emplace(ends, std::move(channel->second));
    channels_.erase(channel);
  }
  if (mutant_ != WorldMutant::kNoResume) broken_.emplace(PairOf(a, b), std::move(kept));
}

void World::Resume(NodeIndex a, NodeIndex b) {
  Channels kept = std::move(broken_.extract(PairOf(a, b)).mapped());
  for (auto& [ends, messages] : kept) {
    if (!messages.empty()) channels_.emplace(ends, std::move(messages));
  }
}

void World::Lose(NodeIndex server, NodeIndex worker) {
  Slot& slot = slots_[worker - NodeOfSlot(0)];
  members_change_ = true;
  channels_.erase({server, worker});
  channels_.erase({worker, server});
  lost_.insert(PairOf(server, worker));
  if (mutant_ == WorldMutant::kNoLinkLost) return;
  // As the shells do, each at its end (apps/link_losses.h).
  const Address at_server = Address::Of(ServerId{server - NodeOfShard(0)});
  SayLinkLost(at_server, Address::Of(*slot.rank), server_epochs_[server - NodeOfShard(0)]);
  SayLinkLost(Address::Of(*slot.rank), at_server, slot.epoch);
}

// Those that are told to end, though they live.
void World::Expel(const std::vector<wire::Message>& notices) {
  for (const wire::Message& message : notices) {
    if (message.type != wire::MessageType::kShutdown || message.to.role != wire::Role::kWorker) {
      continue;
    }
    Slot& slot = slots_[*SlotOf(WorkerId{message.to.index})];
    slot.expelled = true;
    checkers_.OnWorkerGone(*slot.rank);
  }
}

void World::SayLinkLost(Address from, Address other, Epoch epoch) {
  wire::Message message;
  message.type = wire::MessageType::kLinkLost;
  message.from = from;
  message.to = Address::Scheduler();
  message.epoch = epoch;
  message.body = wire::LostLink{other, "no connection"};
  const NodeIndex node = from.role == wire::Role::kServer
                             ? NodeOfShard(from.index)
                             : NodeOfSlot(*SlotOf(WorkerId{from.index}));
  if (node >= NodeOfSlot(0)) message.session = slots_[node - NodeOfSlot(0)].session;
  std::vector<wire::Message> messages;
  messages.push_back(std::move(message));
  Send(node, std::move(messages));
}

}  // namespace soapstone::sim
