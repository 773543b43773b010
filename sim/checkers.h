// Checkers: what must hold of a run, judged from outside. They see the messages that go into a
// shard, the messages that come out, and the shard's store; they never judge by the policy's or the
// shard's own books, so that an error in those cannot excuse itself.
//
//   S1 a read at clock c at a shard with bound s: c - min over members of the applied clock <= s
//   S2 a read holds the reader's own updates
//   S3 completed clocks of the running workers differ by at most the guarantee's gap
//   S4 what a worker reads from a shard is what is in its store, and never goes back
//   S6 every update of a member is applied exactly once, with its own bytes; none of a stranger
//   B1 snapshot policies: a read of clock t sees exactly the updates of clocks < t, on every shard;
//      each round's micro-batches are covered once
//   K1 backup: each round takes the updates of P - b members, of the same ones on every shard
//   L1 the shard's own ledger of the guarantee finds nothing where these do not; of the workers'
//   and peers' ledgers the world says the same
// S5 (no deadlock) and the end of the run are the world's, which knows what can still happen.
// A value: copied with the world at each branch of an exploration.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/fingerprint.h"
#include "base/ids.h"
#include "consistency/levels.h"
#include "consistency/policy.h"
#include "server/shard/shard.h"
#include "sim/running_clocks.h"
#include "sim/whole_pushes.h"
#include "wire/membership/teams.h"
#include "wire/message.h"

namespace soapstone::sim {

struct CheckerOptions {
  consistency::PolicyTraits policy;
  uint32_t shards = 1;       // of all levels
  uint32_t root_shards = 0;  // of the root, where there is a tree of servers; else 0
  uint32_t workers = 1;      // ranks
  uint32_t micro_batch_count = 1;
  Clock rounds = 0;  // shard-visible clocks of the run
  // Where the model is split over teams: these are the workers above. By shard the seats that hold
  // it, and the most clocks by which one reads ahead of what it has pushed.
  wire::TeamShape team;
  std::vector<uint32_t> holders;
  std::vector<Clock> own_lags;
};

class Checkers {
 public:
  explicit Checkers(CheckerOptions options);

  // Around each Shard::OnMessage: `in` before, then what it sent.
  void BeforeShard(const server::Shard& shard, const wire::Message& in);
  void AfterShard(const server::Shard& shard, absl::Span<const wire::Message> sent);
  // A worker begins at `clock`; has sent messages; is no more.
  void OnWorkerStart(WorkerId worker, Clock clock);
  void AfterWorker(WorkerId worker, absl::Span<const wire::Message> sent);
  void OnWorkerGone(WorkerId worker);

  // The first thing that went wrong.
  const std::optional<std::string>& violation() const { return violation_; }
  uint64_t violations() const { return violations_; }
  // Reads by true lag; the last of kLagSlots counts the rest.
  static constexpr size_t kLagSlots = 1024;
  const std::vector<uint64_t>& read_lags() const { return read_lags_; }
  Clock clock_gap_max() const { return gap_max_; }
  // History that later verdicts depend on.
  void AddTo(Fingerprint* f) const;

 private:
  struct Member {
    bool present = false;
    bool joining = false;
    Epoch admitted = 0;
    Clock start = 0;
    Clock applied = 0;          // min of landed
    std::vector<Clock> next;    // by bucket: clock of the next update that is not taken
    std::vector<Clock> landed;  // by bucket: clock of the next update that is not in the store
    uint64_t last_read = 0;     // version of the values that it read last
  };
  struct Pending {
    MicroBatchRange micro_batches;
    WorkerId worker{};
    Epoch admitted = 0;
    int64_t delta = 0;
  };
  struct Truth {                                              // of one shard
    std::shared_ptr<const consistency::PolicyTraits> policy;  // what it does of the policy
    Epoch epoch = 0;
    wire::Roster workers, groups;  // in a tree: of the job, and of the root
    std::vector<server::CountStore::Count> counts;
    std::vector<Member> members;                // by rank
    ClockCounts applied;                        // of members that are not joining
    Clock version = 0;                          // snapshot policies
    std::vector<std::vector<Pending>> pending;  // by bucket
  };
  // What is kept of the message that goes in.
  struct Incoming {
    wire::MessageType type{};
    WorkerId worker{};
    Epoch epoch = 0;
    Clock clock = kNoClock;
    uint32_t pushes = 0;
    uint32_t bucket = 0;
    MicroBatchRange micro_batches;
    int64_t delta = 0;
    wire::Roster roster;
    bool whole = true;  // a push: all of the sender's team are here
  };

  static bool Snapshots(const Truth& truth) {
    return std::holds_alternative<consistency::RoundTraits>(truth.policy->gate) || LeavesOut(truth);
  }
  static bool LeavesOut(const Truth& truth) { return truth.policy->backup(); }
  void TakeRoster(ShardId shard, Truth* truth);
  SharedList<wire::Member> MembersOf(ShardId shard, Truth* truth) const;
  void Land(const Pending& update, uint32_t bucket, Truth* truth);
  void ForgetPending(WorkerId worker, Truth* truth);
  void TakeGatedPush(const server::Shard& shard, bool rejected, Truth* truth);
  void TakeEmptyRound(Truth* truth);
  void TakeHeldPush(bool rejected, Truth* truth);
  void ExpectStore(const server::Shard& shard, Truth* truth);
  void ExpectRound(const server::Shard& shard, Truth* truth);
  void SkipEmptyRounds(Truth* truth);
  void ExpectChosen(const server::Shard& shard, Truth* truth);
  void CheckChosen(const server::Shard& shard, const Truth& truth, const std::vector<bool>& in);
  void ExpectCovered(const server::Shard& shard, const Truth& truth);
  void CheckReply(const server::Shard& shard, const wire::Message& reply, Truth* truth);
  void SetApplied(Member* member, Clock applied, Truth* truth);
  void Fail(std::string what);

  CheckerOptions options_;
  std::vector<Truth> truths_;  // by shard
  Incoming in_;
  std::map<Clock, std::vector<bool>> chosen_;  // backup: by round, the ranks that it took
  WholePushes pushes_;
  RunningClocks running_;
  Clock gap_max_ = 0;
  bool lost_ = false;    // a worker has gone
  bool joined_ = false;  // a worker began after that, or after another had completed a clock
  std::vector<uint64_t> read_lags_;
  uint64_t violations_ = 0;
  std::optional<std::string> violation_;
};

// The 8-byte integer that stands for a gradient in simulated pushes; 0 where there is none.
int64_t DeltaOf(const wire::Message& push);

}  // namespace soapstone::sim
