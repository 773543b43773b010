// ShardRules: what the shards of a policy space do, and what must hold of it: the policies' actions
// carried out, and each read and each update checked against what truly is applied. The base of
// MemberRules (member_rules.h), on which stands what can happen (space_moves.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "consistency/catalogue.h"
#include "consistency/policy.h"
#include "tests/check/mutant_table.h"
#include "tests/check/policy_space.h"
#include "tests/check/policy_state.h"

namespace soapstone::check {

using consistency::Action;
using consistency::ActionKind;
using consistency::Actions;
using consistency::Policy;
using consistency::Ticket;

// A push's ticket: micro-batch, worker, life and clock.
constexpr uint64_t kPullTickets = 1'000'000;
constexpr uint64_t kTicketsPerMicroBatch = 100'000;
constexpr uint64_t kTicketsPerWorker = 10'000;
constexpr uint64_t kTicketsPerLife = 100;

inline uint32_t WorkerOf(uint64_t ticket) {
  return static_cast<uint32_t>(ticket % kTicketsPerMicroBatch / kTicketsPerWorker);
}
inline uint32_t LifeOf(uint64_t ticket) {
  return static_cast<uint32_t>(ticket % kTicketsPerWorker / kTicketsPerLife);
}
inline Clock ClockOf(uint64_t ticket) { return static_cast<Clock>(ticket % kTicketsPerLife); }
inline uint32_t MicroBatchOf(uint64_t ticket) {
  return static_cast<uint32_t>(ticket / kTicketsPerMicroBatch);
}

class ShardRules {
 protected:
  explicit ShardRules(const SpaceOptions& options)
      : options_(options), traits_(*consistency::ParsePolicy(options.policy)) {
    bound_ = traits_.guarantee.read_lag_max;
    gap_ = traits_.guarantee.clock_gap_max;
    snapshot_ = traits_.guarantee.snapshot_reads;
    // Barriers that ask all others promise what a bound does.
    const auto* sampled = std::get_if<consistency::SampledTraits>(&traits_.gate);
    const bool asks_all =
        sampled != nullptr && sampled->sample > 0 && sampled->sample + 1 >= options.workers;
    if (asks_all) bound_ = sampled->bound;
    consistency::PolicyTraits gate = traits_;
    Clock* const bound = BoundOf(&gate.gate);
    if (options.mutant == Mutant::kBoundMinusOne && bound != nullptr) *bound -= 1;
    if (options.mutant == Mutant::kCreditUnbounded && bound != nullptr) *bound = options.clocks;
    if (options.mutant == Mutant::kBoundPlusOne) {
      if (bound != nullptr) *bound += 1;
      // Rounds have no bound to loosen: reads gated from below, one too early, in their place.
      if (snapshot_) gate = *consistency::ParsePolicy("ssp:s=1");
    }
    if (options.mutant == Mutant::kNoSnapshot) gate = *consistency::ParsePolicy("ssp:s=0");
    if (traits_.subscribed() || traits_.deferred()) options_.parking = true;
    gate_traits_ = gate;
    // Shards are asked in turn, or one for all: then their names matter.
    const bool in_turn = traits_.ordered_reads() || options.mutant == Mutant::kOneShardGate;
    options_.symmetric = options.symmetric && !in_turn;
  }

  uint32_t P() const { return options_.workers; }
  uint32_t K() const { return options_.shards; }
  bool Is(Mutant mutant) const { return options_.mutant == mutant; }

  Policy NewPolicy() const {
    return Policy(gate_traits_, /*bucket_count=*/1, /*micro_batch_count=*/P());
  }

