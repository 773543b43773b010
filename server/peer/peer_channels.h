// PeerChannels: what a peer's channels to the other peers carry: the numbers of what it sends,
// which numbers it has had, and what came under a roster that is not here yet. The peer alone calls
// it. A value: copied with its peer, keeps no pointers.
//
// Invariants
//  1. Numbers to one receiver grow, whichever of a rank's processes sends: a later one began at a
//     later epoch, and that is their upper part.
//  2. Of one sender only what is greater than all before it is taken.
//  3. At most `early_max` messages wait for a roster; they come out once, in the order they came.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::server {

class PeerChannels {
 public:
  explicit PeerChannels(size_t early_max) : early_max_(early_max) {}

  // Of the next message to `to`. `admitted`: the epoch at which this process was.
  uint64_t NextNumber(WorkerId to, Epoch admitted);
  // The greatest number of `from` before this one, 0 where it is the first. Empty: it is not
  // greater than that, a duplicate.
  std::optional<uint64_t> Take(WorkerId from, uint64_t number);

  // False: there is no room.
  bool KeepEarly(wire::Message message);
  std::vector<wire::Message> TakeEarly() { return std::exchange(early_, {}); }
  size_t early() const { return early_.size(); }

  void AddTo(Fingerprint* f) const;

 private:
  size_t early_max_;
  std::map<WorkerId, uint64_t> sent_;  // by receiver, without the upper part
  std::map<WorkerId, uint64_t> seen_;  // by sender
  std::vector<wire::Message> early_;
};

}  // namespace soapstone::server
