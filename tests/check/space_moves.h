// SpaceMoves: what can happen in a state of a policy space (policy_space.h), and the state after
// it. The base of the explorer in policy_space.cc, which goes through what it says.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "tests/check/member_rules.h"
#include "tests/check/policy_state.h"

namespace soapstone::check {

class SpaceMoves : protected MemberRules {
 protected:
  using Kind = SpaceChoice::Kind;
  using Move = SpaceChoice;

  explicit SpaceMoves(const SpaceOptions& options) : MemberRules(options) {}

  static constexpr Kind kSteps[] = {Kind::kPull,  Kind::kPull,    Kind::kTick,   Kind::kDeliver,
                                    Kind::kEvict, Kind::kPrepare, Kind::kCommit, Kind::kStart,
                                    Kind::kHear,  Kind::kResume,  Kind::kSettle, Kind::kShutdown};
  static constexpr Kind kFaults[] = {Kind::kDuplicate,       Kind::kJoin,    Kind::kCrash,
                                     Kind::kLeave,           Kind::kRestore, Kind::kBreak,
                                     Kind::kBreakBehindPull, Kind::kLose};
  static bool IsFault(Kind kind) {
    return std::find(std::begin(kFaults), std::end(kFaults), kind) != std::end(kFaults);
  }

  State Initial() const {
    State s;
    Fill(&s);
    return s;
  }
  bool Finished(const State& s) const {
    for (uint32_t w = 0; w < P(); ++w) {
      if (s.alive[w] && s.issued[w] < options_.clocks) return false;
    }
    return true;
  }

  void EachMove(const std::function<void(Move)>& add) const {
    for (uint32_t w = 0; w < P(); ++w) {
      for (uint32_t k = 0; k < K(); ++k) {
        for (const Kind kind : {Kind::kPull, Kind::kDeliver, Kind::kDeliverFirstClock,
                                Kind::kDuplicate, Kind::kEvict, Kind::kPrepare, Kind::kCommit}) {
          add({kind, w, k});
        }
      }
      for (const Kind kind :
           {Kind::kTick, Kind::kJoin, Kind::kStart, Kind::kHear, Kind::kCrash, Kind::kLeave}) {
        add({kind, w, 0});
      }
    }
    for (uint32_t k = 0; k < K(); ++k) add({Kind::kRestore, 0, k});
    if (options_.breaks + options_.losses == 0) return;
    for (uint32_t w = 0; w < P(); ++w) {
      for (uint32_t k = 0; k < K(); ++k) {
        for (const Kind kind : {Kind::kBreak, Kind::kBreakBehindPull, Kind::kResume, Kind::kLose}) {
          add({kind, w, k});
        }
      }
      for (const Kind kind : {Kind::kSettle, Kind::kShutdown}) add({kind, w, 0});
    }
  }

  std::vector<Move> EnabledIn(const State& s) const {
    std::vector<Move> enabled;
    EachMove([&](Move move) {
      if (Enabled(s, move)) enabled.push_back(move);
    });
    return enabled;
  }

