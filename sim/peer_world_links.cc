// Connections of a peer world that break, and links that are lost: PeerWorld's part
// (sim/peer_world.h).
#include <algorithm>
#include <utility>

#include "sim/peer_world.h"

namespace soapstone::sim {

using wire::Address;
using PeerKind = PeerWorld::Choice::Kind;

// A break matters where something is under way; a loss also where nothing is.
void PeerWorld::AddLinkChoices(std::vector<Choice>* choices) const {
  std::set<Pair> under_way;
  for (const auto& [ends, messages] : channels_) {
    under_way.insert(std::minmax(ends.first, ends.second));
  }
  for (const auto& [a, b] : under_way) {
    if (options_.breaks > 0) choices->push_back({PeerKind::kBreak, a, b});
  }
  for (const auto& [link, kept] : broken_) {
    choices->push_back({PeerKind::kResume, link.first, link.second});
  }
  // One of the two is counted out: somebody has to be left.
  const auto can_lose = [this](uint32_t i) {
    return processes_[i].started && processes_[i].Counts() && !processes_[i].handed_in;
  };
  for (uint32_t i = 0; i < processes_.size() && options_.losses > 0; ++i) {
    for (uint32_t j = i + 1; j < processes_.size(); ++j) {
      const Pair link(i + 1, j + 1);
      if (!can_lose(i) || !can_lose(j) || broken_.contains(link) || lost_.contains(link)) continue;
      choices->push_back({PeerKind::kLose, link.first, link.second});
    }
  }
  if (!links_to_settle_.empty()) choices->push_back({PeerKind::kSettle});
}

void PeerWorld::Break(uint32_t a, uint32_t b) {
  Channels kept;
  for (const Pair& ends : {Pair(a, b), Pair(b, a)}) {
    const auto channel = channels_.find(ends);
    if (channel == channels_.end()) continue;
    kept.emplace(ends, std::move(channel->second));
    channels_.erase(channel);
  }
  if (options_.mutant != PeerMutant::kNoResume) broken_.emplace(Pair(a, b), std::move(kept));
}

void PeerWorld::Resume(uint32_t a, uint32_t b) {
  Channels kept = std::move(broken_.extract(Pair(a, b)).mapped());
  for (auto& [ends, messages] : kept) {
    if (!messages.empty()) channels_.emplace(ends, std::move(messages));
  }
}

void PeerWorld::Lose(uint32_t a, uint32_t b) {
  members_changed_ = true;
  channels_.erase({a, b});
  channels_.erase({b, a});
  lost_.insert({a, b});
  if (options_.mutant == PeerMutant::kNoLinkLost) return;
  const Address one = Address::Of(processes_[a - 1].rank);
  const Address other = Address::Of(processes_[b - 1].rank);
  links_to_settle_.Record(0, one, {other, "no connection"});
  links_to_settle_.Record(0, other, {one, "no connection"});
}

// Who is counted out is told so, and acts until it hears; the others get a roster without it.
void PeerWorld::SettleLinks() {
  const auto lives = [this](Address node) -> std::optional<bool> {
    const std::optional<uint32_t> index = ProcessOf(WorkerId{node.index});
    if (!index.has_value() || processes_[*index].expelled) return std::nullopt;
    return true;
  };
  while (const auto verdict = links_to_settle_.Judge(0, 0, lives)) {
    const uint32_t out = *ProcessOf(WorkerId{verdict->out.index});
    processes_[out].expelled = true;
    wire::Message notice;
    notice.type = wire::MessageType::kShutdown;
    notice.from = Address::Scheduler();
    Send({kScheduler, out + 1}, std::move(notice));
    PublishRoster();
  }
}

}  // namespace soapstone::sim
