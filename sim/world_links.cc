// Connections of a world that break, and links that are lost: World's part (sim/world.h).
#include <algorithm>
#include <utility>

#include "sim/world.h"

namespace soapstone::sim {

using wire::Address;
using Kind = Choice::Kind;

constexpr Nanos kSettled = 5 * kSecond / 4;  // beyond CoordinatorOptions::link_patience_ns

// A break matters where something is under way; a loss also where nothing is.
void World::AddLinkChoices(std::vector<Choice>* choices) const {
  for (const auto& [a, b] : connections_.InUse()) {
    if (faults_.breaks > 0) choices->push_back({Kind::kBreak, a, b});
  }
  for (const auto& [a, b] : connections_.Broken()) choices->push_back({Kind::kResume, a, b});
  // Links that there are: of workers and shards, or of workers.
  const bool peers = factory_->policy().decentralised();
  const NodeIndex first = peers ? NodeOfSlot(0) : NodeOfServer(0);
  const NodeIndex end = peers ? NodeOfSlot(static_cast<uint32_t>(slots_.size())) : NodeOfSlot(0);
  for (NodeIndex a = first; a < end && faults_.losses > 0; ++a) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (CanLose(a, NodeOfSlot(slot))) choices->push_back({Kind::kLose, a, NodeOfSlot(slot)});
    }
  }
  for (uint32_t i = 0; i < slots_.size() && faults_.late_words > 0; ++i) {
    if (!slots_[i].crashed || !slots_[i].noticed || !slots_[i].rank.has_value()) continue;
    for (NodeIndex at = kScheduler; at < NodeOfSlot(0); ++at) {
      choices->push_back({Kind::kLateWord, i, at});
    }
  }
  if (coordinator_.links_to_settle()) choices->push_back({Kind::kSettle});
}

// A worker is counted out: somebody has to be left.
bool World::CanLose(NodeIndex a, NodeIndex b) const {
  const auto can_spare = [this](NodeIndex node) {
    const uint32_t slot = node - NodeOfSlot(0);
    return node < NodeOfSlot(0) || (slots_[slot].started && CanSpare(slot));
  };
  return a < b && can_spare(a) && can_spare(b) && !connections_.IsLost(a, b) &&
         !connections_.IsBroken(a, b) &&
         coordinator_.phase() == scheduler::Coordinator::Phase::kRunning;
}

void World::Lose(NodeIndex a, NodeIndex b) {
  members_change_ = true;
  connections_.Lose(a, b);
  if (mutant_ == WorldMutant::kNoLinkLost) return;
  // As the shells do, each at its end (apps/loop/link_losses.h).
  SayLinkLost(a, AddressOf(b), kLastEpoch);
  SayLinkLost(b, AddressOf(a), kLastEpoch);
}

// A link's timeout is longer than that of its node: another process may have the rank by then.
void World::LateWord(uint32_t index, NodeIndex at) {
  const WorldSlot& slot = slots_[index];
  const Epoch heard = mutant_ == WorldMutant::kLateWordTaken ? kLastEpoch : slot.epoch;
  if (at != kScheduler) return SayLinkLost(at, AddressOf(NodeOfSlot(index)), heard);
  const Epoch before = coordinator_.epoch();
  wire::Outbox outbox;
  coordinator_.OnLost(now_, AddressOf(NodeOfSlot(index)), heard, &outbox);
  if (coordinator_.epoch() != before) Fail("word of a worker's former holder changed the roster");
  Send(kScheduler, std::move(outbox.messages));
}

Address World::AddressOf(NodeIndex node) const {
  if (node < NodeOfSlot(0)) return Address::Of(ServerId{node - NodeOfServer(0)});
  return Address::Of(*slots_[node - NodeOfSlot(0)].rank);
}

// Whom the coordinator counts out for links that are lost has lost one.
void World::SettleLinks() {
  HearAll(std::nullopt);  // when each was heard last is not in the print
  wire::Outbox outbox;
  coordinator_.SettleLinks(now_ + kSettled, &outbox);
  for (const wire::Message& message : outbox.messages) {
    if (message.type != wire::MessageType::kShutdown || message.to.role != wire::Role::kWorker) {
      continue;
    }
    const NodeIndex node = NodeOfSlot(*SlotOf(WorkerId{message.to.index}));
    if (!connections_.HasLostOne(node))
      Fail("the holder of a rank is counted out, all of whose links work");
  }
  Expel(outbox.messages);
  Send(kScheduler, std::move(outbox.messages));
}

// Those that are told to end, though they live.
void World::Expel(const std::vector<wire::Message>& notices) {
  for (const wire::Message& message : notices) {
    if (message.type != wire::MessageType::kShutdown || message.to.role != wire::Role::kWorker) {
      continue;
    }
    WorldSlot& slot = slots_[*SlotOf(WorkerId{message.to.index})];
    slot.expelled = true;
    checkers_.OnWorkerGone(*slot.rank);
  }
}

void World::SayLinkLost(NodeIndex node, Address other, Epoch heard) {
  const bool server = node < NodeOfSlot(0);
  wire::Message message;
  message.type = wire::MessageType::kLinkLost;
  message.from = AddressOf(node);
  message.to = Address::Scheduler();
  message.epoch = std::min(
      heard, server ? servers_.epoch(node - NodeOfServer(0)) : slots_[node - NodeOfSlot(0)].epoch);
  message.body = wire::LostLink{other, "no connection"};
  if (!server) message.session = slots_[node - NodeOfSlot(0)].session;
  std::vector<wire::Message> messages;
  messages.push_back(std::move(message));
  Send(node, std::move(messages));
}

// ---- Servers that are lost, whose shards others have

void World::AddServerChoices(std::vector<Choice>* choices) const {
  using Phase = scheduler::Coordinator::Phase;
  const bool runs =
      coordinator_.phase() == Phase::kRunning || coordinator_.phase() == Phase::kEvaluating;
  const SharedList<wire::Chain>& chains = coordinator_.roster().chains;
  for (uint32_t k = 0; k < servers_.count() && !chains.empty(); ++k) {
    if (servers_.crashed(k) && !servers_.noticed(k)) choices->push_back({Kind::kServerNotice, k});
    if (!runs || !servers_.CanSpare(k, chains)) continue;
    if (faults_.server_crashes > 0) choices->push_back({Kind::kServerCrash, k});
    if (faults_.server_suspects > 0) choices->push_back({Kind::kServerSuspect, k});
  }
}

void World::LoseServer(Kind how, uint32_t server) {
  if (how == Kind::kServerCrash) {
    servers_.Crash(server);
    return connections_.CutAllTo(NodeOfServer(server));
  }
  servers_.Notice(server);
  wire::Outbox outbox;
  coordinator_.OnLost(now_, Address::Of(ServerId{server}), kLastEpoch, &outbox);
  Send(kScheduler, std::move(outbox.messages));
}

}  // namespace soapstone::sim