  void Fill(State* s) const {
    s->issued.assign(P(), 0);
    s->alive.assign(P(), true);
    s->out.assign(P(), false);
    for (auto* mask : {&s->life, &s->read, &s->parked, &s->subscribed, &s->down, &s->answered,
                       &s->lost, &s->to_evict, &s->to_prepare, &s->to_commit, &s->planned}) {
      mask->assign(P(), 0);
    }
    s->start.assign(P(), kNoClock);
    s->members.assign(P(), 0);
    s->heard.assign(P(), s->members);
    s->to_hear.assign(P(), false);
    s->chan.assign(P(), std::vector<std::deque<Item>>(K()));
    s->applied.assign(K(), std::vector<Clock>(P(), 0));
    s->computing.assign(K(), std::vector<Clock>(P(), kNoClock));
    s->unseen.assign(K(), std::vector<uint32_t>(P() * P(), 0));
    s->now.assign(K(), 0);
    s->held.resize(K());
    for (uint32_t k = 0; k < K(); ++k) {
      s->policy.push_back(NewPolicy());
      for (uint32_t w = 0; w < P(); ++w) s->policy[k].OnJoin(WorkerId{w}, 0);
    }
    s->crashes = options_.crashes;
    s->leaves = options_.leaves;
    s->joins = options_.joins;
    s->restores = options_.restores;
    s->duplicates = options_.duplicates;
    s->breaks = options_.breaks;
    s->losses = options_.losses;
  }

  void CheckGap(const State& s) {
    Clock low = kClockMax;
    Clock high = kNoClock;
    for (uint32_t w = 0; w < P(); ++w) {
      if (!s.alive[w]) continue;
      low = std::min(low, s.issued[w]);
      high = std::max(high, s.issued[w]);
    }
    if (high == kNoClock) return;
    report_.gap_max = std::max(report_.gap_max, high - low);
    if (gap_.has_value() && high - low > *gap_) report_.violations.insert("S3 gap");
  }

  // A read of shard k by w takes place now: checked against what truly is applied there.
  void Observe(const State& s, uint32_t w, uint32_t k) {
    ++reads_;
    bool bad = false;
    for (uint32_t u = 0; u < P(); ++u) {
      // A member that is gone, or not yet started, promises nothing, unless others make its
      // micro-batches.
      if (u == w || (!s.alive[u] && !traits_.takes_over())) continue;
      const Clock lag = s.issued[w] - s.applied[k][u];
      report_.lag_max = std::max(report_.lag_max, lag);
      if (bound_.has_value() && lag > *bound_) {
        bad = true;
        report_.violations.insert("S1 lag");
      }
      if (snapshot_ && lag != 0) {
        bad = true;
        report_.violations.insert("B1 not one version");
      }
    }
    if (bad) ++report_.bad_reads;
  }

  void GrantRead(State* s, uint32_t w, uint32_t k) {
    if (Has(s->lost, w, k)) return;
    Observe(*s, w, k);
    (Has(s->down, w, k) ? s->answered : s->read)[w] |= 1u << k;
    if (!Has(s->down, w, k)) s->parked[w] &= ~(1u << k);
    s->computing[k][w] = s->issued[w];
    for (uint32_t u = 0; u < P(); ++u) s->unseen[k][w * P() + u] = 0;
    if (traits_.guarantee.own_writes && s->applied[k][w] < s->issued[w] && s->chan[w][k].empty()) {
      report_.violations.insert("S2 own writes");
    }
  }

  // At the end everything that was pushed is in the store, once the policy was told of the end.
  void CheckEnd(const State& s) {
    State end = s;
    const bool any = std::find(s.alive.begin(), s.alive.end(), true) != s.alive.end();
    for (uint32_t k = 0; k < K(); ++k) {
      if (!Is(Mutant::kNoDrain)) CarryOut(&end, k, end.policy[k].OnDrain());
      for (uint32_t w = 0; w < P(); ++w) {
        const bool owed = traits_.takes_over() ? any : end.alive[w];
        const Clock due = traits_.takes_over() ? options_.clocks : end.issued[w];
        if (owed && end.applied[k][w] != due) report_.violations.insert("S6 lost or doubled");
      }
    }
  }

