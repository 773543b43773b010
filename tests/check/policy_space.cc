#include "tests/check/policy_space.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/random.h"
#include "glog/logging.h"
#include "tests/check/policy_state.h"

namespace soapstone::check {
namespace {

using consistency::Action;
using consistency::ActionKind;
using consistency::Actions;
using consistency::Policy;
using consistency::Ticket;

// A push's ticket: worker, life and clock.
constexpr uint64_t kPullTickets = 1'000'000;
constexpr uint64_t kTicketsPerWorker = 10'000;
constexpr uint64_t kTicketsPerLife = 100;
class Explorer {
 public:
  explicit Explorer(const SpaceOptions& options)
      : options_(options), traits_(*consistency::ParsePolicy(options.policy)) {
    bound_ = traits_.guarantee.read_lag_max;
    gap_ = traits_.guarantee.clock_gap_max;
    snapshot_ = traits_.guarantee.snapshot_reads;
    consistency::PolicyTraits gate = traits_;
    if (options.mutant == Mutant::kBoundPlusOne) gate.bound += 1;
    if (options.mutant == Mutant::kBoundMinusOne) gate.bound -= 1;
    if (options.mutant == Mutant::kCreditUnbounded) gate.bound = options.clocks;
    if (options.mutant == Mutant::kNoSnapshot) gate = *consistency::ParsePolicy("ssp:s=0");
    if (traits_.subscribed() || traits_.deferred()) options_.parking = true;
    gate_traits_ = gate;
  }

  SpaceReport Run() {
    std::vector<State> stack = {Initial()};
    visited_.insert(stack.back().Print());
    while (!stack.empty()) {
      const State state = std::move(stack.back());
      stack.pop_back();
      ++report_.states;
      CheckGap(state);
      bool moved = false;
      Successors(state, [&](State next) {
        moved = true;
        ++report_.transitions;
        if (visited_.insert(next.Print()).second) stack.push_back(std::move(next));
      });
      if (moved) continue;
      if (Finished(state)) {
        CheckEnd(state);
      } else {
        ++report_.deadlocks;
        report_.violations.insert("S5 deadlock");
      }
    }
    return report_;
  }

  // One path through the space after another, each drawn at random, until `reads` reads have been
  // checked. Faults are rare, so that there is something for them to interrupt.
  SpaceReport Walk(uint64_t reads, uint64_t seed) {
    constexpr uint64_t kFaultEvery = 64;
    constexpr uint64_t kIdleMax = 100'000;  // draws of moves that are not enabled
    const CounterRandom random(seed, RandomUse::kTest, 0);
    uint64_t draw = 0;
    while (reads_ < reads) {
      State s = Initial();
      for (uint64_t idle = 0; idle < kIdleMax && !Finished(s);) {
        const uint64_t bits = random.Bits(draw++);
        const bool fault = bits % kFaultEvery == 0;
        const Kind kind = fault ? kFaults[(bits >> 8) % std::size(kFaults)]
                                : kSteps[(bits >> 8) % std::size(kSteps)];
        const Move move = {kind, static_cast<uint32_t>((bits >> 16) % P()),
                           static_cast<uint32_t>((bits >> 32) % K())};
        ++idle;
        if (!Enabled(s, move) || !Do(&s, move)) continue;
        idle = 0;
        ++report_.transitions;
        CheckGap(s);
      }
      if (!Finished(s)) report_.violations.insert("S5 deadlock");
      ++report_.states;
      if (!report_.violations.empty()) break;
    }
    report_.reads = reads_;
    return report_;
  }

 private:
  uint32_t P() const { return options_.workers; }
  uint32_t K() const { return options_.shards; }
  bool Is(Mutant mutant) const { return options_.mutant == mutant; }

  Policy NewPolicy() const { return Policy(gate_traits_, /*bucket_count=*/1, /*leaf_count=*/P()); }

