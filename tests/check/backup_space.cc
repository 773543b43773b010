#include "tests/check/backup_space.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "consistency/policy.h"

namespace soapstone::check {
namespace {

using consistency::Action;
using consistency::ActionKind;
using consistency::Actions;
using consistency::Policy;
using consistency::Ticket;

constexpr uint64_t kPullTickets = 1'000'000;
constexpr uint64_t kTicketsPerWorker = 10'000;
constexpr uint64_t kTicketsPerLife = 100;

struct Item {
  bool is_clock = false;
  Clock clock = 0;
  bool is_pull = false;  // asked over a connection that was broken then
};

struct ShardItem {
  Clock clock = 0;
  std::vector<WorkerId> workers;  // held: one; chosen: the set
};

struct State {
  std::vector<Clock> issued;  // by worker: clock of its next update
  std::vector<bool> alive;
  std::vector<uint32_t> life, parked, to_evict, to_prepare, to_commit;  // masks: of shards
  std::vector<Clock> start;                                             // while joining
  // Of connections, as policy_state.h has them; `answered` has the version.
  std::vector<uint32_t> down, lost;
  std::vector<std::vector<Clock>> answered;
  std::vector<bool> out;
  uint32_t leader_down = 0;              // mask: shards whose connection with 0 is broken
  std::vector<std::vector<Clock>> seen;  // [worker][shard]: version read, or kNoClock
  std::vector<std::vector<std::deque<Item>>> chan;        // [worker][shard]
  std::vector<std::deque<ShardItem>> to_lead, from_lead;  // by shard
  std::vector<std::vector<uint32_t>> rounds;              // [shard]: workers taken, by round
  std::vector<Clock> since;                               // shard 0: member from this round on
  std::vector<Policy> policy;
  int crashes = 0, leaves = 0, joins = 0, restores = 0, duplicates = 0, breaks = 0, losses = 0;

  std::pair<uint64_t, uint64_t> Print() const {
    Fingerprint f;
    for (size_t w = 0; w < issued.size(); ++w) {
      f.Add(issued[w]);
      f.Add(static_cast<bool>(alive[w]));
      for (const auto* mask : {&life, &parked, &down, &lost, &to_evict, &to_prepare, &to_commit}) {
        f.Add((*mask)[w]);
      }
      f.Add(start[w]);
      f.Add(since[w]);
      f.Add(static_cast<bool>(out[w]));
      for (const Clock version : seen[w]) f.Add(version);
      for (const Clock version : answered[w]) f.Add(version);
      for (const auto& channel : chan[w]) {
        f.Add(channel.size());
        for (const Item& item : channel) {
          f.Add((item.clock << 2) | (item.is_pull ? 2 : 0) | (item.is_clock ? 1 : 0));
        }
      }
    }
    for (const auto* channels : {&to_lead, &from_lead}) {
      for (const auto& channel : *channels) {
        f.Add(channel.size());
        for (const ShardItem& item : channel) {
          f.Add(item.clock);
          for (const WorkerId worker : item.workers) f.Add(worker);
        }
      }
    }
    for (const auto& shard : rounds) {
      f.Add(shard.size());
      for (const uint32_t taken : shard) f.Add(taken);
    }
    for (const Policy& p : policy) p.AddTo(&f);
    for (const int left : {crashes, leaves, joins, restores, duplicates, breaks, losses})
      f.Add(left);
    f.Add(leader_down);
    return f.value();
  }
};

class Explorer {
 public:
  explicit Explorer(const BackupOptions& options) : options_(options) {
    uint32_t spare = options.spare;
    if (Is(BackupMutant::kOneTooFew)) ++spare;
    if (Is(BackupMutant::kOneTooMany)) --spare;
    traits_ = *consistency::ParsePolicy(absl::StrCat("backup:b=", spare));
  }

  BackupReport Run() {
    std::vector<State> stack = {Initial()};
    visited_.insert(stack.back().Print());
    while (!stack.empty() && !Over()) {
      const State state = std::move(stack.back());
      stack.pop_back();
      ++report_.states;
      bool moved = false;
      Successors(state, [&](State next) {
        moved = true;
        ++report_.transitions;
        if (visited_.insert(next.Print()).second) stack.push_back(std::move(next));
      });
      if (!moved) CheckEnd(state);
    }
    return report_;
  }

