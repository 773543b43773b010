#include "tests/check/backup_space.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "tests/check/backup_rules.h"
#include "tests/check/backup_state.h"

namespace soapstone::check {
namespace {

class Explorer : private BackupRules {
 public:
  explicit Explorer(const BackupOptions& options) : BackupRules(options) {}

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
                                    .micro_batches = {w, w + 1},
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

  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> visited_;
};

}  // namespace

BackupReport ExploreBackup(const BackupOptions& options) { return Explorer(options).Run(); }

}  // namespace soapstone::check
