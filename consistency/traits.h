// PolicyTraits: everything that the rest of the system must know of a policy, as data: the gate of
// the shards and its numbers, what workers exchange, what the store does with an update, and the
// guarantee. Made by ParsePolicy (catalogue.h); a value.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

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

// ---- The gate that the shards run, with its numbers; each has a file pair in gates/.

// round_gate: versions, one a round.
struct RoundTraits {
  friend bool operator==(const RoundTraits&, const RoundTraits&) = default;
};
// bounded_gate: a read waits for min applied >= c - bound.
struct BoundedTraits {
  Clock bound = kClockMax;  // s
  friend bool operator==(const BoundedTraits&, const BoundedTraits&) = default;
};
// subscribed_gate: the same, and shards send fresh values unasked.
struct SubscribedTraits {
  Clock bound = kClockMax;  // s
  friend bool operator==(const SubscribedTraits&, const SubscribedTraits&) = default;
};
// dynamic_gate: a bound in [lower, upper], from measured intervals.
struct DynamicTraits {
  Clock lower = 0;
  Clock upper = kClockMax;
  friend bool operator==(const DynamicTraits&, const DynamicTraits&) = default;
};
// sampled_gate: barriers that ask a few peers, or block with a probability.
struct SampledTraits {
  Clock bound = kClockMax;       // s
  uint32_t sample = 0;           // peers asked; 0: all
  double block_probability = 1;  // of blocking where the bound would
  uint64_t seed = 0;
  friend bool operator==(const SampledTraits&, const SampledTraits&) = default;
};
// batch_gate: no gate; updates of several arrivals.
struct BatchTraits {
  uint32_t batches = 1;    // n; an update takes floor(P/n) arrivals
  bool rate_each = false;  // divide by each gradient's own staleness
  friend bool operator==(const BatchTraits&, const BatchTraits&) = default;
};
// value_gate: a bound on unseen update mass.
struct ValueTraits {
  double value = 0;  // v0
  friend bool operator==(const ValueTraits&, const ValueTraits&) = default;
};
// backup_gate: versions, without the last few of each round.
struct BackupTraits {
  uint32_t spare = 0;  // b
  friend bool operator==(const BackupTraits&, const BackupTraits&) = default;
};
using GateTraits = std::variant<BoundedTraits, RoundTraits, SubscribedTraits, DynamicTraits,
                                SampledTraits, BatchTraits, ValueTraits, BackupTraits>;

// ---- How peers exchange, where workers keep the parameters: each worker has a peer beside it
// (server/peer/peer.h), and the shards only gather the mean at the end. A file pair each in peers/.

// Of collectives: whether a round waits for all.
enum class Partial : uint8_t { kNone, kSolo, kMajority };

enum class Graph : uint8_t { kRing, kExponential, kComplete, kRotating };

// collective: rounds that sum all gradients.
struct CollectiveTraits {
  Partial partial = Partial::kNone;
  uint32_t group = 0;  // ranks of a group; 0: one flat ring
  uint64_t seed = 0;   // of Partial::kMajority
  friend bool operator==(const CollectiveTraits&, const CollectiveTraits&) = default;
};
// mixing: averages with neighbours in lock step.
struct MixingTraits {
  Graph graph = Graph::kRing;
  uint64_t seed = 0;  // of Graph::kRotating
  friend bool operator==(const MixingTraits&, const MixingTraits&) = default;
};
// push_sum: halves sent on, nobody waits.
struct PushSumTraits {
  Graph graph = Graph::kRing;
  friend bool operator==(const PushSumTraits&, const PushSumTraits&) = default;
};
// pairwise: exchanges of two.
struct PairwiseTraits {
  Graph graph = Graph::kRing;
  uint64_t seed = 0;
  friend bool operator==(const PairwiseTraits&, const PairwiseTraits&) = default;
};
using PeerTraits = std::variant<CollectiveTraits, MixingTraits, PushSumTraits, PairwiseTraits>;

// ---- What workers exchange, and with whom.

// Pull parameters, push the gradient, every clock.
struct GradientExchange {
  uint32_t group = 0;  // ranks of a branch of the tree of servers; 0: no tree
  friend bool operator==(const GradientExchange&, const GradientExchange&) = default;
};
// Keep own parameters; every `period` steps pull the centre, push the elastic force.
struct ElasticExchange {
  Clock period = 1;           // tau: local steps between exchanges
  double beta = 0;            // alpha = beta / (number of replicas)
  double local_momentum = 0;  // > 0: local steps are Nesterov's with it (EAMSGD)
  friend bool operator==(const ElasticExchange&, const ElasticExchange&) = default;
};
// Pull parameters, make `period` local steps, push how far they led.
struct DeltaExchange {
  Clock period = 1;             // h
  bool fresh_momentum = false;  // local optimizer state is forgotten at each exchange
  friend bool operator==(const DeltaExchange&, const DeltaExchange&) = default;
};
// With the worker's own peer, every clock; shards see its final values only.
struct PeerExchange {
  PeerTraits peers;
  friend bool operator==(const PeerExchange&, const PeerExchange&) = default;
};
using Exchange = std::variant<GradientExchange, ElasticExchange, DeltaExchange, PeerExchange>;

// ---- What a shard's store does with one update.

