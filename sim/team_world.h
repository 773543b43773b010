// TeamWorld: teams of workers that each run one split model, as a value: the shipped engines with
// the step programs of a lowered strategy, the shipped shards with stores that count, and the
// messages in flight (FIFO per ordered pair). explore.h tries everything.
//   B1 a step, and a batch that is evaluated, is computed with the parameters of its clock, its
//      backward halves like its forward ones
//   B2 a block that the device takes is the one of its clock and number
//   T1 a team's reads of a shard at a clock are of one version, with all of the team's own updates
//      but those of clocks that its seats run ahead
//   G1 the ledgers of shards and seats find no guarantee broken
//   E1 at the end each bucket has had the sum of its holders' gradients, once a clock and team; of
//      a team that was lost, of its first clocks
//   S5 no deadlock: every seat ends its steps, and a team evaluates
// Gradients are integers that say whose they are, so that sums are exact.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "cluster/training_job.h"
#include "server/shard/shard.h"
#include "wire/message.h"
#include "wire/outbox.h"
#include "worker/engine.h"

namespace soapstone::sim {

// Deliberate bugs, for tests of the checks.
enum class TeamMutant : uint8_t {
  kNone,
  kOrdersWait,  // seat 0 takes its first block before it gives its first
  kNoGrants,    // nobody waits for word of a clock
  kEarlyLoad,   // the device begins a clock with the parameters that it has
  kNoStash,     // a seat that runs ahead keeps the parameters of one clock
  kTooFar,      // it runs ahead by one clock more than the bound allows
  kBlockTwice,  // of two copies of a block the second is of the next clock
  // Of shards (server::TeamFault).
  kFirstPush,
  kFirstPull,
  kUpdatesLost,  // of their stores
};

struct TeamWorldOptions {
  // Complete. No data, but sizes.
  std::shared_ptr<const cluster::TrainingJob> job;
  uint32_t duplicates = 0;
  uint32_t losses = 0;  // of teams
  TeamMutant mutant = TeamMutant::kNone;
};

class TeamWorld {
 public:
  struct Choice {
    enum class Kind : uint8_t {
      kDeliver,    // the next of the channel `from` → `to`
      kDevice,     // of seat `from`: up to its next answer
      kDuplicate,  // the next of the channel comes twice
      kLose,       // team `from` is out: the scheduler has missed one of its seats
    };
    Kind kind{};
    uint32_t from = 0, to = 0;
    friend auto operator<=>(const Choice&, const Choice&) = default;
  };

  explicit TeamWorld(const TeamWorldOptions& options);

  std::vector<Choice> Enabled() const;
  void Do(const Choice& choice);
  bool Finished() const;
  const std::optional<std::string>& Violation() const { return violation_; }
  std::string Describe(const Choice& choice) const;
  void AddTo(Fingerprint* f) const;

 private:
  struct Seat {
    worker::Engine engine;
    std::shared_ptr<const worker::EngineOptions> options;
    std::vector<worker::DeviceCommand> commands;  // not yet run
    // The clock of its parameters, in turns; evaluation has the first.
    std::vector<Clock> loaded;
    bool done = false, evaluated = false, gone = false;
  };
  // Nodes: seats, those of a team behind each other, shards, the scheduler.
  uint32_t NodeOf(wire::Address to) const;
  uint32_t scheduler() const { return static_cast<uint32_t>(seats_.size() + shards_.size()); }
  void Send(uint32_t from, wire::Outbox* out);
  void Deliver(uint32_t from, uint32_t to);
  void RunDevice(uint32_t seat);
  Clock& LoadedFor(Seat* seat, Clock clock) const;
  void CheckLedgers();
  void RunCommand(uint32_t seat, const worker::DeviceCommand& command, worker::DeviceEvent* event);
  void CheckAnswers(uint32_t shard, const wire::Outbox& out);
  void OnScheduler(const wire::Message& message);
  wire::Message RosterNow() const;
  void Lose(uint32_t team);
  void EvaluateIfDone();
  bool IsSpared(uint32_t team) const;
  void CheckEnd();
  int64_t SumOf(uint32_t team, ShardId shard, BucketId bucket, Clock clocks) const;
  void Fail(std::string what);

  std::shared_ptr<const cluster::TrainingJob> job_;
  TeamMutant mutant_;
  uint32_t duplicates_left_, losses_left_;
  Epoch epoch_ = 1;
  std::optional<uint32_t> evaluates_;  // a team
  std::vector<Seat> seats_;
  std::vector<server::Shard> shards_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<wire::Message>> channels_;  // none is empty
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