  bool Enabled(const State& s, Move move) const {
    const Kind kind = move.kind;
    const uint32_t w = move.w, k = move.k;
    const uint32_t all = (1u << K()) - 1;
    const auto has = [&](const std::vector<uint32_t>& mask) { return Has(mask, w, k); };
    switch (kind) {
      case Kind::kPull:
        return CanPull(s, w, k);
      case Kind::kTick:
        return Runs(s, w) && s.issued[w] < options_.clocks && s.read[w] == all;
      case Kind::kDeliver:
        return Deliverable(s, w, k);
      case Kind::kDeliverFirstClock:
        return Is(Mutant::kClockOvertakes) && s.chan[w][k].size() > 1;
      case Kind::kDuplicate:
        return s.duplicates > 0 && Deliverable(s, w, k) && !s.chan[w][k].front().is_pull;
      case Kind::kEvict:
        return has(s.to_evict);
      case Kind::kPrepare:
        return has(s.to_prepare);
      case Kind::kCommit:
        return s.to_prepare[w] == 0 && has(s.to_commit);
      case Kind::kJoin:
        return s.joins > 0 && !Runs(s, w) && s.start[w] == kNoClock && s.to_evict[w] == 0;
      case Kind::kStart:
        return CanStart(s, w);
      case Kind::kHear:
        return s.alive[w] && s.to_hear[w];
      case Kind::kCrash:
        return s.crashes > 0 && CanSpare(s, w);
      case Kind::kLeave:
        return s.leaves > 0 && CanSpare(s, w) && CanLeave(s, w);
      case Kind::kRestore:
        // A shard's successor begins connections of its own.
        return s.restores > 0 && std::none_of(s.down.begin(), s.down.end(),
                                              [&](uint32_t down) { return (down >> k & 1u) != 0; });
      case Kind::kBreak:
        return s.breaks > 0 && Runs(s, w) && !has(s.down) && !has(s.lost) &&
               (!s.chan[w][k].empty() || has(s.parked) || has(s.subscribed));
      case Kind::kBreakBehindPull:
        return s.breaks > 0 && !has(s.down) && CanPull(s, w, k);
      case Kind::kResume:
        return has(s.down);
      case Kind::kLose:
        return s.losses > 0 && CanSpare(s, w) && !has(s.down) && !has(s.lost);
      case Kind::kSettle:
        return s.alive[w] && s.lost[w] != 0 && !Is(Mutant::kNoLinkLost);
      case Kind::kShutdown:
        return s.out[w];
    }
    return false;
  }

  static bool Deliverable(const State& s, uint32_t w, uint32_t k) {
    return !s.chan[w][k].empty() && !Has(s.down, w, k);
  }

  bool CanPull(const State& s, uint32_t w, uint32_t k) const {
    if (!Runs(s, w) || s.issued[w] >= options_.clocks || Has(s.lost, w, k)) return false;
    if (((s.read[w] | s.parked[w] | s.subscribed[w]) >> k & 1u) != 0) return false;
    // Where a read waits for own updates that are kept, it must not overtake them: as on the wire.
    if (traits_.deferred() && traits_.guarantee.own_writes && !s.chan[w][k].empty()) return false;
    if (traits_.ordered_reads() && k > 0 && (s.read[w] >> (k - 1) & 1u) == 0) return false;
    return !Is(Mutant::kOneShardGate) || k == 0 || (s.read[w] & 1u) != 0;
  }

  // Without any worker the job ends.
  static bool CanSpare(const State& s, uint32_t w) {
    return s.alive[w] && std::count(s.alive.begin(), s.alive.end(), true) > 1;
  }

  // Where others take over its micro-batches: once every shard has come to its start clock, so that
  // it is not left alone with rounds that it cannot supply.
  bool CanStart(const State& s, uint32_t w) const {
    if (s.alive[w] || s.start[w] == kNoClock || s.to_prepare[w] != 0 || s.to_commit[w] != 0) {
      return false;
    }
    return !traits_.takes_over() ||
           std::all_of(s.policy.begin(), s.policy.end(),
                       [&](const Policy& policy) { return policy.Frontier() >= s.start[w]; });
  }

  // Cleanly: at a clock boundary, when the shards have taken everything it sent.
  bool CanLeave(const State& s, uint32_t w) const {
    const bool drained = std::all_of(s.chan[w].begin(), s.chan[w].end(),
                                     [](const auto& channel) { return channel.empty(); });
    return s.alive[w] && drained && s.read[w] == 0 && s.parked[w] == 0;
  }