  State Initial() const {
    State s;
    s.issued.assign(P(), 0);
    s.alive.assign(P(), true);
    for (auto* mask :
         {&s.life, &s.read, &s.parked, &s.subscribed, &s.to_evict, &s.to_prepare, &s.to_commit}) {
      mask->assign(P(), 0);
    }
    s.start.assign(P(), kNoClock);
    s.chan.assign(P(), std::vector<std::deque<Item>>(K()));
    s.applied.assign(K(), std::vector<Clock>(P(), 0));
    s.computing.assign(K(), std::vector<Clock>(P(), kNoClock));
    s.unseen.assign(K(), std::vector<uint32_t>(P() * P(), 0));
    s.now.assign(K(), 0);
    for (uint32_t k = 0; k < K(); ++k) {
      s.policy.push_back(NewPolicy());
      for (uint32_t w = 0; w < P(); ++w) s.policy[k].OnJoin(WorkerId{w}, 0);
    }
    s.crashes = options_.crashes;
    s.leaves = options_.leaves;
    s.joins = options_.joins;
    s.restores = options_.restores;
    s.duplicates = options_.duplicates;
    return s;
  }

  bool Finished(const State& s) const {
    for (uint32_t w = 0; w < P(); ++w) {
      if (s.alive[w] && s.issued[w] < options_.clocks) return false;
    }
    return true;
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
      // A member that is gone, or not yet started, promises nothing.
      if (u == w || !s.alive[u]) continue;
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
    Observe(*s, w, k);
    s->read[w] |= 1u << k;
    s->parked[w] &= ~(1u << k);
    s->computing[k][w] = s->issued[w];
    for (uint32_t u = 0; u < P(); ++u) s->unseen[k][w * P() + u] = 0;
    if (traits_.guarantee.own_writes && s->applied[k][w] < s->issued[w] && s->chan[w][k].empty()) {
      report_.violations.insert("S2 own writes");
    }
  }