 private:
  bool Over() const {
    return (options_.until_violation && !report_.violations.empty()) ||
           (options_.until_deadlock && report_.violations.contains("S5 deadlock"));
  }
  uint32_t P() const { return options_.workers; }
  uint32_t K() const { return options_.shards; }
  uint32_t all() const { return (1u << K()) - 1; }
  bool Is(BackupMutant mutant) const { return options_.mutant == mutant; }
  void Violate(const char* what) { report_.violations.insert(what); }

  State Initial() const {
    State s;
    s.issued.assign(P(), 0);
    s.alive.assign(P(), true);
    for (auto* mask :
         {&s.life, &s.parked, &s.down, &s.lost, &s.to_evict, &s.to_prepare, &s.to_commit}) {
      mask->assign(P(), 0);
    }
    s.start.assign(P(), kNoClock);
    s.since.assign(P(), 0);
    s.seen.assign(P(), std::vector<Clock>(K(), kNoClock));
    s.answered = s.seen;
    s.out.assign(P(), false);
    s.chan.assign(P(), std::vector<std::deque<Item>>(K()));
    s.to_lead.resize(K());
    s.from_lead.resize(K());
    s.rounds.resize(K());
    for (uint32_t k = 0; k < K(); ++k) {
      const consistency::ShardSeat seat = {ShardId{k}, K()};
      s.policy.emplace_back(traits_, /*bucket_count=*/1, /*leaf_count=*/P(),
                            Is(BackupMutant::kEachShardChooses) ? consistency::ShardSeat{} : seat);
      for (uint32_t w = 0; w < P(); ++w) s.policy[k].OnJoin(WorkerId{w}, 0);
    }
    s.crashes = options_.crashes;
    s.leaves = options_.leaves;
    s.joins = options_.joins;
    s.restores = options_.restores;
    s.duplicates = options_.duplicates;
    s.breaks = options_.breaks;
    s.losses = options_.losses;
    return s;
  }

  // Nothing can happen any more: then all is done, and alike on all shards.
  void CheckEnd(const State& s) {
    if (std::none_of(s.alive.begin(), s.alive.end(), [](bool alive) { return alive; })) return;
    for (uint32_t w = 0; w < P(); ++w) {
      if (s.alive[w] && s.issued[w] < options_.clocks) Violate("S5 deadlock");
    }
    for (uint32_t k = 0; k < K(); ++k) {
      if (s.policy[k].Frontier() != options_.clocks) Violate("S5 deadlock");
    }
  }

  // ---- What the shards do

  void CarryOut(State* s, uint32_t k, const Actions& actions) {
    uint32_t taken = 0;
    const Clock open = static_cast<Clock>(s->rounds[k].size());
    for (const Action& action : actions) {
      const uint64_t ticket = static_cast<uint64_t>(action.ticket);
      switch (action.kind) {
        case ActionKind::kGather: {
          const uint32_t one = Gather(*s, ticket, open);
          const bool first = ticket == 0;  // of worker 0, at clock 0
          if (first && Is(BackupMutant::kUpdateLost)) break;
          for (int i = 0; i < (first && Is(BackupMutant::kUpdateTwice) ? 2 : 1); ++i) {
            if ((taken & one) != 0) Violate("S6 twice in a round");
            taken |= one;
          }
          break;
        }
        case ActionKind::kLeaveOut:
          ++report_.left_out;
          if (Is(BackupMutant::kLateApplied)) taken |= Gather(*s, ticket, open);
          if (static_cast<Clock>(ticket % kTicketsPerLife) > open) Violate("S6 lost");
          break;
        case ActionKind::kReject:
          Violate("S6 refused");
          break;
        case ActionKind::kApplyGathered:
          s->rounds[k].push_back(std::exchange(taken, 0));
          CheckRound(*s, k);
          break;
        case ActionKind::kReply:
          Grant(s, static_cast<uint32_t>(ticket - kPullTickets), k);
          break;
        case ActionKind::kTellHeld:
          s->to_lead[k].push_back({action.clock, {action.worker}});
          break;
        case ActionKind::kTellChosen:
          TellChosen(s, action.clock);
          break;
        default:
          break;
      }
    }
  }

