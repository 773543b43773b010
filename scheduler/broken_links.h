// BrokenLinks: which node is counted out where two that both live cannot reach one another any
// more. Part of the Coordinator.
//
// Rule: of a worker and a server the worker; of two workers the one with more broken links, else
// the higher rank; of two servers the same, if any can be spared. It is applied to a pair some time
// after its first report, so that the other end's and other pairs' are there, and only while both
// ends are heard: of one that is silent the silence decides.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

// A value. Times are the caller's.
class BrokenLinks {
 public:
  void Record(Nanos now, wire::Address from, const wire::LostLink& lost);
  // The node is counted out: what was said of it is not of who takes its rank.
  void Forget(wire::Address node);

  struct Verdict {
    wire::Address out;    // who is counted out
    wire::Address other;  // at the other end
    std::string line;     // "the link between worker 1 and server 0 is lost (...)"
  };
  // The next pair that is to be judged, which is forgotten then. `lives`: the node is registered
  // and was heard of late; empty: it is not registered (any more), and the pair is forgotten.
  template <typename Lives>
  std::optional<Verdict> Judge(Nanos now, Nanos patience, const Lives& lives) {
    for (auto it = pairs_.begin(); it != pairs_.end();) {
      const auto [a, b] = it->first;
      const std::optional<bool> first = lives(a), second = lives(b);
      if (!first.has_value() || !second.has_value()) {
        it = pairs_.erase(it);
        continue;
      }
      if (*first && *second && now - it->second.since >= patience) {
        Verdict verdict = VerdictOn(a, b, it->second.why);
        pairs_.erase(it);
        return verdict;
      }
      ++it;
    }
    return std::nullopt;
  }
  // When the next pair is to be judged that has not been yet; empty: there is none.
  std::optional<Nanos> NextDue(Nanos now, Nanos patience) const;
  bool empty() const { return pairs_.empty(); }
  void AddTo(Fingerprint* f) const;

 private:
  using Pair = std::pair<wire::Address, wire::Address>;  // ascending
  struct Broken {
    Nanos since = 0;
    std::string why;
  };
  Verdict VerdictOn(wire::Address a, wire::Address b, const std::string& why) const;
  size_t CountOf(wire::Address node) const;

  std::map<Pair, Broken> pairs_;
};

}  // namespace soapstone::scheduler
