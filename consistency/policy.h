// Policy: a consistency policy as a value. Who calls: one server shard owns one policy object and
// feeds it every join, leave, push, clock and pull; the explorer and the simulator drive the very
// same object. It has no clock, no socket, no tensor, no lock and no randomness.
//
//   spec                          rule                                           files
//   bsp                           versioned rounds, fixed-order sum              snapshot_rounds
//   ssp:s=N                       a read at clock c waits for min applied >= c-N bounded_gate
//   async                         no gate                                        bounded_gate
//   easgd:tau=T,beta=B,mode=M     elastic averaging; sync: rounds, async: none   both
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "consistency/action.h"
#include "consistency/bounded_gate.h"
#include "consistency/clock_table.h"
#include "consistency/snapshot_rounds.h"

namespace soapstone::consistency {

// What a policy promises; ledgers assert it, reports print it. An empty bound: none promised.
struct Guarantee {
  std::optional<Clock> read_lag_max;   // c - min applied, of any read at clock c
  std::optional<Clock> clock_gap_max;  // max - min completed clock of the members
  bool snapshot_reads = false;         // all reads of clock t return one version on all shards
  bool sequential_bits = false;        // equal to sequential SGD bit for bit
  bool conserves_sum = false;          // exchanges keep sum of replicas + centre (elastic)
  friend bool operator==(const Guarantee&, const Guarantee&) = default;
  std::string ToString() const;
};

enum class Exchange : uint8_t {
  kGradient,  // pull parameters, push the gradient, every clock
  kElastic,   // keep own parameters; every `period` steps pull the centre, push the elastic force
};

// What the workers and the store must know of a policy.
struct PolicyTraits {
  std::string spec;  // canonical text, e.g. "ssp:s=2"
  Exchange exchange = Exchange::kGradient;
  Clock period = 1;         // kElastic: local steps between exchanges (tau)
  double beta = 0;          // kElastic: alpha = beta / (number of replicas)
  bool fixed_tree = false;  // gradients are pushed by nodes of the fixed tree (leaf_tree.h)
  Guarantee guarantee;
  friend bool operator==(const PolicyTraits&, const PolicyTraits&) = default;

  // The shard-visible clocks of a run of `steps` local steps: ceil(steps / period).
  Clock Rounds(Clock steps) const { return (steps + period - 1) / period; }
};

// Errors: InvalidArgument naming the unknown policy or argument and what there is instead.
absl::StatusOr<PolicyTraits> ParsePolicy(std::string_view spec);

// One line a policy, for `soapstone policies` and docs.
struct PolicyDescription {
  std::string spec, rule, bytes_per_step, round_trips, guarantee, checker;
};
std::vector<PolicyDescription> DescribePolicies();

class Policy {
 public:
  // The policy object of one shard with `bucket_count` buckets; `leaf_count` is M of leaf_tree.h.
  Policy(const PolicyTraits& traits, uint32_t bucket_count, uint32_t leaf_count);

  // A member takes part from `clock` on; called again to raise a member's start clock.
  Actions OnJoin(WorkerId worker, Clock clock);
  // It takes part no more; whoever waited only for it is released.
  Actions OnLeave(WorkerId worker);
  Actions OnPush(const PushEvent& push);
  // `worker` has completed clocks [0, completed), and all its updates of them have been seen here.
  Actions OnClock(WorkerId worker, Clock completed);
  Actions OnPull(const PullEvent& pull);

  const PolicyTraits& traits() const { return traits_; }
  const ClockTable& clocks() const;
  // All updates of clocks below this are in the store.
  Clock Frontier() const;

  friend bool operator==(const Policy&, const Policy&) = default;
  void AddTo(Fingerprint* f) const;

 private:
  PolicyTraits traits_;
  std::variant<SnapshotRounds, BoundedGate> gate_;
};

}  // namespace soapstone::consistency