  uint32_t Gather(const State& s, uint64_t ticket, Clock open) {
    const uint32_t w = static_cast<uint32_t>(ticket / kTicketsPerWorker);
    const bool former = ticket % kTicketsPerWorker / kTicketsPerLife != s.life[w];
    if (former && Is(BackupMutant::kLostForgotten)) return 0;
    if (static_cast<Clock>(ticket % kTicketsPerLife) != open) Violate("S6 of another round");
    return 1u << w;
  }

  void TellChosen(State* s, Clock clock) {
    const absl::Span<const WorkerId> set = s->policy[0].chosen();
    for (uint32_t k = 1; k < K() && !Is(BackupMutant::kChosenLost); ++k) {
      s->from_lead[k].push_back({clock, {set.begin(), set.end()}});
    }
  }

  // K1: the same set on all shards, of N members.
  void CheckRound(const State& s, uint32_t k) {
    const size_t round = s.rounds[k].size() - 1;
    const uint32_t taken = s.rounds[k][round];
    for (const auto& other : s.rounds) {
      if (other.size() > round && other[round] != taken) Violate("K1 shards took other sets");
    }
    if (k != 0) return;
    const auto members = std::count_if(s.since.begin(), s.since.end(), [&](Clock since) {
      return since != kNoClock && since <= static_cast<Clock>(round);
    });
    const int64_t due = std::max<int64_t>(1, members - int64_t{options_.spare});
    if (__builtin_popcount(taken) != due) Violate("K1 not P - b updates");
  }

  // An answer to w, which does not begin before all are of one version.
  void Grant(State* s, uint32_t w, uint32_t k) {
    if (!Has(s->parked, w, k)) return;  // was lost with a restart, and asked again
    if (Has(s->lost, w, k)) return;
    const Clock version = s->policy[k].Frontier();
    if (version != static_cast<Clock>(s->rounds[k].size())) Violate("B1 rounds missing");
    if (Has(s->down, w, k)) {
      s->answered[w][k] = version;
    } else {
      TakeAnswer(s, w, k, version);
    }
  }

  void TakeAnswer(State* s, uint32_t w, uint32_t k, Clock version) {
    s->parked[w] &= ~(1u << k);
    s->seen[w][k] = version;
    if (Is(BackupMutant::kVersionsMixed)) return;
    if (version < s->issued[w]) s->seen[w][k] = kNoClock;  // of before the jump: asks again
    if (version <= s->issued[w]) return;
    ++report_.jumps;
    s->issued[w] = version;
    for (uint32_t other = 0; other < K(); ++other) {
      if (other != k) s->seen[w][other] = kNoClock;
    }
  }

  static bool Has(const std::vector<uint32_t>& mask, uint32_t w, uint32_t k) {
    return (mask[w] >> k & 1u) != 0;
  }
  // Its process runs, whether or not it is counted out.
  static bool Runs(const State& s, uint32_t w) { return s.alive[w] || s.out[w]; }

  // ---- What can happen

  void Successors(const State& s, const std::function<void(State)>& add) {
    for (uint32_t w = 0; w < P(); ++w) {
      WorkerMoves(s, w, add);
      for (uint32_t k = 0; k < K(); ++k) {
        if (!s.chan[w][k].empty() && !Has(s.down, w, k)) DeliverMoves(s, w, k, add);
        MembershipMoves(s, w, k, add);
      }
      JoinMoves(s, w, add);
      FaultMoves(s, w, add);
    }
    for (uint32_t k = 1; k < K(); ++k) {
      if ((s.leader_down >> k & 1u) == 0) ShardMoves(s, k, add);
    }
    if (options_.breaks + options_.losses > 0) LinkMoves(s, add);
    for (uint32_t k = 0; k < K() && s.restores > 0; ++k) add(Restore(s, k));
  }

  void WorkerMoves(const State& s, uint32_t w, const std::function<void(State)>& add) {
    if (!Runs(s, w) || s.issued[w] >= options_.clocks) return;
    bool ready = true;
    for (uint32_t k = 0; k < K(); ++k) {
      if (s.seen[w][k] != kNoClock) continue;
      ready = false;
      if (Has(s.parked, w, k) || Has(s.lost, w, k)) continue;
      State next = s;
      Pull(&next, w, k);
      add(std::move(next));
    }
    if (ready) add(Tick(s, w));
  }

