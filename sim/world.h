// World: a small cluster as a value. It holds the shipped actors, the messages in flight (FIFO per
// ordered pair of nodes) and the checkers, and says what can happen next; a picker chooses:
// fault_world.h draws at random, explore.h tries everything.
//
// Invariants
//  1. Do(c) for c in Enabled() is deterministic; a copy of a world goes on independently.
//  2. Reordering across channels is unlimited, within a channel there is none.
//  3. A crashed worker acts no more; what it had sent may still arrive, up to a cut.
//  4. Connections are as sim/world/connections.h says; of a link that is lost both ends hear.
//  5. Faults end with their budget, and the last started worker is spared: so every run must
//     finish, and a state in which nothing is enabled and that is not Finished() is a deadlock.
// Time stands still but where a timer of the scheduler's is let fire (FaultBudget::timers): then it
// passes between two messages, however much is under way, so that a timer can come at any moment.
// Other nodes have no timers that an actor sees: whose scheduler is silent ends, as by a crash.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "scheduler/coordinator.h"
#include "sim/actors.h"
#include "sim/checkers.h"
#include "sim/world/choice.h"
#include "sim/world/connections.h"
#include "sim/world/leaf_supply.h"
#include "sim/world/world_cut.h"
#include "sim/world/world_mutant.h"
#include "sim/world/world_servers.h"
#include "sim/world/world_slot.h"
#include "wire/message.h"
#include "wire/outbox.h"
#include "worker/engine.h"

namespace soapstone::sim {

struct WorldOptions {
  JobShape shape;
  FaultBudget faults;
  // Registration and start are run in one fixed order before the first choice.
  bool start_registered = false;
  // A worker's device answers at once instead of as a choice of its own.
  bool instant_device = false;
  // When nothing else can happen, time passes: workers that wait ask again.
  bool watched = false;
  // What the checkers hold the run to; none: the shape's policy. A test of the checkers claims more
  // than the actors keep.
  std::optional<consistency::PolicyTraits> claimed;
  WorldMutant mutant = WorldMutant::kNone;
  CutKind cut = CutKind::kNone;              // a choice while workers step, once
  std::optional<server::ImageFault> images;  // shards go through them, with that fault
};

class World {
 public:
  static absl::StatusOr<World> Make(const WorldOptions& options);

  // What can happen now, in a fixed order. Empty when finished.
  std::vector<Choice> Enabled() const;
  // REQUIRES: `choice` is in Enabled().
  void Do(const Choice& choice);
  // The job ended as it should; nothing of interest follows.
  bool Finished() const { return coordinator_.ended().has_value() || cut_.ended_at().has_value(); }
  // The first broken property, or what is wrong with the end of the job.
  std::optional<std::string> Violation() const;

  // "deliver push worker-1 -> shard-0 clock 3 ...". REQUIRES: enabled.
  std::string Describe(const Choice& choice) const;
  const WorldCut& cut() const { return cut_; }
  const Checkers& checkers() const { return checkers_; }
  // How often the scheduler shared the batch out anew.
  uint64_t share_changes() const { return share_changes_; }
  // Equal worlds have equal futures.
  void AddTo(Fingerprint* f) const;

 private:
  // Nodes: the scheduler, then the shards' servers, then worker slots. Each process that ever
  // stood for a worker has a slot of its own.
  using NodeIndex = uint32_t;
  static constexpr NodeIndex kScheduler = 0;
  // Address of a worker that has no rank yet: this plus its slot.
  static constexpr uint32_t kUnranked = WorldSlot::kUnranked;

  World(const WorldOptions& options, ActorFactory factory);

  NodeIndex NodeOfServer(uint32_t server) const { return 1 + server; }
  NodeIndex NodeOfSlot(uint32_t slot) const { return 1 + factory_->servers() + slot; }
  // By what node `from` knows.
  std::optional<NodeIndex> Route(NodeIndex from, wire::Address to) const;
  const SharedList<wire::Chain>& ChainsOf(NodeIndex node) const;
  // The slot that was given `rank` last.
  std::optional<uint32_t> SlotOf(WorkerId rank) const;
  bool CanSpare(uint32_t slot) const;
  bool CanJoin() const;

  void AddSlot(int64_t wanted_rank);
  void RunRegistration();
  void Send(NodeIndex from, std::vector<wire::Message> messages);
  void Deliver(NodeIndex from, NodeIndex to);
  void DeliverToServer(uint32_t server, wire::Message message);
  void DeliverToSlot(uint32_t index, const wire::Message& message);
  void DeliverToPeer(uint32_t index, const wire::Message& message);
  void AfterEngine(uint32_t index, wire::Outbox* outbox);
  void RunDevice(uint32_t index);
  void CarryOut(const Choice& choice);
  void Crash(uint32_t index);
  void AddServerChoices(std::vector<Choice>* choices) const;
  void LoseServer(Choice::Kind how, uint32_t server);
  void Notice(uint32_t index);
  void Duplicate(NodeIndex from, NodeIndex to);
  void Leave(uint32_t index);
  void Watch();
  void LookAtCut();
  void AddLinkChoices(std::vector<Choice>* choices) const;
  bool CanLose(NodeIndex a, NodeIndex b) const;
  void Lose(NodeIndex a, NodeIndex b);
  wire::Address AddressOf(NodeIndex node) const;
  void Expel(const std::vector<wire::Message>& notices);
  void LateWord(uint32_t index, NodeIndex at);
  void SettleLinks();
  void SayLinkLost(NodeIndex node, wire::Address other, Epoch heard);
  void Report(uint32_t index, uint32_t slowness);
  bool IsAnswer(const wire::Message& message) const;
  void Ask(uint32_t index);
  void AddTimerChoices(std::vector<Choice>* choices) const;
  void HearAll(std::optional<uint32_t> but);
  void PassSilence(uint32_t index);
  void PassDeadline();
  wire::Message HeartbeatOf(NodeIndex node) const;
  void CheckEnd();
  void CheckSums();
  void Fail(std::string what);

  std::shared_ptr<const ActorFactory> factory_;
  bool instant_device_ = false;
  bool watched_ = false;
  WorldMutant mutant_ = WorldMutant::kNone;
  FaultBudget faults_;
  scheduler::Coordinator coordinator_;
  WorldServers servers_;
  std::vector<WorldSlot> slots_;
  Connections connections_;
  uint32_t hours_ = 0;  // that have passed: one at each kAsk and kWatch
  Checkers checkers_;
  uint64_t share_changes_ = 0;
  Nanos now_ = 0;                // the scheduler's
  bool timed_out_ = false;       // a deadline may end the job
  bool members_change_ = false;  // by a fault
  LeafSupply supply_;            // where shares change
  WorldCut cut_;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
