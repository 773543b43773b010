// MemberRules: how the members of a policy space come and go, and what that takes: micro-batches of
// the lost that others make, shards that learn of a change in their own time, processes that end,
// and a shard's that is restored. Between ShardRules and SpaceMoves, which says when any of it can
// happen.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/check/shard_rules.h"

namespace soapstone::check {

class MemberRules : protected ShardRules {
 protected:
  explicit MemberRules(const SpaceOptions& options) : ShardRules(options) {}

  void Start(State* s, uint32_t w) {
    s->alive[w] = true;
    s->issued[w] = s->start[w];
    s->heard[w] = s->members;
    s->to_hear[w] = false;
    s->planned[w] = 0;
    if (Is(Mutant::kJoinAhead)) s->issued[w] = JoinAheadClock(*s);
    s->start[w] = kNoClock;
  }

  // ---- Micro-batches of the lost: as wire::MicroBatchesOwned and the engine have it

  // Those that w makes at `clock`, as far as it has heard who takes part.
  uint32_t MicroBatchesOf(const State& s, uint32_t w, Clock clock) const {
    if (!traits_.takes_over()) return 1u << w;
    const auto takes_part = [&](uint32_t u) {
      return s.heard[w][u] != kNoClock && clock >= s.heard[w][u];
    };
    uint32_t micro_batches = 0;
    for (uint32_t micro_batch = 0; micro_batch < P(); ++micro_batch) {
      uint32_t owner = micro_batch;
      for (uint32_t u = 0; u < P() && !takes_part(owner); ++u) owner = u;
      if (owner == w) micro_batches |= 1u << micro_batch;
    }
    return micro_batches;
  }

  void PushTakenOver(State* s, uint32_t w, uint32_t k, uint32_t micro_batches, Clock clock) {
    for (uint32_t micro_batch = 0; micro_batch < P(); ++micro_batch) {
      if ((micro_batches >> micro_batch & 1u) == 0 || Has(s->lost, w, k)) continue;
      s->chan[w][k].push_back({.clock = clock, .micro_batch = micro_batch, .taken_over = true});
    }
  }

  // While it waits for values, the step before may lack micro-batches that are now its own; those
  // of the step in hand go with it.
  void Hear(State* s, uint32_t w) {
    s->to_hear[w] = false;
    s->heard[w] = s->members;
    const Clock before = s->issued[w] - 1;
    if (!traits_.takes_over() || Is(Mutant::kNoTakeover)) return;
    if (s->read[w] == (1u << K()) - 1 || before < s->heard[w][w]) return;
    const uint32_t more = MicroBatchesOf(*s, w, before) & ~s->planned[w];
    s->planned[w] |= more;
    for (uint32_t k = 0; k < K(); ++k) PushTakenOver(s, w, k, more, before);
  }

  void TellMembers(State* s) const {
    if (!traits_.takes_over()) return;
    for (uint32_t u = 0; u < P(); ++u) s->to_hear[u] = s->alive[u];
  }

  static consistency::ClockEvent ClockEventOf(const State& s, uint32_t w, uint32_t k,
                                              Clock completed) {
    return {.now = s.now[k], .worker = WorkerId{w}, .completed = completed};
  }

  // A shard hears of a change of members.
  void Install(State* s, SpaceChoice move) {
    const auto [kind, w, k] = move;
    Policy& policy = s->policy[k];
    if (kind == SpaceChoice::Kind::kEvict) {
      s->to_evict[w] &= ~(1u << k);
      if (Is(Mutant::kLeaveKeepsMember)) return;
      return CarryOut(s, k, policy.OnLeave(WorkerId{w}), Is(Mutant::kLeaveWakesNobody));
    }
    if (kind == SpaceChoice::Kind::kPrepare) {
      s->to_prepare[w] &= ~(1u << k);
      const Clock at = Is(Mutant::kJoinAtZero) ? 0 : policy.Frontier();
      CarryOut(s, k, policy.OnJoin(WorkerId{w}, at));
      s->start[w] = std::max(s->start[w], at);
      if (!traits_.takes_over()) s->applied[k][w] = at;
      if (s->to_prepare[w] != 0) return;
      s->members[w] = s->start[w];  // the roster that fixes it goes to shards and workers
      return TellMembers(s);
    }
    s->to_commit[w] &= ~(1u << k);
    CarryOut(s, k, policy.OnJoin(WorkerId{w}, s->start[w]));
    if (!traits_.takes_over()) s->applied[k][w] = s->start[w];
  }

  Clock JoinAheadClock(const State& s) const {
    Clock high = 0;
    for (uint32_t u = 0; u < P(); ++u) {
      if (s.alive[u]) high = std::max(high, s.issued[u]);
    }
    return std::min(options_.clocks, high + 2);
  }

