// TeamWorld: teams of workers that each run one split model, as a value: the shipped coordinator,
// the shipped engines with the step programs of a lowered strategy, the shipped shards with stores
// that count, and the messages in flight. explore.h tries everything, seeded_walk.h draws.
//   B1, B2 as team_process.h, E1, T1, S1, S2, B3 as team_truth.h
//   G1 the ledgers of shards and seats find no guarantee broken; an honest seat is not refused
//   S5 no deadlock: something can happen that is no fault, until the job is over
//   end: with 0, and all is in of the teams that are left; else with another code, at the moment at
//      which a team is lost without which the job cannot go on
//
// Invariants
//  1. Within a channel (from a process to another, or to a shard) messages keep their order; across
//     channels there is none.
//  2. Who is lost acts no more; what it has sent may still arrive, and its blocks for a seat of its
//     team reach whoever has that rank then.
//  3. Time stands still: the scheduler learns of a loss by a choice.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fingerprint.h"
#include "cluster/training_job.h"
#include "scheduler/coordinator.h"
#include "server/shard/shard.h"
#include "sim/team/team_mutant.h"
#include "sim/team/team_process.h"
#include "sim/team/team_truth.h"
#include "sim/world/connections.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::sim {

// How many of each fault a run may have.
struct TeamFaults {
  uint32_t duplicates = 0;  // a message that is not the scheduler's comes twice
  uint32_t losses = 0;      // all seats of a team stop at once, and the scheduler knows
  uint32_t crashes = 0;     // a seat stops; the scheduler hears of it later
  uint32_t cuts = 0;        // what a seat that crashed had sent to one node is gone
  uint32_t leaves = 0;      // a seat is told to finish its step and leave
  uint32_t expulsions = 0;  // a seat that lives is counted out, for its silence
  uint32_t joins = 0;       // a process asks for a rank whose holder is out
};

struct TeamWorldOptions {
  // Complete. No data, but sizes.
  std::shared_ptr<const cluster::TrainingJob> job;
  TeamFaults faults;
  // Words to the scheduler are under way like others; else it has them at once.
  bool slow_scheduler = false;
  // Teams are lost too without which the job cannot go on.
  bool may_end = false;
  TeamMutant mutant = TeamMutant::kNone;
};

class TeamWorld {
 public:
  struct Choice {
    enum class Kind : uint8_t {
      kDeliver,    // the next of the channel `from` → `to`
      kDevice,     // of process `from`: up to its next answer
      kNotice,     // the scheduler is told that process `from`, which crashed, is lost
      kDuplicate,  // the next of the channel comes twice
      kLose,       // team `from`
      kCrash,      // process `from`
      kCut,        // the channel `from` → `to`
      kLeave,      // process `from`
      kExpel,      // process `from`
      kJoin,       // a process asks for rank `from`
    };
    Kind kind{};
    uint32_t from = 0, to = 0;
    bool is_fault() const { return kind >= Kind::kDuplicate; }
    friend auto operator<=>(const Choice&, const Choice&) = default;
  };

  explicit TeamWorld(const TeamWorldOptions& options);

  std::vector<Choice> Enabled() const;
  void Do(const Choice& choice);
  bool Finished() const { return coordinator_->ended().has_value(); }
  const std::optional<std::string>& Violation() const { return violation_; }
  std::string Describe(const Choice& choice) const;
  void AddTo(Fingerprint* f) const;

  // What has happened. No part of the state.
  struct Told {
    uint64_t teams_lost = 0;
    uint64_t teams_back = 0;       // let in again
    uint64_t former_blocks = 0;    // that came to a seat of the team that has the ranks now
    uint64_t former_words = 0;     // of who is out, that came to a shard
    uint64_t newcomers_lost = 0;   // before they were let in
    uint64_t lost_at_the_end = 0;  // teams, while one evaluates
    bool ended_early = false;
  };
  const Told& told() const { return told_; }
  const TeamTruth& truth() const { return truth_; }

 private:
  // Nodes: the scheduler, the shards, the processes in the order they came.
  using NodeIndex = uint32_t;
  static constexpr NodeIndex kScheduler = 0;
  NodeIndex NodeOfShard(uint32_t shard) const { return 1 + shard; }
  NodeIndex NodeOfProcess(uint32_t process) const {
    return 1 + static_cast<uint32_t>(shards_.size()) + process;
  }
  TeamProcess* ProcessAt(NodeIndex node) {
    return node < NodeOfProcess(0) ? nullptr : &processes_[node - NodeOfProcess(0)];
  }
  const TeamProcess* ProcessAt(NodeIndex node) const {
    return node < NodeOfProcess(0) ? nullptr : &processes_[node - NodeOfProcess(0)];
  }
  std::optional<NodeIndex> Route(wire::Address to) const;
  std::optional<uint32_t> HolderOf(uint32_t rank) const;

  void Register();
  void AddProcess(uint32_t rank);
  void Send(NodeIndex from, std::vector<wire::Message> messages);
  void NoteSent(wire::Message* message, NodeIndex to);
  // The coordinator goes on by `what`. ends: the job cannot go on after that.
  void Schedule(bool ends, const std::function<void(scheduler::Coordinator*, wire::Outbox*)>& what);
  void OnScheduler(NodeIndex from, const wire::Message& message);
  void Deliver(NodeIndex from, NodeIndex to);
  void DeliverToShard(uint32_t shard, NodeIndex from, wire::Message message);
  void DeliverToProcess(NodeIndex node, NodeIndex from, const wire::Message& message);
  void RunDevice(uint32_t process);
  void AfterEngine(uint32_t process, wire::Outbox* out);
  void StopProcess(uint32_t process);
  void CheckEnd();
  void Fail(std::string what);

  // Faults (team_faults.cc).
  void AddFaults(std::vector<Choice>* choices) const;
  uint32_t TeamOf(const TeamProcess& process) const;
  bool GoesOn(uint32_t team, bool by_scheduler) const;
  bool EndsWithout(uint32_t team) const;
  bool CanLose(uint32_t team) const;
  bool CanJoin(uint32_t rank) const;
  void AddFaultsOf(uint32_t process, std::vector<Choice>* choices) const;
  void CarryOutFault(const Choice& choice);
  void Duplicate(NodeIndex from, NodeIndex to);
  void LoseTeam(uint32_t team);
  void TellLost(uint32_t process);
  void NoteLost(const TeamProcess& process);
  void Leave(uint32_t process);
  void Expel(uint32_t process);
  void HandOn(uint32_t former, uint32_t process);

  std::shared_ptr<const cluster::TrainingJob> job_;
  bool slow_scheduler_, may_end_;
  TeamMutant mutant_;
  TeamFaults faults_;
  std::shared_ptr<const scheduler::Coordinator> coordinator_;  // shared by copies of the world
  std::vector<server::Shard> shards_;
  std::vector<TeamProcess> processes_;
  std::vector<std::optional<uint32_t>> holders_;  // by rank: the process that was welcomed last
  Connections connections_;
  TeamTruth truth_;
  Told told_;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