  // V1: what a computing peer has not seen of w's updates fits the bound, or is one update.
  void CountUnseen(State* s, uint32_t w, uint32_t k, Clock clock) {
    for (uint32_t u = 0; u < P(); ++u) {
      if (u == w || !s->alive[u] || s->computing[k][u] == kNoClock) continue;
      const uint32_t unseen = ++s->unseen[k][u * P() + w];
      const auto& v0 = traits_.guarantee.unseen_max;
      if (!v0.has_value() || unseen == 1) continue;
      if (unseen > *v0 / std::sqrt(static_cast<double>(clock) + 1)) {
        report_.violations.insert("V1 unseen mass");
      }
    }
  }

  // An update goes into the store: the next of its worker, or, where micro-batches are taken over,
  // the next of its micro-batch, whoever made it.
  void CountApplied(State* s, uint32_t k, uint64_t ticket) {
    const bool first = ticket == 0;  // of worker 0, at clock 0
    if (Is(Mutant::kUpdateLost) && first) return;
    const uint32_t w = WorkerOf(ticket);
    const uint32_t slot = traits_.takes_over() ? MicroBatchOf(ticket) : w;
    if (!traits_.takes_over() && LifeOf(ticket) != s->life[w]) return;  // of its former life
    const Clock clock = ClockOf(ticket);
    for (int i = 0; i < (Is(Mutant::kUpdateTwice) && first ? 2 : 1); ++i) {
      if (s->applied[k][slot] != clock) report_.violations.insert("S6 lost or doubled");
      s->applied[k][slot] = clock + 1;
    }
    CountUnseen(s, w, k, clock);
  }

  void CarryOut(State* s, uint32_t k, const Actions& actions, bool lose_replies = false) {
    bool skip_gather = Is(Mutant::kGatherLosesFirst);
    for (const Action& action : actions) {
      const uint64_t ticket = static_cast<uint64_t>(action.ticket);
      if (action.kind == ActionKind::kHold) {
        s->held[k].push_back(ticket);
      } else if (ticket < kPullTickets) {
        std::erase(s->held[k], ticket);
      }
      switch (action.kind) {
        case ActionKind::kApply:
          CountApplied(s, k, ticket);
          break;
        case ActionKind::kGather:
          if (!std::exchange(skip_gather, false)) CountApplied(s, k, ticket);
          if (Is(Mutant::kGatherTwice)) CountApplied(s, k, ticket);
          break;
        case ActionKind::kReject:
          if (ticket < kPullTickets) report_.violations.insert("S6 lost or doubled");
          break;
        case ActionKind::kReply: {
          const uint32_t w = static_cast<uint32_t>(ticket - kPullTickets);
          // A pull that is not parked any more was lost with a shard's restart.
          if (!lose_replies && (s->parked[w] >> k & 1u) != 0) GrantRead(s, w, k);
          break;
        }
        case ActionKind::kSend:
          if (!Is(Mutant::kSendsLost)) TakeUnasked(s, k, action);
          break;
        default:
          break;
      }
    }
  }

  static bool Has(const std::vector<uint32_t>& mask, uint32_t w, uint32_t k) {
    return (mask[w] >> k & 1u) != 0;
  }
  // Its process runs, whether or not it is counted out.
  static bool Runs(const State& s, uint32_t w) { return s.alive[w] || s.out[w]; }

  // Values that a worker did not ask for count while it has not begun.
  void TakeUnasked(State* s, uint32_t k, const Action& action) {
    const uint32_t w = Index(action.worker);
    const bool waits =
        Runs(*s, w) && s->issued[w] == action.clock && s->issued[w] < options_.clocks;
    if (waits && (s->subscribed[w] >> k & 1u) != 0) GrantRead(s, w, k);
  }

  SpaceOptions options_;
  consistency::PolicyTraits traits_;
  consistency::PolicyTraits gate_traits_;
  std::optional<Clock> bound_;
  std::optional<Clock> gap_;
  bool snapshot_ = false;
  SpaceReport report_;
  uint64_t reads_ = 0;
};

}  // namespace soapstone::check
