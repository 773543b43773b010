// World: a small cluster as a value. It holds the shipped actors, the messages in flight (FIFO per
// ordered pair of nodes) and the checkers, and says what can happen next; a picker chooses:
// fault_world.h draws at random, explore.h tries everything.
//
// Invariants
//  1. Do(c) for c in Enabled() is deterministic; a copy of a world goes on independently.
//  2. Reordering across channels is unlimited, within a channel there is none.
//  3. A crashed worker acts no more; what it had sent may still arrive, up to a cut.
//  4. A channel promises what transports do (docs/wire.md, Sessions): over a connection that breaks
//     nothing is lost, repeated or reordered; of one that is lost both ends hear.
//  5. Faults end with their budget, and the last started worker is spared: so every run must
//     finish, and a state in which nothing is enabled and that is not Finished() is a deadlock.
// Time stands still but where a timer of the scheduler's is let fire (FaultBudget::timers): then it
// passes between two messages, however much is under way, so that a timer can come at any moment.
// Other nodes have no timers that an actor sees: whose scheduler is silent ends, as by a crash.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/fingerprint.h"
#include "scheduler/coordinator.h"
#include "server/shard/shard.h"
#include "sim/actors.h"
#include "sim/checkers.h"
#include "wire/message.h"
#include "wire/outbox.h"
#include "worker/engine.h"

namespace soapstone::sim {

// How many of each fault a run may have.
struct FaultBudget {
  uint32_t crashes = 0;     // a worker stops; the coordinator hears of it later
  uint32_t leaves = 0;      // a worker is told to finish its step and leave
  uint32_t joins = 0;       // a new worker asks for a free rank
  uint32_t duplicates = 0;  // the head of a channel of data messages arrives twice
  uint32_t reports = 0;     // a worker tells a speed, which the scheduler may re-balance by
  uint32_t breaks = 0;      // a connection breaks with what is under way, and is made again later
  uint32_t losses = 0;      // two nodes, a worker among them, cannot reach one another any more
  uint32_t forgets = 0;     // a server loses an answer to a worker, before it leaves
  uint32_t asks = 0;        // a worker asks again although nothing is lost
  uint32_t late_words = 0;  // of a link to a worker that crashed, when that is known already
  uint32_t timers = 0;      // a timer of the scheduler's fires before what it waits for comes
  friend bool operator==(const FaultBudget&, const FaultBudget&) = default;
};

// Deliberate bugs around the shipped actors, for tests of the checkers.
enum class WorldMutant : uint8_t {
  kNone,
  kDuplicateUnseen,  // a duplicated push does not look like one to the shard
  kClockOvertakes,   // clocks are delivered before the pushes in front of them
  kUncountedClock,   // and do not say how many pushes precede them
  kNoAdoption,       // workers do not hear of a loss
  kNoRelease,        // shards do not hear of a loss
  kSharesTooEarly,   // workers take new shares for valid two clocks before they are
  kNoReload,         // devices do not load the parameters of a former clock again
  kNoResume,         // what a connection that broke had under way is not sent again
  kNoLinkLost,       // who cannot reach another says so to nobody
  kLateWordTaken,    // word of a link to a rank's former holder is taken for one to the present
  kForgetfulPrint,   // worlds are compared without the faults that are left
};

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
};

struct Choice {
  enum class Kind : uint8_t {
    kDeliver,    // head of channel from -> to
    kDevice,     // worker slot `from`: its device runs up to the next event
    kCrash,      // worker slot `from`
    kNotice,     // the coordinator is told that slot `from`, crashed, is lost
    kCut,        // channel from -> to of a crashed worker: the rest is lost
    kDuplicate,  // head of channel from -> to
    kLeave,      // worker slot `from`
    kJoin,       // a new slot says Hello
    kReport,     // worker slot `from` sends a heartbeat: `to` times as slow as the fastest
    kBreak,      // the connection of nodes `from` and `to` breaks: nothing of it arrives until
    kResume,     // it is made again, and goes on where it was (wire/session.h)
    kLose,       // it cannot be made again: what is under way is gone, both ends tell the scheduler
    kLateWord,   // node `to` finds that its link to slot `from`, noticed, is lost
    kSettle,     // the coordinator acts upon the links that it heard are lost
    kForget,     // head of channel from -> to, an answer, is gone
    kAsk,        // worker slot `from` asks again
    kWatch,      // all that wait do, since nothing else can happen
    kSilence,    // the timeout of worker slot `from`, which lives: its heartbeats are late
    kDeadline,   // what the coordinator waits for has its deadline
    kHeartbeat,  // worker slot `from`, counted out for its silence, is heard again
  };
  Kind kind{};
  uint32_t from = 0;
  uint32_t to = 0;
  bool is_fault() const {
    return kind == Kind::kCrash || kind == Kind::kDuplicate || kind == Kind::kLeave ||
           kind == Kind::kJoin || kind == Kind::kCut || kind == Kind::kReport ||
           kind == Kind::kBreak || kind == Kind::kLose || kind == Kind::kLateWord ||
           kind == Kind::kForget || kind == Kind::kAsk || kind == Kind::kSilence ||
           kind == Kind::kDeadline;
  }
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

class World {
 public:
  static absl::StatusOr<World> Make(const WorldOptions& options);

  // What can happen now, in a fixed order. Empty when finished.
  std::vector<Choice> Enabled() const;
  // REQUIRES: `choice` is in Enabled().
  void Do(const Choice& choice);
  // The job ended as it should; nothing of interest follows.
  bool Finished() const { return coordinator_.ended().has_value(); }
  // The first broken property, or what is wrong with the end of the job.
  std::optional<std::string> Violation() const;

