// Connections: the messages under way between the nodes of a world, and what becomes of them as
// connections break and links are lost. A value, of World and PeerWorld; it must not know what
// messages mean.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "wire/message.h"

namespace soapstone::sim {

// Invariants, which are what transports promise (docs/wire.md, Sessions):
//  1. Between an ordered pair of nodes messages arrive in the order sent: a channel.
//  2. Over a connection that is broken nothing arrives; all that was under way, and what is sent
//     meanwhile, does when it is made again.
//  3. Over a link that is lost nothing arrives any more.
// Equal values have equal futures. Nodes are numbers of the world's.
class Connections {
 public:
  using Ends = std::pair<uint32_t, uint32_t>;  // from, to; of a link the lower first
  using Messages = std::vector<wire::Message>;
  using Channels = std::map<Ends, Messages>;
  static Ends LinkOf(uint32_t a, uint32_t b) { return std::minmax(a, b); }

  // Behind what is under way. `overtakes`: in front of it, as no transport does.
  void Send(Ends ends, wire::Message message, bool overtakes = false);
  // The head of a channel that is not empty: what arrives next, or is lost alone.
  wire::Message Take(Ends ends);
  // Messages that may arrive; none of the channels is empty.
  const Channels& channels() const { return channels_; }
  const wire::Message& Head(Ends ends) const { return channels_.at(ends).front(); }
  // Of a channel that is not empty; it stays so.
  Messages& Change(Ends ends) { return channels_.at(ends); }
  void Cut(Ends ends) { channels_.erase(ends); }
  // The node acts no more: what is under way to it is gone.
  void CutAllTo(uint32_t node);
  // Calls `what` with each message that is under way, also over a broken connection.
  template <typename What>
  void ForEach(const What& what) const {
    ForEachOf(channels_, what);
    for (const auto& [link, kept] : broken_) ForEachOf(kept, what);
  }

  // `keeps`: as sessions do; else what is under way is gone, and the connection is there.
  void Break(uint32_t a, uint32_t b, bool keeps);
  // REQUIRES: broken.
  void Resume(uint32_t a, uint32_t b);
  void Lose(uint32_t a, uint32_t b);
  bool IsBroken(uint32_t a, uint32_t b) const { return broken_.contains(LinkOf(a, b)); }
  bool IsLost(uint32_t a, uint32_t b) const { return lost_.contains(LinkOf(a, b)); }
  bool HasLostOne(uint32_t node) const;
  // Links on which something may arrive: what a break matters to.
  std::set<Ends> InUse() const;
  std::vector<Ends> Broken() const;

  void AddTo(Fingerprint* f) const;

 private:
  template <typename What>
  static void ForEachOf(const Channels& channels, const What& what) {
    for (const auto& [ends, messages] : channels) {
      for (const wire::Message& message : messages) what(message);
    }
  }

  Channels channels_;
  std::map<Ends, Channels> broken_;  // what the sessions of both directions keep, by link
  std::set<Ends> lost_;
};

}  // namespace soapstone::sim
