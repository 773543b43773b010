// PolicyTraits: everything that the rest of the system must know of a policy, as data: the gate of
// the shards and its numbers, what workers exchange, what the store does with an update, and the
// guarantee. Made by ParsePolicy (catalogue.h); a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ids.h"

namespace soapstone::consistency {

// What a policy promises; ledgers assert it, reports print it. An empty bound: none promised.
struct Guarantee {
  std::optional<Clock> read_lag_max;     // c - min applied, of any read at clock c
  std::optional<Clock> clock_gap_max;    // max - min completed clock of the members
  bool snapshot_reads = false;           // all reads of clock t return one version on all shards
  bool sequential_bits = false;          // equal to sequential SGD bit for bit
  bool conserves_sum = false;            // exchanges keep sum of replicas + centre
  bool same_replicas = false;            // replicas have the same bits after the same round
  bool own_writes = true;                // a read holds the reader's own updates
  std::optional<uint32_t> left_out_max;  // members of whom a round may have no update
  std::optional<double> unseen_max;  // update mass of a worker that a computing peer has not seen
  friend bool operator==(const Guarantee&, const Guarantee&) = default;
  std::string ToString() const;
};

// Which gate the shards run; each is a file pair of gates/.
enum class Gate : uint8_t {
  kRounds,      // round_gate: versions, one a round
  kBounded,     // bounded_gate: a read waits for min applied >= c - bound
  kSubscribed,  // subscribed_gate: the same, and shards send fresh values unasked
  kDynamic,     // dynamic_gate: a bound in [lower, bound], from measured intervals
  kSampled,     // sampled_gate: barriers that ask a few peers, or block with a probability
  kBatched,     // batch_gate: no gate on reads; updates of several arrivals
  kValue,       // value_gate: a bound on unseen update mass
  kBackup,      // backup_gate: versions, without the last few of each round
};

// Who keeps the parameters, and how members exchange them. All but kServers are decentralised: each
// worker has a peer beside it (server/peer/peer.h), and the shards only gather the mean at the end.
enum class Topology : uint8_t {
  kServers,
  kCollective,  // collective: rounds that sum all gradients
  kMixing,      // mixing: averages with neighbours in lock step
  kPushSum,     // push_sum: halves sent on, nobody waits
  kPairwise,    // pairwise: exchanges of two
};

// Of collectives: whether a round waits for all.
enum class Partial : uint8_t { kNone, kSolo, kMajority };

enum class Graph : uint8_t { kRing, kExponential, kComplete, kRotating };

enum class Exchange : uint8_t {
  kGradient,  // pull parameters, push the gradient, every clock
  kElastic,   // keep own parameters; every `period` steps pull the centre, push the elastic force
  kDelta,     // pull parameters, make `period` local steps, push how far they led
  kPeer,      // with the worker's own peer, every clock; shards see its final values only
};

// What a shard's store does with one update.
struct StoreRule {
  enum class Kind : uint8_t {
    kOptimizer,      // the job's optimizer, with the sum of gradients
    kCompensated,    // the same, each gradient corrected for its delay first (DC-ASGD)
    kElastic,        // centre += sum of the elastic forces
    kAverage,        // parameters += mean of the deltas, weighted by samples
    kBlockMomentum,  // the same, through a momentum over blocks (BMUF)
    kMean,           // parameters := mean of the values, weighted by samples
  };
  Kind kind = Kind::kOptimizer;
  bool mean = false;      // kOptimizer: over the samples there are, not over a full batch's
  double lambda = 0;      // kCompensated: lambda_0
  double mean_decay = 0;  // kCompensated: m of the mean square; 0: lambda is constant
  double momentum = -1;   // kBlockMomentum: eta; negative: 1 - 1/P
  double rate = 1;        // kBlockMomentum: zeta
  bool nesterov = true;   // kBlockMomentum
  friend bool operator==(const StoreRule&, const StoreRule&) = default;
};

struct PolicyTraits {
  std::string spec;  // canonical text, e.g. "ssp:s=2"