  // At the end everything that was pushed is in the store, once the policy was told of the end.
  void CheckEnd(const State& s) {
    State end = s;
    for (uint32_t k = 0; k < K(); ++k) {
      if (!Is(Mutant::kNoDrain)) CarryOut(&end, k, end.policy[k].OnDrain());
      for (uint32_t w = 0; w < P(); ++w) {
        if (end.alive[w] && end.applied[k][w] != end.issued[w]) {
          report_.violations.insert("S6 lost or doubled");
        }
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

  void CountApplied(State* s, uint32_t k, uint64_t ticket) {
    const uint32_t w = static_cast<uint32_t>(ticket / kTicketsPerWorker);
    if (ticket % kTicketsPerWorker / kTicketsPerLife != s->life[w]) return;  // of its former life
    const Clock clock = static_cast<Clock>(ticket % kTicketsPerLife);
    if (s->applied[k][w] != clock) report_.violations.insert("S6 lost or doubled");
    s->applied[k][w] = clock + 1;
    CountUnseen(s, w, k, clock);
  }

  void CarryOut(State* s, uint32_t k, const Actions& actions, bool lose_replies = false) {
    bool skip_gather = Is(Mutant::kGatherLosesFirst);
    for (const Action& action : actions) {
      const uint64_t ticket = static_cast<uint64_t>(action.ticket);
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

  // Values that a worker did not ask for count while it has not begun.
  void TakeUnasked(State* s, uint32_t k, const Action& action) {
    const uint32_t w = Index(action.worker);
    const bool waits =
        s->alive[w] && s->issued[w] == action.clock && s->issued[w] < options_.clocks;
    if (waits && (s->subscribed[w] >> k & 1u) != 0) GrantRead(s, w, k);
  }

  // ---- What can happen

  // Shard and worker are looked at as far as the kind needs them.
  enum class Kind : uint8_t {
    kPull,
    kTick,
    kDeliver,
    kDeliverFirstClock,  // before the updates in front of it (a mutant's)
    kDuplicate,
    kEvict,
    kPrepare,
    kCommit,
    kJoin,
    kStart,
    kCrash,
    kLeave,
    kRestore,
  };
  static constexpr Kind kSteps[] = {Kind::kPull,  Kind::kPull,    Kind::kTick,   Kind::kDeliver,
                                    Kind::kEvict, Kind::kPrepare, Kind::kCommit, Kind::kStart};
  static constexpr Kind kFaults[] = {Kind::kDuplicate, Kind::kJoin, Kind::kCrash, Kind::kLeave,
                                     Kind::kRestore};
  struct Move {
    Kind kind{};
    uint32_t w = 0;
    uint32_t k = 0;
  };

  void Successors(const State& s, const std::function<void(State)>& add) {
    const auto add_if = [&](Move move) {
      if (!Enabled(s, move)) return;
      State next = s;
      if (Do(&next, move)) add(std::move(next));
    };
    for (uint32_t w = 0; w < P(); ++w) {
      for (uint32_t k = 0; k < K(); ++k) {
        for (const Kind kind : {Kind::kPull, Kind::kDeliver, Kind::kDeliverFirstClock,
                                Kind::kDuplicate, Kind::kEvict, Kind::kPrepare, Kind::kCommit}) {
          add_if({kind, w, k});
        }
      }
      for (const Kind kind : {Kind::kTick, Kind::kJoin, Kind::kStart, Kind::kCrash, Kind::kLeave}) {
        add_if({kind, w, 0});
      }
    }
    for (uint32_t k = 0; k < K(); ++k) add_if({Kind::kRestore, 0, k});
  }

  bool Enabled(const State& s, Move move) const {
    const Kind kind = move.kind;
    const uint32_t w = move.w, k = move.k;
    const uint32_t all = (1u << K()) - 1;
    const auto has = [&](const std::vector<uint32_t>& mask) { return (mask[w] >> k & 1u) != 0; };
    switch (kind) {
      case Kind::kPull:
        return CanPull(s, w, k);
      case Kind::kTick:
        return s.alive[w] && s.issued[w] < options_.clocks && s.read[w] == all;
      case Kind::kDeliver:
        return !s.chan[w][k].empty();
      case Kind::kDeliverFirstClock:
        return Is(Mutant::kClockOvertakes) && s.chan[w][k].size() > 1;
      case Kind::kDuplicate:
        return s.duplicates > 0 && !s.chan[w][k].empty();
      case Kind::kEvict:
        return has(s.to_evict);
      case Kind::kPrepare:
        return has(s.to_prepare);
      case Kind::kCommit:
        return s.to_prepare[w] == 0 && has(s.to_commit);
      case Kind::kJoin:
        return s.joins > 0 && !s.alive[w] && s.start[w] == kNoClock && s.to_evict[w] == 0;
      case Kind::kStart:
        return !s.alive[w] && s.start[w] != kNoClock && s.to_prepare[w] == 0 && s.to_commit[w] == 0;
      case Kind::kCrash:
        return s.crashes > 0 && s.alive[w];
      case Kind::kLeave:
        return s.leaves > 0 && CanLeave(s, w);
      case Kind::kRestore:
        return s.restores > 0;
    }
    return false;
  }

  bool CanPull(const State& s, uint32_t w, uint32_t k) const {
    if (!s.alive[w] || s.issued[w] >= options_.clocks) return false;
    if (((s.read[w] | s.parked[w] | s.subscribed[w]) >> k & 1u) != 0) return false;
    // Where a read waits for own updates that are kept, it must not overtake them: as on the wire.
    if (traits_.deferred() && traits_.guarantee.own_writes && !s.chan[w][k].empty()) return false;
    if (traits_.ordered_reads() && k > 0 && (s.read[w] >> (k - 1) & 1u) == 0) return false;
    return !Is(Mutant::kOneShardGate) || k == 0 || (s.read[w] & 1u) != 0;
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
        s->alive[w] = true;
        s->issued[w] = s->start[w];
        if (Is(Mutant::kJoinAhead)) s->issued[w] = JoinAheadClock(*s);
        s->start[w] = kNoClock;
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
    }
    return true;
  }

  bool Pull(State* s, uint32_t w, uint32_t k) {
    const bool one_gate = Is(Mutant::kOneShardGate);
    s->parked[w] |= 1u << k;
    s->computing[k][w] = kNoClock;
    const Actions actions = s->policy[one_gate ? 0 : k].OnPull(
        {.worker = WorkerId{w}, .clock = s->issued[w], .ticket = Ticket{kPullTickets + w}});
    CarryOut(s, k, actions);
    const bool replied = (s->read[w] >> k & 1u) != 0;
    if (!replied && ((one_gate && k > 0) || Is(Mutant::kHeldSkipsQueue))) {
      GrantRead(s, w, k);
    } else if (!replied && !options_.parking) {
      return false;
    }
    if (traits_.subscribed()) s->subscribed[w] |= 1u << k;
    return true;
  }

  void Tick(State* s, uint32_t w) {
    for (uint32_t k = 0; k < K(); ++k) {
      s->chan[w][k].push_back({false, s->issued[w]});
      if (!options_.one_message) s->chan[w][k].push_back({true, s->issued[w] + 1});
      if (Is(Mutant::kIssuedClockGate)) {
        CarryOut(s, k, s->policy[k].OnClock(ClockOf(*s, w, k, s->issued[w] + 1)));
      }
    }
    ++s->issued[w];
    s->read[w] = 0;
  }

  void Deliver(State* s, uint32_t w, uint32_t k) {
    const Item item = s->chan[w][k].front();
    s->chan[w][k].pop_front();
    if (traits_.gate == consistency::Gate::kDynamic) ++s->now[k];
    Take(s, w, k, item);
    if (options_.one_message) Take(s, w, k, {true, item.clock + 1});
  }

  void DeliverFirstClock(State* s, uint32_t w, uint32_t k) {
    auto& channel = s->chan[w][k];
    const auto clock = std::find_if(channel.begin(), channel.end(),
                                    [](const Item& item) { return item.is_clock; });
    if (clock == channel.end()) return;
    const Item item = *clock;
    channel.erase(clock);
    CarryOut(s, k, s->policy[k].OnClock(ClockOf(*s, w, k, item.clock)));
  }

  void Take(State* s, uint32_t w, uint32_t k, const Item& item) {
    if (!s->policy[k].clocks().Contains(WorkerId{w})) return;  // the shard no longer knows it
    if (!item.is_clock && Is(Mutant::kClockOvertakes)) {
      // The mutant's gate has moved on; the update is applied all the same.
      s->applied[k][w] = std::max(s->applied[k][w], item.clock + 1);
    } else if (!item.is_clock) {
      const Ticket ticket{w * kTicketsPerWorker + s->life[w] * kTicketsPerLife +
                          static_cast<uint64_t>(item.clock)};
      if (Is(Mutant::kIssuedClockGate)) {
        CarryOut(s, k, {{ActionKind::kApply, ticket}});
        return;
      }
      Actions actions = s->policy[k].OnPush({.now = s->now[k],
                                             .worker = WorkerId{w},
                                             .clock = item.clock,
                                             .leaves = {w, w + 1},
                                             .ticket = ticket,
                                             .mass = Is(Mutant::kMassIgnored) ? 0.0 : 1.0});
      if (Is(Mutant::kDuplicateApplied) && actions.front().kind == ActionKind::kDrop) {
        actions.front().kind = ActionKind::kApply;
      }
      CarryOut(s, k, actions);
    } else {
      if (s->computing[k][w] < item.clock) s->computing[k][w] = kNoClock;
      if (Is(Mutant::kSendWithoutGate)) {
        CarryOut(s, k, {{.kind = ActionKind::kSend, .worker = WorkerId{w}, .clock = item.clock}});
      }
      CarryOut(s, k, s->policy[k].OnClock(ClockOf(*s, w, k, item.clock)));
      if (Is(Mutant::kReleaseOnAnyClock)) {
        for (uint32_t u = 0; u < P(); ++u) {
          if ((s->parked[u] >> k & 1u) != 0) GrantRead(s, u, k);
        }
      }
    }
  }

  static consistency::ClockEvent ClockOf(const State& s, uint32_t w, uint32_t k, Clock completed) {
    return {.now = s.now[k], .worker = WorkerId{w}, .completed = completed};
  }

  // A shard hears of a change of members.
  void Install(State* s, Move move) {
    const auto [kind, w, k] = move;
    Policy& policy = s->policy[k];
    if (kind == Kind::kEvict) {
      s->to_evict[w] &= ~(1u << k);
      if (Is(Mutant::kLeaveKeepsMember)) return;
      return CarryOut(s, k, policy.OnLeave(WorkerId{w}), Is(Mutant::kLeaveWakesNobody));
    }
    if (kind == Kind::kPrepare) {
      s->to_prepare[w] &= ~(1u << k);
      const Clock frontier = policy.clocks().members() == 0 ? 0 : policy.Frontier();
      const Clock at = Is(Mutant::kJoinAtZero) ? 0 : frontier;
      CarryOut(s, k, policy.OnJoin(WorkerId{w}, at));
      s->start[w] = std::max(s->start[w], at);
      s->applied[k][w] = at;
      return;
    }
    s->to_commit[w] &= ~(1u << k);
    CarryOut(s, k, policy.OnJoin(WorkerId{w}, s->start[w]));
    s->applied[k][w] = s->start[w];
  }

  Clock JoinAheadClock(const State& s) const {
    Clock high = 0;
    for (uint32_t u = 0; u < P(); ++u) {
      if (s.alive[u]) high = std::max(high, s.issued[u]);
    }
    return std::min(options_.clocks, high + 2);
  }

  // Each shard hears of it in its own time.
  void EndLife(State* s, uint32_t w) {
    ++s->life[w];
    s->alive[w] = false;
    s->to_evict[w] = (1u << K()) - 1;
    s->read[w] = s->parked[w] = s->subscribed[w] = 0;
    for (uint32_t k = 0; k < K(); ++k) s->computing[k][w] = kNoClock;
  }

  // The shard's process restarts from what it had made durable: its values and applied clocks.
  // Parked pulls are lost, and asked again.
  void Restore(State* s, uint32_t k) {
    --s->restores;
    for (uint32_t w = 0; w < P(); ++w) {
      s->subscribed[w] &= ~(1u << k);
      s->parked[w] &= ~(1u << k);
    }
    if (traits_.gate != consistency::Gate::kBounded) return;
    const Policy before = std::exchange(s->policy[k], NewPolicy());
    for (uint32_t w = 0; w < P(); ++w) {
      Clock clock = before.clocks().Of(WorkerId{w});
      if (clock == kNoClock) continue;
      if (Is(Mutant::kRestoreLosesClocks)) clock = 0;
      if (Is(Mutant::kRestoreAheadOfClocks)) clock = before.clocks().Max();
      CarryOut(s, k, s->policy[k].OnJoin(WorkerId{w}, clock));
    }
  }

  SpaceOptions options_;
  consistency::PolicyTraits traits_;
  consistency::PolicyTraits gate_traits_;
  std::optional<Clock> bound_;
  std::optional<Clock> gap_;
  bool snapshot_ = false;
  SpaceReport report_;
  uint64_t reads_ = 0;
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited_;
};

}  // namespace

std::string Name(Mutant mutant) {
  switch (mutant) {
    case Mutant::kNone:
      return "none";
    case Mutant::kIssuedClockGate:
      return "gate on issued clocks";
    case Mutant::kBoundPlusOne:
      return "bound off by one, loose";
    case Mutant::kBoundMinusOne:
      return "bound off by one, strict";
    case Mutant::kOneShardGate:
      return "gate on one shard, read all";
    case Mutant::kNoSnapshot:
      return "bsp without snapshots";
    case Mutant::kClockOvertakes:
      return "clocks on a channel of their own";
    case Mutant::kLeaveWakesNobody:
      return "leave does not wake the parked";
    case Mutant::kLeaveKeepsMember:
      return "leave keeps the member's clock";
    case Mutant::kRestoreLosesClocks:
      return "restore loses the vector clock";
    case Mutant::kRestoreAheadOfClocks:
      return "restore rounds clocks up";
    case Mutant::kJoinAtZero:
      return "newcomer starts at clock 0";
    case Mutant::kJoinAhead:
      return "newcomer starts ahead";
    case Mutant::kReleaseOnAnyClock:
      return "any clock releases the parked";
    case Mutant::kDuplicateApplied:
      return "a duplicate is applied again";
    case Mutant::kSendsLost:
      return "values sent unasked are lost";
    case Mutant::kSendWithoutGate:
      return "values sent whatever the bound";
    case Mutant::kCreditUnbounded:
      return "credit beyond the upper bound";
    case Mutant::kGatherTwice:
      return "gathered twice";
    case Mutant::kGatherLosesFirst:
      return "the first gathered is forgotten";
    case Mutant::kNoDrain:
      return "the end is not told";
    case Mutant::kMassIgnored:
      return "updates count as weightless";
    case Mutant::kHeldSkipsQueue:
      return "a kept update lets a read pass";
  }
  return "?";
}

SpaceReport ExploreSpace(const SpaceOptions& options) { return Explorer(options).Run(); }

SpaceReport WalkSpace(const SpaceOptions& options, uint64_t reads, uint64_t seed) {
  return Explorer(options).Walk(reads, seed);
}

}  // namespace soapstone::check
