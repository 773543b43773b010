// BackupRules: what the shards do in the space of `backup`, and what must hold of it: the policies'
// actions carried out, and each round that is taken checked. The base of the explorer in
// backup_space.cc, which says what can happen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "consistency/catalogue.h"
#include "consistency/policy.h"
#include "tests/check/backup_space.h"
#include "tests/check/backup_state.h"

namespace soapstone::check {

class BackupRules {
 protected:
  using State = BackupState;
  using Item = BackupItem;
  using ShardItem = BackupShardItem;
  using Action = consistency::Action;
  using ActionKind = consistency::ActionKind;
  using Actions = consistency::Actions;
  using Policy = consistency::Policy;
  using Ticket = consistency::Ticket;

  // A push's ticket: worker, life and clock.
  static constexpr uint64_t kPullTickets = 1'000'000;
  static constexpr uint64_t kTicketsPerWorker = 10'000;
  static constexpr uint64_t kTicketsPerLife = 100;

  explicit BackupRules(const BackupOptions& options) : options_(options) {
    uint32_t spare = options.spare;
    if (Is(BackupMutant::kOneTooFew)) ++spare;
    if (Is(BackupMutant::kOneTooMany)) --spare;
    traits_ = *consistency::ParsePolicy(absl::StrCat("backup:b=", spare));
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
      s.policy.emplace_back(traits_, /*bucket_count=*/1, /*micro_batch_count=*/P(),
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

  BackupOptions options_;
  consistency::PolicyTraits traits_;
  BackupReport report_;
};

}  // namespace soapstone::check
