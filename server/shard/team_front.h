// TeamFront: makes one worker of the seats of a team that hold the parameters of a shard. What they
// send, each for its part of the same step, becomes one push, one clock, one pull under the team's
// name, once all of them have sent theirs. The shard calls it with messages that it has found
// well-formed and new, before its policy hears of them. A value: copied with its shard.
//
// Invariants
//  1. A team's push is the parts of its seats, in the order of seats, whatever the order of
//  arrival.
//  2. A team has completed a clock when all its holders have; it asks when all have asked, once a
//     clock. So all of them are answered from one state; and of what a shard sends unasked a
//     clock's first values are the team's, since a seat that has begun the clock would not take
//     others. A holder that is alone asks, and is answered, as a worker without a team.
//  3. bytes() is what pushes that wait for others' hold.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "base/fingerprint.h"
#include "wire/membership/teams.h"
#include "wire/message.h"

namespace soapstone::server {

// Deliberate bugs, for tests of the worlds that must find them.
enum class TeamFault : uint8_t {
  kNone,
  kFirstPush,   // the first seat's push is the team's
  kFirstPull,   // all are answered when one has asked
  kAsTheyCome,  // parts are added in the order of arrival
  kEachFresh,   // all that is sent unasked goes out
};

class TeamFront {
 public:
  // holders: seats, ascending; at least one.
  TeamFront(wire::TeamShape shape, std::vector<uint32_t> holders,
            TeamFault fault = TeamFault::kNone);

  bool Holds(WorkerId worker) const;
  // Each: the team's message, or none yet; of a push its parts, in the order of seats, the first of
  // which has the team's numbers.
  std::optional<std::vector<wire::Message>> TakePush(wire::Message push);
  std::optional<wire::Message> TakeClock(const wire::Message& clock);
  std::optional<wire::Message> TakePull(wire::Message pull);
  // Whether the team is to have values of `clock` that it has not asked for. True once a clock, of
  // one holder always.
  bool TakeUnasked(WorkerId team, Clock clock);

  // Whom an answer to the team is for, ascending.
  std::vector<WorkerId> HoldersOf(WorkerId team) const;
  // The team is gone, or another.
  void Forget(WorkerId team);

  uint64_t bytes() const { return bytes_; }
  void AddTo(Fingerprint* f) const;

 private:
  using Key = std::tuple<WorkerId, Clock, BucketId, MicroBatchRange>;
  struct Parts {
    std::vector<wire::Message> of;  // by holder
    std::vector<bool> here;         // likewise
    size_t count = 0;
  };
  struct Team {
    std::vector<Clock> completed;                     // by holder
    Clock told = kNoClock;                            // completed by all, and passed on
    Clock answered = kNoClock;                        // the last that all have asked for
    std::vector<std::optional<wire::Message>> pulls;  // by holder
  };
  size_t HolderOf(WorkerId worker) const;
  Team& Of(WorkerId team) { return teams_[Index(team)]; }
  wire::TeamShape shape_;
  std::vector<uint32_t> holders_;
  std::map<Key, Parts> pushes_;
  std::vector<Team> teams_;
  uint64_t bytes_ = 0;
  TeamFault fault_;
};

}  // namespace soapstone::server
