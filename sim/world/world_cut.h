// WorldCut: aligned cuts in a world: the shipped orders of checkpoints, what the shells of shards
// do upon them, and what a shard must hold where it is captured. A value, of World's.
//
// C1 What is captured at clock C is the sum of all updates of clocks below C that the shard has
// taken, each once, and of no other; of bsp, of each micro-batch of those clocks.
// C3 Where the job ends at a clock no update of that, or of a later one, has been taken.
// C2 Where nobody is lost and nothing goes astray no cut is given up.
// That nobody stays bound is the world's own S5.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "scheduler/checkpoints/checkpoint_orders.h"
#include "server/shard/shard.h"
#include "server/store/capture.h"
#include "sim/world/world_mutant.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::sim {

// What is asked of the scheduler at some moment of its workers' steps.
enum class CutKind : uint8_t {
  kNone,
  kCheckpoints,  // one at each clock
  kEnd,          // the job ends with one
};

struct WorldCutOptions {
  CutKind kind = CutKind::kNone;
  uint32_t shards = 0;
  Clock clocks = 0;
  bool by_rounds = false;          // server::ChangesByRounds
  bool all_micro_batches = false;  // each gets in, whoever is lost
  uint32_t micro_batch_count = 0;
  WorldMutant mutant = WorldMutant::kNone;
};

class WorldCut {
 public:
  explicit WorldCut(const WorldCutOptions& options);

  // It has not been asked for, and may be.
  bool may_begin() const { return options_.kind != CutKind::kNone && !orders_.has_value(); }
  void Begin();

  // ---- At the scheduler
  // Of its shell's, and for nobody else.
  static bool IsOf(const wire::Message& message);
  void OnMessage(wire::Message message);
  // After each event. `running`: the workers step.
  void Look(Nanos now, const wire::Roster& roster, bool running, wire::Outbox* out);
  std::optional<Clock> ended_at() const;
  // Somebody is lost, or something goes astray.
  void Excuse() { excused_ = true; }

  // ---- At a shard's shell
  void Before(const server::Shard& shard, const wire::Message& message);
  void After(const server::Shard& shard, wire::Outbox* out);

  const std::optional<std::string>& violation() const { return violation_; }
  uint64_t captured() const { return captured_; }
  void AddTo(Fingerprint* f) const;

 private:
  struct OfShard {
    server::CaptureOrder order;
    std::map<std::pair<BucketId, Clock>, int64_t> taken;  // sums of pushes
  };
  void Check(const server::Shard& shard, Clock clock);
  void CheckEnd(Clock clock);
  int64_t DueAt(const server::Shard& shard, BucketId bucket, Clock clock) const;

  WorldCutOptions options_;
  std::optional<scheduler::CheckpointOrders> orders_;
  std::vector<OfShard> shards_;
  Nanos now_ = 0;  // of the last look
  // Of the message in hand at a shard.
  std::optional<wire::Message> push_;
  uint64_t not_taken_ = 0;
  bool excused_ = false;
  uint64_t captured_ = 0;
  std::optional<std::string> violation_;
};

}  // namespace soapstone::sim
