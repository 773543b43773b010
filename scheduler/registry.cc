#include "scheduler/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/exit_codes.h"
#include "glog/logging.h"
#include "scheduler/spoken.h"

namespace soapstone::scheduler {

using wire::Address;
using wire::Role;

std::variant<Address, Registry::Taken, wire::Notice> Registry::PlaceFor(const wire::Hello& hello,
                                                                        Nanos now) const {
  for (const auto& [place, nonce] : gone_) {
    if (place.role == hello.role && nonce == hello.nonce) {
      return wire::Notice{kExitPeerLost, absl::StrCat("expelled: this process was ", Spoken(place),
                                                      ", and was silent for too long")};
    }
  }
  const uint32_t count = CountOf(hello.role);
  if (hello.wanted_rank >= 0) {
    if (hello.wanted_rank >= int64_t{count}) {
      return wire::Notice{kExitConfig,
                          absl::StrFormat("rank %d is out of range: the job has %d %ss",
                                          hello.wanted_rank, count, Spoken(hello.role))};
    }
    const Address place{hello.role, static_cast<uint32_t>(hello.wanted_rank)};
    const Node* holder = Find(place);
    if (holder == nullptr) return place;
    return Taken{place, absl::StrFormat("rank %d is taken by another %s, heard from %s ago",
                                        hello.wanted_rank, Spoken(hello.role),
                                        Seconds(now - holder->last_heard))};
  }
  for (uint32_t rank = 0; rank < count; ++rank) {
    if (Find({hello.role, rank}) == nullptr) return Address{hello.role, rank};
  }
  return Taken{std::nullopt, absl::StrFormat("no place is free: the job has %d %ss, all there",
                                             count, Spoken(hello.role))};
}

std::optional<Address> Registry::PlaceOf(const wire::Hello& hello) const {
  for (const auto& [place, node] : nodes_) {
    const bool same = node.nonce == hello.nonce && node.key == hello.key;
    if (place.role == hello.role && same) return place;
  }
  return std::nullopt;
}

void Registry::Add(Address place, const wire::Hello& hello, Epoch welcomed, Nanos now) {
  const Node node = {.nonce = hello.nonce,
                     .endpoint = hello.endpoint,
                     .key = hello.key,
                     .host = hello.host,
                     .welcomed = welcomed,
                     .last_heard = now,
                     .doubted = EndedAs(Address::Temporary(place.role, hello.nonce), now)};
  const bool added = nodes_.emplace(place, node).second;
  CHECK(added) << Spoken(place) << " is registered already";
}

wire::Member Registry::EntryOf(WorkerId worker) const {
  const Node& node = nodes_.at(Address::Of(worker));
  return {.worker = worker, .endpoint = node.endpoint, .key = node.key};
}

void Registry::Remove(Address place) {
  const auto it = nodes_.find(place);
  if (it == nodes_.end()) return;
  gone_[place] = it->second.nonce;
  nodes_.erase(it);
}

void Registry::Hear(Address place, Nanos now) {
  const auto it = nodes_.find(place);
  if (it == nodes_.end()) return;
  Node& node = it->second;
  node.last_heard = now;
  if (!node.doubted.has_value() || now - *node.doubted < under_way_ns_) return;
  node.doubted.reset();
  node.answered.merge(node.askers);
  node.askers.clear();
}

// Two that go on asking for two ranks, out of step, would else leave no moment in which neither
// holder is in doubt.
void Registry::Question(Address place, uint64_t asker, Nanos now) {
  const auto it = nodes_.find(place);
  if (it == nodes_.end()) return;
  Node& node = it->second;
  if (node.answered.contains(asker)) return;
  if (node.answered.size() + node.askers.size() >= kAnsweredMax) return;
  if (node.askers.insert(asker).second) node.doubted = now;
}

void Registry::End(Address node, Nanos now) {
  if (Node* holder = HolderAt(node); holder != nullptr) {
    holder->doubted = now;
    return;
  }
  std::erase_if(ended_, [&](const auto& e) { return now - e.second >= under_way_ns_; });
  if (!node.IsTemporary()) return;
  if (ended_.size() >= kEndedMax) {
    ended_.erase(std::min_element(ended_.begin(), ended_.end(), [](const auto& a, const auto& b) {
      return a.second < b.second;
    }));
  }
  ended_[node] = now;
}

Node* Registry::HolderAt(Address node) {
  if (const auto it = nodes_.find(node); it != nodes_.end()) return &it->second;
  for (auto& [place, holder] : nodes_) {
    if (Address::Temporary(place.role, holder.nonce) == node) return &holder;
  }
  return nullptr;
}

std::optional<Nanos> Registry::EndedAs(Address temporary, Nanos now) const {
  const auto it = ended_.find(temporary);
  if (it == ended_.end() || now - it->second >= under_way_ns_) return std::nullopt;
  return it->second;
}

bool Registry::complete() const {
  return nodes_.size() == size_t{servers_} + workers_ &&
         std::none_of(nodes_.begin(), nodes_.end(),
                      [](const auto& node) { return node.second.doubted.has_value(); });
}

void Registry::ForgivePause(Nanos now, Nanos duration) {
  for (auto& [place, node] : nodes_) {
    node.last_heard += duration;
    if (node.doubted.has_value()) node.doubted = now;
  }
  for (auto& [node, when] : ended_) when = now;
}

const Node* Registry::Find(Address place) const {
  const auto it = nodes_.find(place);
  return it == nodes_.end() ? nullptr : &it->second;
}

std::vector<Address> Registry::Silent(Nanos now, Nanos timeout) const {
  std::vector<Address> silent;
  for (const auto& [place, node] : nodes_) {
    if (now - node.last_heard > timeout) silent.push_back(place);
  }
  return silent;
}

std::string Registry::OutOfReach() const {
  for (const auto& [place, node] : nodes_) {
    const bool within = absl::StartsWith(node.endpoint, "tcp://127.") ||
                        absl::StartsWith(node.endpoint, "tcp://localhost:");
    const std::string& host = node.host;
    if (!within || host.empty()) continue;
    const auto other = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto& each) {
      return !each.second.host.empty() && each.second.host != host;
    });
    if (other == nodes_.end()) continue;
    return absl::StrCat(Spoken(place), " listens at ", node.endpoint, " of ", host, ", and ",
                        Spoken(other->first), " is on ", other->second.host,
                        ": if these are two machines, tell ", Spoken(place),
                        " the scheduler's address on the network (cluster.scheduler), or give it "
                        "--bind");
  }
  return "";
}

