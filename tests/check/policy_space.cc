#include "tests/check/policy_space.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "glog/logging.h"
#include "tests/check/policy_state.h"
#include "tests/check/shard_rules.h"

namespace soapstone::check {
namespace {

class Explorer : private ShardRules {
 public:
  using Kind = SpaceChoice::Kind;
  using Move = SpaceChoice;

  explicit Explorer(const SpaceOptions& options) : ShardRules(options) {}

  SpaceReport Run() {
    std::vector<State> stack = {Initial()};
    visited_.insert(PrintOf(stack.back()));
    while (!stack.empty() && !Over()) {
      const State state = std::move(stack.back());
      stack.pop_back();
      ++report_.states;
      CheckGap(state);
      bool moved = false;
      Successors(state, [&](State next) {
        moved = true;
        ++report_.transitions;
        if (visited_.insert(PrintOf(next)).second) stack.push_back(std::move(next));
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
    while (reads_ < reads && report_.violations.empty()) {
      State s = Initial();
      for (uint64_t idle = 0; idle < kIdleMax;) {
        if (Finished(s)) {
          // What is under way arrives; a newcomer may begin.
          std::vector<Move> rest = EnabledIn(s);
          std::erase_if(rest, [](const Move& move) { return IsFault(move.kind); });
          if (rest.empty()) {
            CheckEnd(s);
            break;
          }
          Do(&s, rest[random.Bits(draw++) % rest.size()]);
          continue;
        }
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
    }
    report_.reads = reads_;
    return report_;
  }

  // ---- For PolicyWorld

  State Initial() const {
    State s;
    Fill(&s);
    return s;
  }
  std::pair<uint64_t, uint64_t> PrintOf(const State& s) const {
    return s.Print(options_.symmetric, Is(Mutant::kForgetfulPrint));
  }
  std::vector<Move> EnabledIn(const State& s) const {
    std::vector<Move> enabled;
    EachMove([&](Move move) {
      if (Enabled(s, move)) enabled.push_back(move);
    });
    return enabled;
  }
  // What the guarantee says of one move, "" where it is kept.
  std::string DoAndCheck(State* s, Move move) {
    report_ = {};
    Do(s, move);
    CheckGap(*s);
    return report_.violations.empty() ? "" : *report_.violations.begin();
  }
  bool Finished(const State& s) const {
    for (uint32_t w = 0; w < P(); ++w) {
      if (s.alive[w] && s.issued[w] < options_.clocks) return false;
    }
    return true;
  }

 private:
  bool Over() const {
    return (options_.until_violation && !report_.violations.empty()) ||
           (options_.until_deadlock && report_.deadlocks > 0);
  }

  // ---- What can happen

  static constexpr Kind kSteps[] = {Kind::kPull,  Kind::kPull,    Kind::kTick,   Kind::kDeliver,
                                    Kind::kEvict, Kind::kPrepare, Kind::kCommit, Kind::kStart,
                                    Kind::kHear,  Kind::kResume,  Kind::kSettle, Kind::kShutdown};
  static constexpr Kind kFaults[] = {Kind::kDuplicate,       Kind::kJoin,    Kind::kCrash,
                                     Kind::kLeave,           Kind::kRestore, Kind::kBreak,
                                     Kind::kBreakBehindPull, Kind::kLose};
  static bool IsFault(Kind kind) {
    return std::find(std::begin(kFaults), std::end(kFaults), kind) != std::end(kFaults);
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

  void Successors(const State& s, const std::function<void(State)>& add) {
    EachMove([&](Move move) {
      if (!Enabled(s, move)) return;
      State next = s;
      if (Do(&next, move)) add(std::move(next));
    });
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

  // Where others adopt its leaves: once every shard has come to its start clock, so that it is not
  // left alone with rounds that it cannot supply.
  bool CanStart(const State& s, uint32_t w) const {
    if (s.alive[w] || s.start[w] == kNoClock || s.to_prepare[w] != 0 || s.to_commit[w] != 0) {
      return false;
    }
    return !traits_.adopts() ||
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

  void Start(State* s, uint32_t w) {
    s->alive[w] = true;
    s->issued[w] = s->start[w];
    s->heard[w] = s->members;
    s->to_hear[w] = false;
    s->planned[w] = 0;
    if (Is(Mutant::kJoinAhead)) s->issued[w] = JoinAheadClock(*s);
    s->start[w] = kNoClock;
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
    s->chan[w][k].push_back({.clock = s->issued[w], .leaf = w, .is_pull = true});
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
    s->planned[w] = LeavesOf(*s, w, s->issued[w]);
    for (uint32_t k = 0; k < K(); ++k) {
      if (Has(s->lost, w, k)) continue;
      PushAdopted(s, w, k, s->planned[w] & ~(1u << w), s->issued[w]);
      s->chan[w][k].push_back({false, s->issued[w], w});
      if (!options_.one_message) s->chan[w][k].push_back({true, s->issued[w] + 1});
      if (Is(Mutant::kIssuedClockGate)) {
        CarryOut(s, k, s->policy[k].OnClock(ClockEventOf(*s, w, k, s->issued[w] + 1)));
      }
    }
    ++s->issued[w];
    s->read[w] = 0;
  }

  // ---- Leaves of the lost: as wire::LeavesOwned and the engine have it

  // Those that w makes at `clock`, as far as it has heard who takes part.
  uint32_t LeavesOf(const State& s, uint32_t w, Clock clock) const {
    if (!traits_.adopts()) return 1u << w;
    const auto takes_part = [&](uint32_t u) {
      return s.heard[w][u] != kNoClock && clock >= s.heard[w][u];
    };
    uint32_t leaves = 0;
    for (uint32_t leaf = 0; leaf < P(); ++leaf) {
      uint32_t owner = leaf;
      for (uint32_t u = 0; u < P() && !takes_part(owner); ++u) owner = u;
      if (owner == w) leaves |= 1u << leaf;
    }
    return leaves;
  }

  void PushAdopted(State* s, uint32_t w, uint32_t k, uint32_t leaves, Clock clock) {
    for (uint32_t leaf = 0; leaf < P(); ++leaf) {
      if ((leaves >> leaf & 1u) == 0 || Has(s->lost, w, k)) continue;
      s->chan[w][k].push_back({.clock = clock, .leaf = leaf, .adopted = true});
    }
  }

  // While it waits for values, the step before may lack leaves that are now its own; those of the
  // step in hand go with it.
  void Hear(State* s, uint32_t w) {
    s->to_hear[w] = false;
    s->heard[w] = s->members;
    const Clock before = s->issued[w] - 1;
    if (!traits_.adopts() || Is(Mutant::kNoAdoption)) return;
    if (s->read[w] == (1u << K()) - 1 || before < s->heard[w][w]) return;
    const uint32_t more = LeavesOf(*s, w, before) & ~s->planned[w];
    s->planned[w] |= more;
    for (uint32_t k = 0; k < K(); ++k) PushAdopted(s, w, k, more, before);
  }

  void TellMembers(State* s) const {
    if (!traits_.adopts()) return;
    for (uint32_t u = 0; u < P(); ++u) s->to_hear[u] = s->alive[u];
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
    if (options_.one_message && !item.adopted) Take(s, w, k, {true, item.clock + 1});
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
      const uint64_t leaf = traits_.adopts() ? item.leaf : 0;
      const uint64_t ticket_number = leaf * kTicketsPerLeaf + w * kTicketsPerWorker +
                                     s->life[w] * kTicketsPerLife +
                                     static_cast<uint64_t>(item.clock);
      const Ticket ticket{ticket_number};
      if (Is(Mutant::kIssuedClockGate)) {
        CarryOut(s, k, {{ActionKind::kApply, ticket}});
        return;
      }
      Actions actions = s->policy[k].OnPush({.now = s->now[k],
                                             .worker = WorkerId{w},
                                             .clock = item.clock,
                                             .leaves = {item.leaf, item.leaf + 1},
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

  static consistency::ClockEvent ClockEventOf(const State& s, uint32_t w, uint32_t k,
                                              Clock completed) {
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
      const Clock at = Is(Mutant::kJoinAtZero) ? 0 : policy.Frontier();
      CarryOut(s, k, policy.OnJoin(WorkerId{w}, at));
      s->start[w] = std::max(s->start[w], at);
      if (!traits_.adopts()) s->applied[k][w] = at;
      if (s->to_prepare[w] != 0) return;
      s->members[w] = s->start[w];  // the roster that fixes it goes to shards and workers
      return TellMembers(s);
    }
    s->to_commit[w] &= ~(1u << k);
    CarryOut(s, k, policy.OnJoin(WorkerId{w}, s->start[w]));
    if (!traits_.adopts()) s->applied[k][w] = s->start[w];
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
  // sent again by those that are still there; where leaves are adopted they are in its journal. Of
  // a value policy the books on who computes with what are durable too: its policy goes on as it
  // was.
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
      // Where leaves are adopted a member's clock can be ahead of the version while its leaf is in
      // hand from another's push: its rank's former holder, say.
      if (traits_.adopts()) clock = std::min(clock, before.Frontier());
      for (const uint64_t ticket : s->held[k]) {
        if (WorkerOf(ticket) == w && !traits_.adopts()) clock = std::min(clock, ClockOf(ticket));
      }
      if (Is(Mutant::kRestoreLosesClocks)) clock = 0;
      if (Is(Mutant::kRestoreAheadOfClocks)) clock = before.clocks().Max();
      members.emplace_back(clock, w);
    }
    std::sort(members.begin(), members.end());
    for (const auto& [clock, w] : members) {
      CarryOut(s, k, s->policy[k].OnJoin(WorkerId{w}, clock));
    }
    if (traits_.adopts()) {
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
      s->chan[w][k].push_front({.clock = clock, .leaf = w});
    }
  }

  // Of a leaf that it has a shard drops all other copies, so this one must outlive a restart; the
  // clocks that had come are in the journal as well.
  void Replay(State* s, uint32_t k, const Policy& before) {
    const std::vector<uint64_t> journal = std::exchange(s->held[k], {});
    if (Is(Mutant::kRestoreLosesHeld)) return;
    for (const uint64_t ticket : journal) {
      const uint32_t leaf = LeafOf(ticket);
      CarryOut(s, k,
               s->policy[k].OnPush({.now = s->now[k],
                                    .worker = WorkerId{WorkerOf(ticket)},
                                    .clock = ClockOf(ticket),
                                    .leaves = {leaf, leaf + 1},
                                    .ticket = Ticket{ticket}}));
    }
    for (uint32_t w = 0; w < P(); ++w) {
      const Clock clock = before.clocks().Of(WorkerId{w});
      if (clock != kNoClock) CarryOut(s, k, s->policy[k].OnClock(ClockEventOf(*s, w, k, clock)));
    }
  }

  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited_;
};

}  // namespace

SpaceReport ExploreSpace(const SpaceOptions& options) { return Explorer(options).Run(); }

SpaceReport WalkSpace(const SpaceOptions& options, uint64_t reads, uint64_t seed) {
  return Explorer(options).Walk(reads, seed);
}

// ---- PolicyWorld

struct PolicyWorld::Inside {
  mutable Explorer explorer;
  State state;
};

PolicyWorld::PolicyWorld(const SpaceOptions& options) {
  Explorer explorer(options);
  State state = explorer.Initial();
  inside_ = std::make_shared<const Inside>(Inside{std::move(explorer), std::move(state)});
}

std::vector<SpaceChoice> PolicyWorld::Enabled() const {
  if (violation_.has_value()) return {};
  return inside_->explorer.EnabledIn(inside_->state);
}

void PolicyWorld::Do(const SpaceChoice& choice) {
  auto next = std::make_shared<Inside>(*inside_);
  const std::string what = next->explorer.DoAndCheck(&next->state, choice);
  if (!what.empty()) violation_ = what;
  inside_ = std::move(next);
}

bool PolicyWorld::Finished() const { return Enabled().empty(); }

std::string PolicyWorld::Describe(const SpaceChoice& choice) const {
  return absl::StrCat("move ", static_cast<int>(choice.kind), " of worker ", choice.w, ", shard ",
                      choice.k);
}

void PolicyWorld::AddTo(Fingerprint* f) const {
  const auto [a, b] = inside_->explorer.PrintOf(inside_->state);
  f->Add(a);
  f->Add(b);
}

}  // namespace soapstone::check
