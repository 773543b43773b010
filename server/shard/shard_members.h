// ShardMembers: whom a shard has for members, of those that the job's roster has. In a flat cluster
// they are the workers. In a tree of servers (consistency/levels.h) a root's members are the groups
// of workers, which speak through their branches, and a branch's are the workers of its group.
// Where a model is split over teams of workers, members are the teams (wire/membership/teams.h),
// whose workers speak for themselves. The shard installs rosters and asks who may speak; the
// checkers of the simulator make the same rosters for themselves. A value: copied with its shard,
// keeps no pointers.
//
// Invariants
//  1. Members are those of the newest roster installed. A message is taken of a member alone, from
//     where that member sends, and not of an epoch before its admission.
//  2. Whoever is a member no more, or is another process under the same rank, is in `gone` of one
//     change.
//  3. At a root a group's admission stays while anybody goes on who was in it before, and so does
//     its start clock once it has one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/memory/state_image.h"
#include "consistency/levels.h"
#include "server/shard/team_front.h"
#include "wire/membership/teams.h"
#include "wire/message.h"
#include "wire/message_image.h"

namespace soapstone::server {

// The members of a root shard, which are groups. A group goes on as it is while one that was in it
// before is; else it is another member, which is admitted with the roster of `epoch`.
// `before` and `groups_before` are what the shard had till then: workers, and groups.
wire::Roster GroupRoster(const wire::Roster& before, const wire::Roster& groups_before,
                         const wire::Roster& roster, Epoch epoch,
                         const consistency::PolicyTraits& traits);
// The members of a branch: the workers of its group.
wire::Roster BranchRoster(const wire::Roster& roster, uint32_t group,
                          const consistency::PolicyTraits& traits);

class ShardMembers {
 public:
  // `root_shards`: of the layout.
  // `team`: where its members are teams of workers; `front` joins those that hold this shard.
  ShardMembers(ShardId self, uint32_t root_shards, const consistency::PolicyTraits& traits,
               std::optional<wire::TeamShape> team = std::nullopt,
               std::optional<TeamFront> front = std::nullopt)
      : self_(self),
        root_shards_(root_shards),
        level_(consistency::LevelOf(self, root_shards, traits)),
        team_(team),
        front_(std::move(front)) {}

  struct Change {
    std::vector<WorkerId> gone;  // ascending
    // A branch, which is another member to its root from now on: the clock that it begins at.
    std::optional<Clock> restart;
  };
  // The scheduler's roster of `epoch`. REQUIRES: epoch > epoch(); the traits of the constructor.
  Change Install(const wire::Roster& roster, Epoch epoch, const consistency::PolicyTraits& traits);

  consistency::Level level() const { return level_; }
  Epoch epoch() const { return epoch_; }  // 0: none is installed
  const wire::Roster& roster() const { return roster_; }
  // The server that gathers the model: the first of the newest roster.
  ServerId saver() const { return saver_; }
  // Null: each member is one worker.
  TeamFront* front() { return front_.has_value() ? &*front_ : nullptr; }
  const TeamFront* front() const { return front_.has_value() ? &*front_ : nullptr; }
  // The greatest start clock of those that have one.
  Clock LatestStart() const;
  // Where member `worker` sends from, and is answered.
  wire::Address AddressOf(WorkerId worker) const;
  // Empty where the message's worker may send it, else why not.
  std::string WhyNotTaken(const wire::Message& message) const;
  void AddTo(Fingerprint* f) const;
  // REQUIRES: of a shard whose members are workers: no tree, no teams.
  friend void WriteState(StateWriter* writer, const ShardMembers& members);
  friend bool ReadState(StateReader* reader, ShardMembers* members);

 private:
  wire::Roster OwnOf(const wire::Roster& roster, const consistency::PolicyTraits& traits,
                     std::optional<Clock>* restart);

  ShardId self_;
  uint32_t root_shards_;
  consistency::Level level_;
  std::optional<wire::TeamShape> team_;
  std::optional<TeamFront> front_;
  Epoch epoch_ = 0;
  ServerId saver_{0};
  wire::Roster roster_;  // of the members
  wire::Roster
      workers_;  // in a tree, or of teams: as the scheduler sent it, and as the root has it
  wire::Roster groups_;
};

}  // namespace soapstone::server