  // "deliver push worker-1 -> shard-0 clock 3 ...". REQUIRES: enabled.
  std::string Describe(const Choice& choice) const;
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
  static constexpr uint32_t kUnranked = 1000;

  struct Slot {
    std::optional<WorkerId> rank;
    uint64_t ranked = 0;  // order in which ranks were given: the latest holder gets the messages
    std::optional<worker::Engine> engine;  // from Welcome on
    std::optional<server::Peer> peer;      // likewise, decentralised
    uint64_t session = 0;
    Epoch epoch = 0;  // of the latest roster that came
    bool started = false;
    bool leaving = false;
    bool crashed = false;                         // by fault
    bool noticed = false;                         // and the coordinator knows
    bool expelled = false;                        // counted out alive: what it does counts no more
    bool silent = false;                          // for its silence, and has not been heard since
    bool gone = false;                            // shut down, refused, or crashed: acts no more
    std::vector<Clock> loaded;                    // by shard: whose parameters the device holds
    wire::Progress told;                          // in its last report
    std::vector<worker::DeviceCommand> commands;  // not yet run
  };
  using Channels = std::map<std::pair<NodeIndex, NodeIndex>, std::vector<wire::Message>>;

  World(const WorldOptions& options, ActorFactory factory);

  NodeIndex NodeOfShard(uint32_t shard) const { return 1 + shard; }
  NodeIndex NodeOfSlot(uint32_t slot) const { return 1 + factory_->shards() + slot; }
  std::optional<NodeIndex> Route(wire::Address to) const;
  // The slot that was given `rank` last.
  std::optional<uint32_t> SlotOf(WorkerId rank) const;
  bool CanSpare(uint32_t slot) const;
  bool CanJoin() const;
  bool IsRunning(const Slot& slot) const { return slot.engine.has_value() && !slot.gone; }

  void AddSlot(int64_t wanted_rank);
  void RunRegistration();
  void Send(NodeIndex from, std::vector<wire::Message> messages);
  void Deliver(NodeIndex from, NodeIndex to);
  bool Mutate(wire::Message* message) const;
  void DeliverToShard(uint32_t shard, wire::Message message);
  void DeliverToSlot(uint32_t index, const wire::Message& message);
  void DeliverToPeer(uint32_t index, const wire::Message& message);
  void AfterEngine(uint32_t index, wire::Outbox* outbox);
  void RunDevice(uint32_t index);
  void RunCommand(Slot* slot, const worker::DeviceCommand& command);
  void CheckLoaded(const Slot& slot, Clock clock, uint32_t op, MicroBatchRange part);
  worker::DeviceEvent Answer(const Slot& slot, const worker::DeviceCommand& command) const;
  int64_t DeltaFor(const Slot& slot, Clock clock, const worker::CollectBucket& what) const;
  uint32_t* BudgetOf(Choice::Kind kind);
  void CarryOut(const Choice& choice);
  void Crash(uint32_t index);
  void Notice(uint32_t index);
  void Duplicate(NodeIndex from, NodeIndex to);
  void Leave(uint32_t index);
  void Forget(NodeIndex from, NodeIndex to);
  void Watch();
  static std::pair<NodeIndex, NodeIndex> PairOf(NodeIndex a, NodeIndex b);
  void AddLinkChoices(std::vector<Choice>* choices) const;
  bool CanLose(NodeIndex a, NodeIndex b) const;
  void Break(NodeIndex a, NodeIndex b);
  void Resume(NodeIndex a, NodeIndex b);
  void Lose(NodeIndex a, NodeIndex b);
  wire::Address AddressOf(NodeIndex node) const;
  void Expel(const std::vector<wire::Message>& notices);
  void LateWord(uint32_t index, NodeIndex at);
  void SettleLinks();
  void SayLinkLost(NodeIndex node, wire::Address other, Epoch heard);
  void Report(uint32_t index, uint32_t slowness);
  bool Waits(const Slot& slot) const { return IsRunning(slot) && slot.engine->waits(); }
  bool IsAnswer(const wire::Message& message) const;
  void Ask(uint32_t index);
  void AddTimerChoices(std::vector<Choice>* choices) const;
  void HearAll(std::optional<uint32_t> but);
  void PassSilence(uint32_t index);
  void PassDeadline();
  wire::Message HeartbeatOf(NodeIndex node) const;
  void RecordSupply(const wire::Message& push);
  void CheckEnd();
  void Fail(std::string what);

  std::shared_ptr<const ActorFactory> factory_;
  bool instant_device_ = false;
  bool watched_ = false;
  WorldMutant mutant_ = WorldMutant::kNone;
  FaultBudget faults_;
  scheduler::Coordinator coordinator_;
  std::vector<server::Shard> shards_;
  std::vector<Slot> slots_;
  Channels channels_;  // none is empty
  // Connections that have broken, and what their sessions keep, of both directions.
  std::map<std::pair<NodeIndex, NodeIndex>, Channels> broken_;
  std::set<std::pair<NodeIndex, NodeIndex>> lost_;
  uint32_t hours_ = 0;                // that have passed: one at each kAsk and kWatch
  std::vector<Epoch> server_epochs_;  // of the latest rosters that came, by shard
  Checkers checkers_;
  uint64_t share_changes_ = 0;
  Nanos now_ = 0;                // the scheduler's
  bool timed_out_ = false;       // a deadline may end the job
  bool members_change_ = false;  // by a fault
  // Leaves pushed for bucket 0 of shard 0, by clock and leaf.
  std::map<std::pair<Clock, uint32_t>, uint32_t> supplied_;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