uint32_t Registry::HoldersOf(Role role) const {
  uint32_t holders = 0;
  for (uint32_t rank = 0; rank < CountOf(role); ++rank) {
    if (Find({role, rank}) != nullptr) ++holders;
  }
  return holders;
}

std::string Registry::Missing(bool with_doubted) const {
  std::vector<std::string> missing;
  for (const Role role : {Role::kServer, Role::kWorker}) {
    for (uint32_t rank = 0; rank < CountOf(role); ++rank) {
      const Node* node = Find({role, rank});
      if (node == nullptr || (with_doubted && node->doubted.has_value()))
        missing.push_back(Spoken({role, rank}));
    }
  }
  return absl::StrJoin(missing, ", ");
}

void Registry::AddTimesTo(Fingerprint* f) const {
  for (const auto& [place, node] : nodes_) {
    f->Add(node.last_heard);
    f->Add(node.doubted.value_or(-1));
  }
  for (const auto& [node, when] : ended_) f->Add(when);
}

void Registry::AddTo(Fingerprint* f) const {
  f->Add(nodes_.size());
  for (const auto& [place, node] : nodes_) {
    f->Add(place.role);
    f->Add(place.index);
    f->Add(node.nonce);
    f->Add(node.endpoint);
    f->Add(node.welcomed);
    f->Add(node.doubted.has_value());
    f->Add(node.askers.size());
    for (const uint64_t nonce : node.askers) f->Add(nonce);
    f->Add(node.answered.size());
    for (const uint64_t nonce : node.answered) f->Add(nonce);
    f->Add(node.key);
  }
  f->Add(gone_.size());
  for (const auto& [place, nonce] : gone_) {
    f->Add(place.role);
    f->Add(place.index);
    f->Add(nonce);
  }
  f->Add(ended_.size());
  for (const auto& [node, when] : ended_) {
    f->Add(node.role);
    f->Add(node.index);
  }
}

}  // namespace soapstone::scheduler
