// EngineOptions: what an engine and its parts must know of the job. Nothing of it changes while the
// job runs, so the parts of an engine, and its copies, share one. Whoever makes a worker fills it
// in. What follows from it alone is here too: how shards count local steps, who keeps the
// parameters, what the builders of programs need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "consistency/traits.h"
#include "wire/layout.h"
#include "wire/membership/teams.h"
#include "wire/message.h"
#include "worker/program/program.h"

namespace soapstone::worker {

// Of a worker that has a seat in a team.
struct SeatOptions {
  wire::TeamShape team;
  // The shards of the parameters that it holds, by what its own layout numbers them.
  std::vector<ShardId> shards;
  std::map<uint64_t, SeatOutline> steps;  // by samples of the team's batch
  SeatOutline evaluation;                 // of a batch of held-out samples
  uint64_t evaluation_batches = 0;
  // Clocks by which it runs ahead, and the most by which a seat of the team does
  // (strategy/window.h).
  Clock lead = 0;
  Clock lead_max = 0;
  bool reads_ahead = false;     // it asks for the next clock's parameters as it begins one
  std::vector<Clock> own_lags;  // by shard: the most by which a seat that holds it does
};

// What an engine does wrong, for tests that have to find it.
enum class EngineFault : uint8_t {
  kNone,
  kPullAlone,   // to a shard's new head it says its pull again, and nothing else
  kNothing,     // it says nothing again
  kFormerHead,  // it takes what a shard's former head has answered
};

struct EngineOptions {
  WorkerId id{};
  std::shared_ptr<const wire::Layout> layout;  // decentralised policies: of one shard, the peer
  std::shared_ptr<const std::vector<OpOutline>> ops;
  consistency::PolicyTraits policy;
  uint32_t micro_batch_count = 1;
  Clock total_clocks = 0;      // local steps of the run
  uint64_t train_samples = 0;  // of the data set
  uint64_t batch = 0;          // samples of a full global batch
  // A gradient that is not finite is left out by the device, and counted; else it ends the job.
  bool skip_not_finite = false;
  Nanos patience_ns = 5 * kSecond;  // with values that were asked for
  bool says_again = false;          // shards have replicas: what no answer stands for is kept
  EngineFault fault = EngineFault::kNone;
  std::shared_ptr<const SeatOptions> seat;  // null: the worker runs the whole model

  // Each shard's values are loaded when the forward pass comes to them.
  bool by_transfer_stages() const { return policy.pulls_ahead() && layout->transfer_stages() > 1; }
  // So that the values of some shards come while gradients of others are still sent: of a seat that
  // neither runs nor reads ahead anyway, too.
  bool asks_early() const {
    const bool asks_later = seat == nullptr || seat->lead > 0 || seat->reads_ahead;
    return policy.pulls_ahead() && (layout->transfer_stages() > 1 || !asks_later);
  }
  // The clock of a local step, as shards count.
  Clock ShardClock(Clock step) const { return step / policy.period(); }
  // The clock of a read after `steps` local steps, as who answers it counts.
  Clock ReadClock(Clock steps) const {
    return policy.decentralised() ? steps : policy.Rounds(steps);
  }
  // Who keeps the parameters of `shard`: the shard, or the worker's own peer.
  wire::Address HomeOf(ShardId shard) const;
  // The inverse; none: it keeps none of this worker's.
  std::optional<ShardId> ShardAt(wire::Address home) const;
  // It computes what a lost worker owed; of a team all seats together do for a lost team.
  bool takes_over() const { return policy.takes_over() && seat == nullptr; }
  bool team_takes_over() const {
    return policy.takes_over() && seat != nullptr && seat->team.teams > 1;
  }
  // Clocks by which its forward halves, and with them its reads, are ahead of its backward ones.
  Clock lead() const { return seat != nullptr ? seat->lead : 0; }
  std::vector<Clock> own_lags() const {
    return seat != nullptr ? seat->own_lags : std::vector<Clock>();
  }
  // What the seat runs at a clock; behind the run's last, batches that are evaluated. Null:
  // nothing.
  const SeatOutline* SeatOutlineAt(Clock clock) const;
  // The same for the micro-batches of any team, at a clock of training.
  const SeatOutline* SeatOutlineOf(uint32_t team, Clock clock) const;
  // Samples of the global batch at a step: the last batch of an epoch may be smaller.
  uint64_t BatchSamples(Clock step) const;
  // Of a seat: its team, that team's micro-batches or another's, and the samples that they have at
  // a step.
  uint32_t team() const { return Index(wire::TeamOf(id, seat->team)); }
  MicroBatchRange MicroBatchesOf(uint32_t team) const;
  MicroBatchRange TeamMicroBatches() const { return MicroBatchesOf(team()); }
  uint64_t SamplesOf(uint32_t team, Clock step) const;
  // To shards and policies: its rank, the ranks that there are, and how many of them take part at a
  // shard's clock. A team is one.
  uint32_t rank() const { return seat != nullptr ? team() : Index(id); }
  uint32_t RankCount(const wire::Roster& roster) const {
    return seat != nullptr ? seat->team.teams : roster.worker_count;
  }
  size_t ReplicasAt(const wire::Roster& roster, Clock clock) const;
  uint64_t TeamSamples(Clock step) const { return SamplesOf(team(), step); }
  // Of every program of this worker. Valid as long as the options.
  ProgramInputs Inputs() const;
};

}  // namespace soapstone::worker