  void EndLife(State* s, uint32_t w) {
    CountOut(s, w);
    EndProcess(s, w);
  }

  // Each shard hears of it in its own time.
  void CountOut(State* s, uint32_t w) {
    s->alive[w] = false;
    s->to_evict[w] = (1u << K()) - 1;
    s->members[w] = kNoClock;
    TellMembers(s);
  }

  void EndProcess(State* s, uint32_t w) {
    ++s->life[w];
    s->out[w] = false;
    for (auto* mask : {&s->read, &s->parked, &s->subscribed, &s->down, &s->answered, &s->lost}) {
      (*mask)[w] = 0;
    }
    for (uint32_t k = 0; k < K(); ++k) s->computing[k][w] = kNoClock;
  }

  // The shard's process restarts from what it had made durable: its values, and whose clocks are in
  // them. Parked pulls are lost, and asked again; updates that it had taken and not applied are
  // sent again by those that are still there; where micro-batches are taken over they are in its
  // journal. Of a value policy the books on who computes with what are durable too: its policy goes
  // on as it was.
  void Restore(State* s, uint32_t k) {
    --s->restores;
    for (uint32_t w = 0; w < P(); ++w) {
      s->subscribed[w] &= ~(1u << k);
      s->parked[w] &= ~(1u << k);
    }
    if (std::holds_alternative<consistency::ValueTraits>(traits_.gate)) return;
    const Policy before = std::exchange(s->policy[k], NewPolicy());
    std::vector<std::pair<Clock, uint32_t>> members;  // ascending: rounds begin with the earliest
    for (uint32_t w = 0; w < P(); ++w) {
      Clock clock = before.clocks().Of(WorkerId{w});
      if (clock == kNoClock) continue;
      // Where micro-batches are taken over a member's clock can be ahead of the version while its
      // micro-batch is in hand from another's push: its rank's former holder, say.
      if (traits_.takes_over()) clock = std::min(clock, before.Frontier());
      for (const uint64_t ticket : s->held[k]) {
        if (WorkerOf(ticket) == w && !traits_.takes_over())
          clock = std::min(clock, ClockOf(ticket));
      }
      if (Is(Mutant::kRestoreLosesClocks)) clock = 0;
      if (Is(Mutant::kRestoreAheadOfClocks)) clock = before.clocks().Max();
      members.emplace_back(clock, w);
    }
    std::sort(members.begin(), members.end());
    for (const auto& [clock, w] : members) {
      CarryOut(s, k, s->policy[k].OnJoin(WorkerId{w}, clock));
    }
    if (traits_.takes_over()) {
      Replay(s, k, before);
    } else {
      SendAgain(s, k, before);
    }
  }

  // With the clocks that had come after them.
  void SendAgain(State* s, uint32_t k, const Policy& before) {
    std::vector<uint64_t> lost = std::exchange(s->held[k], {});
    if (Is(Mutant::kRestoreLosesHeld)) return;
    std::reverse(lost.begin(), lost.end());
    for (const uint64_t ticket : lost) {
      const uint32_t w = WorkerOf(ticket);
      if (!Runs(*s, w) || LifeOf(ticket) != s->life[w] || Has(s->lost, w, k)) continue;
      const Clock clock = ClockOf(ticket);
      if (!options_.one_message && before.clocks().Of(WorkerId{w}) > clock) {
        s->chan[w][k].push_front({.is_clock = true, .clock = clock + 1});
      }
      s->chan[w][k].push_front({.clock = clock, .micro_batch = w});
    }
  }

  // Of a micro-batch that it has a shard drops all other copies, so this one must outlive a
  // restart; the clocks that had come are in the journal as well.
  void Replay(State* s, uint32_t k, const Policy& before) {
    const std::vector<uint64_t> journal = std::exchange(s->held[k], {});
    if (Is(Mutant::kRestoreLosesHeld)) return;
    for (const uint64_t ticket : journal) {
      const uint32_t micro_batch = MicroBatchOf(ticket);
      CarryOut(s, k,
               s->policy[k].OnPush({.now = s->now[k],
                                    .worker = WorkerId{WorkerOf(ticket)},
                                    .clock = ClockOf(ticket),
                                    .micro_batches = {micro_batch, micro_batch + 1},
                                    .ticket = Ticket{ticket}}));
    }
    for (uint32_t w = 0; w < P(); ++w) {
      const Clock clock = before.clocks().Of(WorkerId{w});
      if (clock != kNoClock) CarryOut(s, k, s->policy[k].OnClock(ClockEventOf(*s, w, k, clock)));
    }
  }
};

}  // namespace soapstone::check