// The job's optimizer, with the sum of gradients.
struct OptimizerRule {
  bool mean = false;  // over the samples there are, not over a full batch's
  friend bool operator==(const OptimizerRule&, const OptimizerRule&) = default;
};
// The same, each gradient corrected for its delay first (DC-ASGD).
struct CompensatedRule {
  double lambda = 0;      // lambda_0
  double mean_decay = 0;  // m of the mean square; 0: lambda is constant
  friend bool operator==(const CompensatedRule&, const CompensatedRule&) = default;
};
// centre += sum of the elastic forces.
struct ElasticRule {
  friend bool operator==(const ElasticRule&, const ElasticRule&) = default;
};
// parameters += mean of the deltas, weighted by samples.
struct AverageRule {
  friend bool operator==(const AverageRule&, const AverageRule&) = default;
};
// The same, through a momentum over blocks (BMUF).
struct BlockMomentumRule {
  double momentum = -1;  // eta; negative: 1 - 1/P
  double rate = 1;       // zeta
  bool nesterov = true;
  friend bool operator==(const BlockMomentumRule&, const BlockMomentumRule&) = default;
};
// parameters := mean of the values, weighted by samples.
struct MeanRule {
  friend bool operator==(const MeanRule&, const MeanRule&) = default;
};
using StoreRule = std::variant<OptimizerRule, CompensatedRule, ElasticRule, AverageRule,
                               BlockMomentumRule, MeanRule>;

struct PolicyTraits {
  std::string spec;  // canonical text, e.g. "ssp:s=2"

  GateTraits gate;
  Exchange exchange;
  bool fixed_tree = false;  // gradients are pushed by nodes of the fixed tree (leaf_tree.h)
  StoreRule store;
  Guarantee guarantee;
  friend bool operator==(const PolicyTraits&, const PolicyTraits&) = default;

  bool decentralised() const { return std::holds_alternative<PeerExchange>(exchange); }
  // How its peers exchange. REQUIRES: decentralised().
  const PeerTraits& peers() const { return std::get<PeerExchange>(exchange).peers; }
  // What shards take at every clock is a gradient.
  bool pushes_gradients() const { return std::holds_alternative<GradientExchange>(exchange); }
  // A worker's device goes on from its own parameters, and loads others' at exchanges only.
  bool keeps_parameters() const {
    return std::holds_alternative<ElasticExchange>(exchange) ||
           std::holds_alternative<DeltaExchange>(exchange);
  }
  // Local steps between exchanges; 1: every clock.
  Clock period() const {
    if (const auto* elastic = std::get_if<ElasticExchange>(&exchange)) return elastic->period;
    if (const auto* delta = std::get_if<DeltaExchange>(&exchange)) return delta->period;
    return 1;
  }
  // Of local steps; 0: they are the job's optimizer's.
  double local_momentum() const {
    const auto* elastic = std::get_if<ElasticExchange>(&exchange);
    return elastic != nullptr ? elastic->local_momentum : 0;
  }
  // The shard-visible clocks of a run of `steps` local steps: ceil(steps / period); of a
  // decentralised one, the hand-in.
  Clock Rounds(Clock steps) const {
    return decentralised() ? std::min<Clock>(steps, 1) : (steps + period() - 1) / period();
  }
  // Shards answer clocks unasked: a worker pulls at its first step only.
  bool subscribed() const { return std::holds_alternative<SubscribedTraits>(gate); }
  // A worker asks shard k when shard k-1 has answered, so that workers which wait at several shards
  // for each other wait in one order.
  bool ordered_reads() const { return std::holds_alternative<ValueTraits>(gate); }
  // Every micro-batch of every clock gets in: micro-batches of lost workers are taken over by the
  // others.
  bool takes_over() const {
    return fixed_tree && std::holds_alternative<RoundTraits>(gate) && !tree();
  }
  // Groups of workers have servers of their own, between them and the root's (levels.h).
  bool tree() const { return group() > 0; }
  // Ranks of a branch of the tree; 0: there is no tree.
  uint32_t group() const {
    const auto* gradient = std::get_if<GradientExchange>(&exchange);
    return gradient != nullptr ? gradient->group : 0;
  }
  // A worker may ask a shard for the values of its next clock as soon as it has told that shard its
  // clock, and use them shard by shard, as it comes to the layers they belong to.
  bool pulls_ahead() const {
    return pushes_gradients() && !deferred() && !subscribed() && !skips() && !tree();
  }
  // Rounds go on without the slow, who go on from a later clock.
  bool skips() const { return decentralised() || backup(); }
  // Rounds are closed without the lost as they are without the slow.
  bool backup() const { return std::holds_alternative<BackupTraits>(gate); }
  // Members without whose update a round is closed: b of `backup`, else none.
  uint32_t spare() const {
    const auto* rounds = std::get_if<BackupTraits>(&gate);
    return rounds != nullptr ? rounds->spare : 0;
  }
  // A batch may be shared out unevenly: gradients are weighted by their samples, and each gets in.
  bool weighs_samples() const { return pushes_gradients() && !backup() && !tree(); }
  // Rows of tables can be pulled and pushed by key: every step asks for the rows it needs, and what
  // is pushed is a gradient that the job's optimizer takes as it is.
  bool takes_tables() const {
    return pushes_gradients() && !skips() && !subscribed() && !tree() && !ordered_reads() &&
           std::holds_alternative<OptimizerRule>(store);
  }
  // Shards may take an update and apply it later, in the order of arrival.
  bool deferred() const {
    return std::holds_alternative<BatchTraits>(gate) || std::holds_alternative<ValueTraits>(gate);
  }
};

}  // namespace soapstone::consistency
