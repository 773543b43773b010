// Registry: which nodes hold which ranks, since when, and when each was last heard from. A value:
// the coordinator asks it where a Hello may sit, and tells it who is gone. It sends nothing and
// knows neither rosters nor the phases of a job.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

struct Node {
  uint64_t nonce = 0;    // of its Hello
  std::string endpoint;  // of a server
  std::string key;       // of its process; empty: the job has none
  std::string host;      // as it says
  // Epoch when it was given its rank. Whoever held the rank before was never told of this epoch, so
  // a message of this rank with an older (nonzero) epoch is the former holder's.
  Epoch welcomed = 0;
  Nanos last_heard = 0;
  // Since when it may be dead, as another process has asked for its rank or its connection has
  // ended; empty: it was heard after that.
  std::optional<Nanos> doubted = std::nullopt;
  // The nonces of those who ask for its rank, while it is in doubt.
  std::set<uint64_t> askers = {};
  std::set<uint64_t> answered = {};  // of those after whose first word it was heard
  friend bool operator==(const Node&, const Node&) = default;
};

// Invariants: at most one node a rank; ranks are below the role's count; the order of iteration is
// servers, then workers, ascending.
class Registry {
 public:
  // `under_way_ns`: what a process has sent may be read so long after its end is known, so nothing
  // that is heard within that time after a doubt says that it lives.
  Registry(uint32_t servers, uint32_t workers, Nanos under_way_ns)
      : servers_(servers), workers_(workers), under_way_ns_(under_way_ns) {}

  struct Taken {  // somebody holds the place, who may be dead and not yet known to be
    std::optional<wire::Address> place;  // the wanted one
    std::string why;
  };
  // The place `hello` may take: its wanted rank, else the lowest that is free; or why there is
  // none, for now or for good. Changes nothing. REQUIRES: its role is server or worker.
  std::variant<wire::Address, Taken, wire::Notice> PlaceFor(const wire::Hello& hello,
                                                            Nanos now) const;
  // The place which this very process (by role and nonce) holds already.
  std::optional<wire::Address> PlaceOf(const wire::Hello& hello) const;

  // A server's or worker's rank of this job, free or not.
  bool IsRank(wire::Address place) const { return place.index < CountOf(place.role); }

  // REQUIRES: `place` is free, and a rank. `welcomed`: as Node's.
  void Add(wire::Address place, const wire::Hello& hello, Epoch welcomed, Nanos now);
  // Frees the place, and remembers the process so that a late Hello of it is not taken for a new
  // one's.
  void Remove(wire::Address place);
  void Hear(wire::Address place, Nanos now);
  // The process with the nonce `asker` asks for the place: who holds it may be dead, since the
  // first word of each. Who goes on asking is answered when the holder was heard after that.
  void Question(wire::Address place, uint64_t asker, Nanos now);
  // A connection has ended, of the process that is known by that rank or by the temporary address
  // of its Hello, which may be under way still.
  void End(wire::Address node, Nanos now);
  // The listener itself did not run for `duration`, until now: what was sent before is under way
  // still.
  void ForgivePause(Nanos now, Nanos duration);

  // Whether who holds the place was heard less than `within` ago; empty: nobody holds it.
  std::optional<bool> HeardWithin(wire::Address place, Nanos now, Nanos within) const {
    const Node* node = Find(place);
    if (node == nullptr) return std::nullopt;
    return now - node->last_heard < within;
  }
  // Null where nobody holds the place.
  const Node* Find(wire::Address place) const;
  const std::map<wire::Address, Node>& nodes() const { return nodes_; }
  // Of a roster: the rank, and where and by which key its holder is reached. REQUIRES: it has one.
  wire::Member EntryOf(WorkerId worker) const;
  // Nodes not heard from for longer than `timeout`.
  std::vector<wire::Address> Silent(Nanos now, Nanos timeout) const;
  // Every place is taken, by somebody of whom there is no doubt.
  bool complete() const;
  // Places that nobody holds, and `with_doubted` those of somebody who is in doubt: "server 1,
  // worker 2".
  std::string Missing(bool with_doubted) const;

  // Where a node can be reached within its machine alone, and another node is on another machine:
  // a line on both, and what to do. Empty: nobody.
  std::string OutOfReach() const;

  // Places of a role that somebody holds.
  uint32_t HoldersOf(wire::Role role) const;

  friend bool operator==(const Registry&, const Registry&) = default;
  void AddTo(Fingerprint* f) const;  // all but the times
  void AddTimesTo(Fingerprint* f) const;

 private:
  static constexpr size_t kEndedMax = 1024;
  static constexpr size_t kAnsweredMax = 16;  // of more askers none casts a doubt

  Node* HolderAt(wire::Address node);
  std::optional<Nanos> EndedAs(wire::Address temporary, Nanos now) const;
  uint32_t CountOf(wire::Role role) const {
    if (role == wire::Role::kServer) return servers_;
    return role == wire::Role::kWorker ? workers_ : 0;
  }

  uint32_t servers_;
  uint32_t workers_;
  Nanos under_way_ns_;
  std::map<wire::Address, Node> nodes_;
  std::map<wire::Address, Nanos> ended_;    // of whom nothing was heard, and when; of the last
  std::map<wire::Address, uint64_t> gone_;  // nonce of the last holder that was removed
};

}  // namespace soapstone::scheduler