  Gate gate = Gate::kBounded;
  Clock bound = kClockMax;       // s; kDynamic: the upper one
  Clock lower = 0;               // kDynamic
  uint32_t sample = 0;           // kSampled: peers asked; 0: all
  double block_probability = 1;  // kSampled: of blocking where the bound would
  uint64_t seed = 0;             // kSampled, kMixing, kPairwise, majority
  uint32_t batches = 1;          // kBatched: n; an update takes floor(P/n) arrivals
  bool rate_each = false;        // kBatched: divide by each gradient's own staleness
  double value = 0;              // kValue: v0
  uint32_t spare = 0;            // kBackup: b

  Topology topology = Topology::kServers;
  Partial partial = Partial::kNone;  // kCollective
  uint32_t group = 0;  // kCollective: ranks of a group, 0: one flat ring; kServers: of a branch of
                       // the tree, 0: no tree
  Graph graph = Graph::kRing;  // kMixing, kPushSum, kPairwise

  Exchange exchange = Exchange::kGradient;
  Clock period = 1;             // kElastic, kDelta: local steps between exchanges
  double beta = 0;              // kElastic: alpha = beta / (number of replicas)
  double local_momentum = 0;    // kElastic: > 0: local steps are Nesterov's with it (EAMSGD)
  bool fresh_momentum = false;  // kDelta: local optimizer state is forgotten at each exchange
  bool fixed_tree = false;      // gradients are pushed by nodes of the fixed tree (leaf_tree.h)
  StoreRule store;
  Guarantee guarantee;
  friend bool operator==(const PolicyTraits&, const PolicyTraits&) = default;

  bool decentralised() const { return topology != Topology::kServers; }
  // A worker's device goes on from its own parameters, and loads others' at exchanges only.
  bool keeps_parameters() const {
    return exchange == Exchange::kElastic || exchange == Exchange::kDelta;
  }
  // The shard-visible clocks of a run of `steps` local steps: ceil(steps / period); of a
  // decentralised one, the hand-in.
  Clock Rounds(Clock steps) const {
    return decentralised() ? std::min<Clock>(steps, 1) : (steps + period - 1) / period;
  }
  // Shards answer clocks unasked: a worker pulls at its first step only.
  bool subscribed() const { return gate == Gate::kSubscribed; }
  // A worker asks shard k when shard k-1 has answered, so that workers which wait at several shards
  // for each other wait in one order.
  bool ordered_reads() const { return gate == Gate::kValue; }
  // Every leaf of every clock gets in: leaves of lost workers are taken over by the others.
  bool adopts() const { return fixed_tree && gate == Gate::kRounds && !tree(); }
  // Groups of workers have servers of their own, between them and the root's (levels.h).
  bool tree() const { return topology == Topology::kServers && group > 0; }
  // A worker may ask a shard for the values of its next clock as soon as it has told that shard its
  // clock, and use them shard by shard, as it comes to the layers they belong to.
  bool pulls_ahead() const {
    return exchange == Exchange::kGradient && !deferred() && !subscribed() && !skips() && !tree();
  }
  // Rounds go on without the slow, who go on from a later clock.
  bool skips() const { return decentralised() || gate == Gate::kBackup; }
  // A batch may be shared out unevenly: gradients are weighted by their samples, and each gets in.
  bool weighs_samples() const {
    return exchange == Exchange::kGradient && gate != Gate::kBackup && !tree();
  }
  // Rows of tables can be pulled and pushed by key: every step asks for the rows it needs, and what
  // is pushed is a gradient that the job's optimizer takes as it is.
  bool takes_tables() const {
    return exchange == Exchange::kGradient && !skips() && !subscribed() && !tree() &&
           gate != Gate::kValue && store.kind == StoreRule::Kind::kOptimizer;
  }
  // Shards may take an update and apply it later, in the order of arrival.
  bool deferred() const { return gate == Gate::kBatched || gate == Gate::kValue; }
};

}  // namespace soapstone::consistency