  void Pull(State* s, uint32_t w, uint32_t k) {
    s->parked[w] |= 1u << k;
    if (Has(s->down, w, k)) {
      s->chan[w][k].push_back({.clock = s->issued[w], .is_pull = true});
    } else {
      TakePull(s, w, k, s->issued[w]);
    }
  }

  // A shard takes none of one that is no member (any more).
  void TakePull(State* s, uint32_t w, uint32_t k, Clock clock) {
    if (s->out[w] && !s->policy[k].clocks().Contains(WorkerId{w})) return;
    CarryOut(s, k,
             s->policy[k].OnPull(
                 {.worker = WorkerId{w}, .clock = clock, .ticket = Ticket{kPullTickets + w}}));
  }

  State Tick(const State& s, uint32_t w) {
    State next = s;
    for (uint32_t k = 0; k < K(); ++k) {
      if (s.seen[w][k] != s.seen[w][0]) Violate("B1 versions mixed");
      if (!Has(s.lost, w, k)) {
        next.chan[w][k].push_back({false, s.issued[w]});
        if (!options_.one_message) next.chan[w][k].push_back({true, s.issued[w] + 1});
      }
      next.seen[w][k] = kNoClock;
    }
    ++next.issued[w];
    return next;
  }

  void DeliverMoves(const State& s, uint32_t w, uint32_t k, const std::function<void(State)>& add) {
    State next = s;
    const Item item = next.chan[w][k].front();
    next.chan[w][k].pop_front();
    if (item.is_pull) {
      TakePull(&next, w, k, item.clock);
      return add(std::move(next));
    }
    Take(&next, w, k, item);
    if (options_.one_message) Take(&next, w, k, {true, item.clock + 1});
    add(std::move(next));
    if (s.duplicates == 0) return;
    State twice = s;
    --twice.duplicates;
    twice.chan[w][k].push_front(Item(twice.chan[w][k].front()));
    add(std::move(twice));
  }

  void Take(State* s, uint32_t w, uint32_t k, const Item& item) {
    if (!s->policy[k].clocks().Contains(WorkerId{w})) return;  // the shard no longer knows it
    if (!item.is_clock) {
      const Ticket ticket{w * kTicketsPerWorker + s->life[w] * kTicketsPerLife +
                          static_cast<uint64_t>(item.clock)};
      CarryOut(s, k,
               s->policy[k].OnPush({.worker = WorkerId{w},
                                    .clock = item.clock,
                                    .leaves = {w, w + 1},
                                    .ticket = ticket}));
      return;
    }
    CarryOut(s, k, s->policy[k].OnClock({.worker = WorkerId{w}, .completed = item.clock}));
    for (uint32_t other = 1; other < K() && k == 0 && Is(BackupMutant::kChoosesOnOwnClock);
         ++other) {
      CarryOut(s, 0, s->policy[0].OnHeld(ShardId{other}, WorkerId{w}, item.clock - 1));
    }
  }

  void ShardMoves(const State& s, uint32_t k, const std::function<void(State)>& add) {
    if (!s.to_lead[k].empty()) {
      State next = s;
      const ShardItem item = next.to_lead[k].front();
      next.to_lead[k].pop_front();
      CarryOut(&next, 0, next.policy[0].OnHeld(ShardId{k}, item.workers[0], item.clock));
      if (Is(BackupMutant::kHeldUnchecked) && s.duplicates < options_.duplicates) {
        CarryOut(&next, 0, next.policy[0].OnHeld(ShardId{0}, item.workers[0], item.clock));
      }
      add(std::move(next));
    }
    if (!s.from_lead[k].empty()) {
      State next = s;
      const ShardItem item = next.from_lead[k].front();
      next.from_lead[k].pop_front();
      const bool unchecked = Is(BackupMutant::kChosenUnchecked);
      CarryOut(&next, k,
               next.policy[k].OnChosen(unchecked ? next.policy[k].Frontier() : item.clock,
                                       item.workers));
      add(std::move(next));
    }
    if (s.duplicates == 0) return;
    for (const auto channels : {&State::to_lead, &State::from_lead}) {
      if ((s.*channels)[k].empty()) continue;
      State twice = s;
      --twice.duplicates;
      auto& channel = (twice.*channels)[k];
      channel.push_front(ShardItem(channel.front()));
      add(std::move(twice));
    }
  }