  // REQUIRES: enabled. False: nothing came of it (a pull that is to be tried again).
  bool Do(State* s, Move move) {
    const auto [kind, w, k] = move;
    switch (kind) {
      case Kind::kPull:
        return Pull(s, w, k);
      case Kind::kTick:
        Tick(s, w);
        break;
      case Kind::kDeliver:
        Deliver(s, w, k);
        break;
      case Kind::kDeliverFirstClock:
        DeliverFirstClock(s, w, k);
        break;
      case Kind::kDuplicate:
        --s->duplicates;
        s->chan[w][k].push_front(Item(s->chan[w][k].front()));
        break;
      case Kind::kEvict:
      case Kind::kPrepare:
      case Kind::kCommit:
        Install(s, move);
        break;
      case Kind::kJoin:
        --s->joins;
        s->start[w] = 0;
        s->to_prepare[w] = s->to_commit[w] = (1u << K()) - 1;
        break;
      case Kind::kStart:
        Start(s, w);
        break;
      case Kind::kHear:
        Hear(s, w);
        break;
      case Kind::kCrash:
        --s->crashes;
        for (auto& channel : s->chan[w]) channel.clear();
        EndLife(s, w);
        break;
      case Kind::kLeave:
        --s->leaves;
        EndLife(s, w);
        break;
      case Kind::kRestore:
        Restore(s, k);
        break;
      default:
        return DoToConnection(s, move);
    }
    return true;
  }

  bool DoToConnection(State* s, Move move) {
    const auto [kind, w, k] = move;
    switch (kind) {
      case Kind::kBreak:
        --s->breaks;
        s->down[w] |= 1u << k;
        break;
      case Kind::kBreakBehindPull:
        --s->breaks;
        s->down[w] |= 1u << k;
        return TakePull(s, w, k);
      case Kind::kResume:
        Resume(s, w, k);
        break;
      case Kind::kLose:
        --s->losses;
        s->lost[w] |= 1u << k;
        s->chan[w][k].clear();
        break;
      case Kind::kSettle:
        s->out[w] = true;
        CountOut(s, w);
        break;
      default:  // kShutdown
        for (auto& channel : s->chan[w]) channel.clear();
        EndProcess(s, w);
        break;
    }
    return true;
  }

  // What is under way over a connection that broke arrives after it is made again: both ends keep
  // what the other has not acknowledged.
  void Resume(State* s, uint32_t w, uint32_t k) {
    const uint32_t bit = 1u << k;
    s->down[w] &= ~bit;
    if (Is(Mutant::kNoResume)) {
      s->chan[w][k].clear();
    } else if (Has(s->answered, w, k)) {
      s->read[w] |= bit;
      s->parked[w] &= ~bit;
    }
    s->answered[w] &= ~bit;
  }

  bool Pull(State* s, uint32_t w, uint32_t k) {
    if (!Has(s->down, w, k)) return TakePull(s, w, k);
    s->parked[w] |= 1u << k;
    s->chan[w][k].push_back({.clock = s->issued[w], .micro_batch = w, .is_pull = true});
    return true;
  }

  // The shard answers or parks it; of one that is no member (any more) it takes none.
  bool TakePull(State* s, uint32_t w, uint32_t k) {
    const bool one_gate = Is(Mutant::kOneShardGate);
    s->parked[w] |= 1u << k;
    if (!s->policy[k].clocks().Contains(WorkerId{w})) return true;
    s->computing[k][w] = kNoClock;
    const Actions actions = s->policy[one_gate ? 0 : k].OnPull(
        {.worker = WorkerId{w}, .clock = s->issued[w], .ticket = Ticket{kPullTickets + w}});
    CarryOut(s, k, actions);
    const bool replied = Has(s->read, w, k) || Has(s->answered, w, k);
    if (!replied && ((one_gate && k > 0) || Is(Mutant::kHeldSkipsQueue))) {
      GrantRead(s, w, k);
    } else if (!replied && !options_.parking) {
      return false;
    }
    if (traits_.subscribed()) s->subscribed[w] |= 1u << k;
    return true;
  }

