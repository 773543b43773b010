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
  for (const auto& [a, b] : connections_.InUse()) {
    if (options_.breaks > 0) choices->push_back({PeerKind::kBreak, a, b});
  }
  for (const auto& [a, b] : connections_.Broken()) choices->push_back({PeerKind::kResume, a, b});
  // One of the two is counted out: somebody has to be left.
  const auto can_lose = [this](uint32_t i) {
    return processes_[i].started && processes_[i].Counts() && !processes_[i].handed_in;
  };
  for (uint32_t i = 0; i < processes_.size() && options_.losses > 0; ++i) {
    for (uint32_t j = i + 1; j < processes_.size(); ++j) {
      const uint32_t a = i + 1, b = j + 1;
      if (!can_lose(i) || !can_lose(j)) continue;
      if (connections_.IsBroken(a, b) || connections_.IsLost(a, b)) continue;
      choices->push_back({PeerKind::kLose, a, b});
    }
  }
  if (!links_to_settle_.empty()) choices->push_back({PeerKind::kSettle});
}

void PeerWorld::Lose(uint32_t a, uint32_t b) {
  members_changed_ = true;
  connections_.Lose(a, b);
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
    connections_.Send({kScheduler, out + 1}, std::move(notice));
    PublishRoster();
  }
}

}  // namespace soapstone::sim