  void MembershipMoves(const State& s, uint32_t w, uint32_t k,
                       const std::function<void(State)>& add) {
    if ((s.to_evict[w] >> k & 1u) != 0) {
      State next = s;
      next.to_evict[w] &= ~(1u << k);
      if (k == 0) next.since[w] = kNoClock;
      const Actions actions = next.policy[k].OnLeave(WorkerId{w});
      if (!Is(BackupMutant::kLeaveWakesNobody)) {
        CarryOut(&next, k, actions);
      } else if (!actions.empty()) {
        next.policy[k] = s.policy[k];  // as if it had not heard of it
      }
      add(std::move(next));
    }
    if ((s.to_prepare[w] >> k & 1u) != 0) {
      State next = s;
      next.to_prepare[w] &= ~(1u << k);
      const Clock at = s.policy[k].Frontier();
      CarryOut(&next, k, next.policy[k].OnJoin(WorkerId{w}, at));
      next.start[w] = std::max(next.start[w], at);
      if (k == 0) next.since[w] = at;
      add(std::move(next));
    }
    if (s.to_prepare[w] == 0 && (s.to_commit[w] >> k & 1u) != 0) {
      State next = s;
      next.to_commit[w] &= ~(1u << k);
      if (next.policy[k].clocks().Of(WorkerId{w}) < s.start[w]) {
        CarryOut(&next, k, next.policy[k].OnJoin(WorkerId{w}, s.start[w]));
        if (k == 0) next.since[w] = s.start[w];
      }
      add(std::move(next));
    }
  }

  void JoinMoves(const State& s, uint32_t w, const std::function<void(State)>& add) {
    if (!Runs(s, w) && s.start[w] == kNoClock && s.to_evict[w] == 0 && s.joins > 0) {
      State next = s;
      --next.joins;
      next.start[w] = 0;
      next.to_prepare[w] = next.to_commit[w] = all();
      add(std::move(next));
    }
    if (!s.alive[w] && s.start[w] != kNoClock && s.to_prepare[w] == 0 && s.to_commit[w] == 0) {
      State next = s;
      next.alive[w] = true;
      next.issued[w] = s.start[w];
      next.start[w] = kNoClock;
      add(std::move(next));
    }
  }

  void FaultMoves(const State& s, uint32_t w, const std::function<void(State)>& add) {
    if (!s.alive[w] || std::count(s.alive.begin(), s.alive.end(), true) < 2) return;
    const auto gone = [&](int State::*budget) {
      State next = s;
      --(next.*budget);
      next.alive[w] = false;
      ++next.life[w];
      next.parked[w] = 0;
      next.seen[w].assign(K(), kNoClock);
      next.to_evict[w] = all();
      return next;
    };
    if (s.crashes > 0) {
      State next = gone(&State::crashes);
      for (auto& channel : next.chan[w]) channel.clear();
      add(std::move(next));
    }
    // A clean leave: at a clock boundary, when the shards have taken everything it sent.
    const bool drained = std::all_of(s.chan[w].begin(), s.chan[w].end(),
                                     [](const auto& channel) { return channel.empty(); });
    const bool reading = s.parked[w] != 0 || s.seen[w] != std::vector<Clock>(K(), kNoClock);
    if (s.leaves > 0 && drained && !reading) add(gone(&State::leaves));
  }

  // ---- Connections

  void LinkMoves(const State& s, const std::function<void(State)>& add) {
    for (uint32_t w = 0; w < P(); ++w) {
      for (uint32_t k = 0; k < K(); ++k) BreakMoves(s, w, k, add);
      if (s.alive[w] && s.lost[w] != 0 && !Is(BackupMutant::kNoLinkLost)) {
        State next = s;
        next.alive[w] = false;
        next.out[w] = true;
        next.to_evict[w] = all();
        add(std::move(next));
      }
      if (s.out[w]) add(Shutdown(s, w));
    }
    for (uint32_t k = 1; k < K(); ++k) LeaderBreakMoves(s, k, add);
  }