  void Tick(State* s, uint32_t w) {
    s->planned[w] = MicroBatchesOf(*s, w, s->issued[w]);
    for (uint32_t k = 0; k < K(); ++k) {
      if (Has(s->lost, w, k)) continue;
      PushTakenOver(s, w, k, s->planned[w] & ~(1u << w), s->issued[w]);
      s->chan[w][k].push_back({false, s->issued[w], w});
      if (!options_.one_message) s->chan[w][k].push_back({true, s->issued[w] + 1});
      if (Is(Mutant::kIssuedClockGate)) {
        CarryOut(s, k, s->policy[k].OnClock(ClockEventOf(*s, w, k, s->issued[w] + 1)));
      }
    }
    ++s->issued[w];
    s->read[w] = 0;
  }

  void Deliver(State* s, uint32_t w, uint32_t k) {
    const Item item = s->chan[w][k].front();
    s->chan[w][k].pop_front();
    if (item.is_pull) {
      TakePull(s, w, k);
      return;
    }
    if (std::holds_alternative<consistency::DynamicTraits>(traits_.gate)) ++s->now[k];
    Take(s, w, k, item);
    if (options_.one_message && !item.taken_over) Take(s, w, k, {true, item.clock + 1});
  }

  void DeliverFirstClock(State* s, uint32_t w, uint32_t k) {
    auto& channel = s->chan[w][k];
    const auto clock = std::find_if(channel.begin(), channel.end(),
                                    [](const Item& item) { return item.is_clock; });
    if (clock == channel.end()) return;
    const Item item = *clock;
    channel.erase(clock);
    CarryOut(s, k, s->policy[k].OnClock(ClockEventOf(*s, w, k, item.clock)));
  }

  void Take(State* s, uint32_t w, uint32_t k, const Item& item) {
    if (!s->policy[k].clocks().Contains(WorkerId{w})) return;  // the shard no longer knows it
    if (!item.is_clock && Is(Mutant::kClockOvertakes)) {
      // The mutant's gate has moved on; the update is applied all the same.
      s->applied[k][w] = std::max(s->applied[k][w], item.clock + 1);
    } else if (!item.is_clock) {
      const uint64_t micro_batch = traits_.takes_over() ? item.micro_batch : 0;
      const uint64_t ticket_number = micro_batch * kTicketsPerMicroBatch + w * kTicketsPerWorker +
                                     s->life[w] * kTicketsPerLife +
                                     static_cast<uint64_t>(item.clock);
      const Ticket ticket{ticket_number};
      if (Is(Mutant::kIssuedClockGate)) {
        CarryOut(s, k, {{ActionKind::kApply, ticket}});
        return;
      }
      Actions actions =
          s->policy[k].OnPush({.now = s->now[k],
                               .worker = WorkerId{w},
                               .clock = item.clock,
                               .micro_batches = {item.micro_batch, item.micro_batch + 1},
                               .ticket = ticket,
                               .mass = Is(Mutant::kMassIgnored) ? 0.0 : 1.0});
      // A duplicate has the ticket of the first copy, which stays in hand.
      const bool in_hand = std::count(s->held[k].begin(), s->held[k].end(), ticket_number) > 0;
      if (in_hand && actions.front().kind == ActionKind::kDrop) return;
      if (Is(Mutant::kDuplicateApplied) && actions.front().kind == ActionKind::kDrop) {
        actions.front().kind = ActionKind::kApply;
      }
      CarryOut(s, k, actions);
    } else {
      if (s->computing[k][w] < item.clock) s->computing[k][w] = kNoClock;
      if (Is(Mutant::kSendWithoutGate)) {
        CarryOut(s, k, {{.kind = ActionKind::kSend, .worker = WorkerId{w}, .clock = item.clock}});
      }
      CarryOut(s, k, s->policy[k].OnClock(ClockEventOf(*s, w, k, item.clock)));
      if (Is(Mutant::kReleaseOnAnyClock)) {
        for (uint32_t u = 0; u < P(); ++u) {
          if ((s->parked[u] >> k & 1u) != 0) GrantRead(s, u, k);
        }
      }
    }
  }
};

}  // namespace soapstone::check