  void BreakMoves(const State& s, uint32_t w, uint32_t k, const std::function<void(State)>& add) {
    if (Has(s.down, w, k)) return add(Resume(s, w, k));
    if (!Runs(s, w) || Has(s.lost, w, k)) return;
    const bool asks = s.seen[w][k] == kNoClock && s.issued[w] < options_.clocks;
    if (s.breaks > 0) {
      State next = s;
      --next.breaks;
      next.down[w] |= 1u << k;
      if (!s.chan[w][k].empty() || Has(s.parked, w, k)) add(next);
      // After a pull came and before its answer did.
      if (asks && !Has(s.parked, w, k)) {
        next.parked[w] |= 1u << k;
        TakePull(&next, w, k, s.issued[w]);
        add(std::move(next));
      }
    }
    if (s.losses > 0 && s.alive[w] && std::count(s.alive.begin(), s.alive.end(), true) > 1) {
      State next = s;
      --next.losses;
      next.lost[w] |= 1u << k;
      next.chan[w][k].clear();
      add(std::move(next));
    }
  }

  State Resume(const State& s, uint32_t w, uint32_t k) {
    State next = s;
    next.down[w] &= ~(1u << k);
    const Clock version = std::exchange(next.answered[w][k], kNoClock);
    if (Is(BackupMutant::kNoResume)) {
      next.chan[w][k].clear();
    } else if (version != kNoClock) {
      TakeAnswer(&next, w, k, version);
    }
    return next;
  }

  // For what shards tell each other a break is a delay.
  void LeaderBreakMoves(const State& s, uint32_t k, const std::function<void(State)>& add) {
    const bool down = (s.leader_down >> k & 1u) != 0;
    if (!down && (s.breaks == 0 || (s.to_lead[k].empty() && s.from_lead[k].empty()))) return;
    State next = s;
    next.leader_down ^= 1u << k;
    if (!down) --next.breaks;
    if (down && Is(BackupMutant::kNoResume)) {
      next.to_lead[k].clear();
      next.from_lead[k].clear();
    }
    add(std::move(next));
  }

  // It hears that it is counted out; what it has under way is lost.
  State Shutdown(const State& s, uint32_t w) {
    State next = s;
    next.out[w] = false;
    ++next.life[w];
    next.parked[w] = next.down[w] = next.lost[w] = 0;
    next.seen[w].assign(K(), kNoClock);
    next.answered[w].assign(K(), kNoClock);
    for (auto& channel : next.chan[w]) channel.clear();
    return next;
  }

  // From the policy's value. Parked pulls are lost, and asked again.
  State Restore(const State& s, uint32_t k) {
    State next = s;
    --next.restores;
    for (uint32_t w = 0; w < P(); ++w) next.parked[w] &= ~(1u << k);
    return next;
  }

  BackupOptions options_;
  consistency::PolicyTraits traits_;
  BackupReport report_;
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited_;
};

}  // namespace

std::string Name(BackupMutant mutant) {
  switch (mutant) {
    case BackupMutant::kNone:
      return "none";
    case BackupMutant::kEachShardChooses:
      return "each shard chooses for itself";
    case BackupMutant::kChoosesOnOwnClock:
      return "chosen before all shards hold it";
    case BackupMutant::kOneTooFew:
      return "rounds of one too few";
    case BackupMutant::kOneTooMany:
      return "rounds of one too many";
    case BackupMutant::kChosenLost:
      return "the choice does not arrive";
    case BackupMutant::kChosenUnchecked:
      return "an old choice counts for the open round";
    case BackupMutant::kHeldUnchecked:
      return "held twice counts as two shards";
    case BackupMutant::kLateApplied:
      return "late updates are applied";
    case BackupMutant::kVersionsMixed:
      return "versions of shards are mixed";
    case BackupMutant::kLostForgotten:
      return "updates of the lost are forgotten";
    case BackupMutant::kLeaveWakesNobody:
      return "leave does not close a round";
    case BackupMutant::kNoResume:
      return "no resume";
    case BackupMutant::kNoLinkLost:
      return "no word of the loss";
    case BackupMutant::kUpdateLost:
      return "an update is lost";
    case BackupMutant::kUpdateTwice:
      return "an update goes in twice";
  }
  return "?";
}

BackupReport ExploreBackup(const BackupOptions& options) { return Explorer(options).Run(); }

}  // namespace soapstone::check
