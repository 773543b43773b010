#include "sim/checkers.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "wire/membership/membership.h"

namespace soapstone::sim {
namespace {

using wire::Message;
using wire::MessageType;

std::string Where(const server::Shard& shard) { return absl::StrCat("shard ", Index(shard.id())); }

bool Overlap(MicroBatchRange a, MicroBatchRange b) { return a.begin < b.end && b.begin < a.end; }

uint64_t TotalApplied(const std::vector<server::CountStore::Count>& counts) {
  uint64_t total = 0;
  for (const auto& count : counts) total += count.applied;
  return total;
}

}  // namespace

int64_t DeltaOf(const Message& push) {
  int64_t delta = 0;
  if (push.payload.empty() || push.payload[0].size() != sizeof(delta)) return 0;
  std::memcpy(&delta, push.payload[0].data(), sizeof(delta));
  return delta;
}

Checkers::Checkers(CheckerOptions options)
    : options_(std::move(options)),
      truths_(options_.shards),
      pushes_(options_.team, options_.holders),
      running_(options_.team) {
  const auto of_level = [&](consistency::Level level) {
    return std::make_shared<const consistency::PolicyTraits>(
        consistency::TraitsOfLevel(options_.policy, level));
  };
  const auto top =
      of_level(options_.policy.tree() ? consistency::Level::kRoot : consistency::Level::kFlat);
  const auto branch = of_level(consistency::Level::kBranch);
  for (uint32_t k = 0; k < options_.shards; ++k) {
    truths_[k].members.resize(options_.workers);
    truths_[k].policy = options_.policy.tree() && k >= options_.root_shards ? branch : top;
  }
}

void Checkers::Fail(std::string what) {
  ++violations_;
  if (!violation_.has_value()) violation_ = std::move(what);
}

void Checkers::BeforeShard(const server::Shard& shard, const Message& in) {
  Truth& truth = truths_[Index(shard.id())];
  if (truth.counts.empty()) {
    CHECK(shard.store().counts() != nullptr) << "checkers look at counts";
    truth.counts = shard.store().counts()->buckets();
    truth.pending.resize(truth.counts.size());
  }
  in_.type = in.type;
  in_.worker = wire::TeamOf(in.worker, options_.team);
  in_.epoch = in.epoch;
  in_.clock = in.clock;
  const auto* completion = std::get_if<wire::Completion>(&in.body);
  in_.pushes = completion != nullptr ? completion->pushes : 0;
  const auto* push = std::get_if<wire::Push>(&in.body);
  in_.whole = push == nullptr || pushes_.Completes(shard.id(), in);
  in_.bucket = push != nullptr ? Index(push->bucket) : 0;
  in_.micro_batches = push != nullptr ? push->micro_batches : MicroBatchRange();
  // Where values are real, a payload is no integer: then updates are counted, not summed.
  const bool integers = in.type == MessageType::kPush && !shard.store().checks_payload();
  in_.delta = integers ? DeltaOf(in) : 0;
  if (const auto* roster = std::get_if<wire::Roster>(&in.body)) {
    in_.roster = options_.team.seats == 1 ? *roster : wire::TeamRoster(*roster, options_.team);
  }
}

void Checkers::AfterShard(const server::Shard& shard, absl::Span<const Message> sent) {
  Truth& truth = truths_[Index(shard.id())];
  const bool rejected = std::any_of(
      sent.begin(), sent.end(), [](const Message& m) { return m.type == MessageType::kReject; });
  if (in_.type == MessageType::kRoster) TakeRoster(shard.id(), &truth);
  const bool snapshots = Snapshots(truth);
  if (!in_.whole && rejected) Fail(absl::StrCat("S6: ", Where(shard), " rejected a seat's push"));
  const bool pushed = in_.type == MessageType::kPush && in_.whole;
  if (pushed && !snapshots) TakeGatedPush(shard, rejected, &truth);
  if (in_.type == MessageType::kClock && options_.policy.tree()) TakeEmptyRound(&truth);
  if (pushed && snapshots) TakeHeldPush(rejected, &truth);
  if (snapshots) {
    ExpectRound(shard, &truth);
  } else {
    ExpectStore(shard, &truth);
  }
  for (const Message& message : sent) {
    if (message.type == MessageType::kPullReply) CheckReply(shard, message, &truth);
  }
  // What the checkers let pass the shard's own ledger must let pass too.
  const auto& seen = shard.ledger().first_violation();
  if (seen.has_value() && !violation_.has_value()) Fail(absl::StrCat("L1: ", seen->ToString()));
}

void Checkers::SetApplied(Member* member, Clock applied, Truth* truth) {
  if (!member->joining && member->applied != applied) {
    truth->applied.Remove(member->applied);
    truth->applied.Add(applied);
  }
  member->applied = applied;
}

// Of a tree's root: groups; of a branch: those of its group.
SharedList<wire::Member> Checkers::MembersOf(ShardId shard, Truth* truth) const {
  const consistency::PolicyTraits& policy = options_.policy;
  if (!policy.tree()) return in_.roster.workers;
  const wire::Roster before = std::exchange(
      truth->groups,
      server::GroupRoster(truth->workers, truth->groups, in_.roster, in_.epoch, policy));
  truth->workers = in_.roster;
  if (Index(shard) < options_.root_shards) return truth->groups.workers;
  const WorkerId group{consistency::GroupOfBranch(shard, options_.root_shards)};
  const wire::Member* was = FindMember(before, group);
  const wire::Member* is = FindMember(truth->groups, group);
  const bool same = was != nullptr && is != nullptr && was->admitted == is->admitted;
  if (is != nullptr && !(same && was->joining == is->joining)) {
    if (!is->joining) truth->version = std::max(truth->version, is->start);
    for (auto& pending : truth->pending) pending.clear();  // nobody is left who took part in it
  }
  return server::BranchRoster(in_.roster, Index(group), policy).workers;
}

void Checkers::TakeRoster(ShardId shard, Truth* truth) {
  if (in_.epoch <= truth->epoch) return;
  truth->epoch = in_.epoch;
  std::vector<bool> listed(truth->members.size(), false);
  for (const wire::Member& entry : MembersOf(shard, truth)) {
    listed[Index(entry.worker)] = true;
    Member& member = truth->members[Index(entry.worker)];
    if (member.present && member.admitted == entry.admitted && member.joining == entry.joining) {
      continue;
    }
    if (member.present && !member.joining) truth->applied.Remove(member.applied);
    if (member.admitted != entry.admitted) ForgetPending(entry.worker, truth);
    member = {.present = true,
              .joining = entry.joining,
              .admitted = entry.admitted,
              .start = entry.start,
              .applied = entry.start,
              .next = std::vector<Clock>(truth->counts.size(), entry.start),
              .landed = std::vector<Clock>(truth->counts.size(), entry.start)};
    if (!member.joining) truth->applied.Add(member.applied);
  }
  for (size_t rank = 0; rank < listed.size(); ++rank) {
    Member& member = truth->members[rank];
    if (listed[rank] || !member.present) continue;
    if (!member.joining) truth->applied.Remove(member.applied);
    ForgetPending(WorkerId{static_cast<uint32_t>(rank)}, truth);
    member = {};
  }
}

// Without the tree a member's contribution to an open round leaves with it; with it, a micro-batch
// that is here stays here. Without rounds an update that was taken will be applied.
void Checkers::ForgetPending(WorkerId worker, Truth* truth) {
  if (truth->policy->fixed_tree || !Snapshots(*truth)) return;
  for (auto& pending : truth->pending) {
    std::erase_if(pending, [&](const Pending& held) { return held.worker == worker; });
  }
}

// Policies without rounds: the next update of each bucket of a member is taken; nothing else is.
void Checkers::TakeGatedPush(const server::Shard& shard, bool rejected, Truth* truth) {
  if (Index(in_.worker) >= truth->members.size() || in_.bucket >= truth->counts.size()) return;
  Member& member = truth->members[Index(in_.worker)];
  if (!member.present || member.joining || in_.epoch < member.admitted) return;
  Clock& next = member.next[in_.bucket];
  if (in_.clock != next) return;  // a duplicate, or too early
  if (rejected) {
    return Fail(absl::StrCat("S6: ", Where(shard), " rejected the update of worker ",
                             Index(in_.worker), " at clock ", in_.clock, ", which is the next"));
  }
  ++next;
  truth->pending[in_.bucket].push_back({in_.micro_batches, in_.worker, member.admitted, in_.delta});
}

// A branch whose members all began later has nothing to push for the rounds before.
void Checkers::TakeEmptyRound(Truth* truth) {
  if (Snapshots(*truth) || in_.pushes > 0 || Index(in_.worker) >= truth->members.size()) return;
  Member& member = truth->members[Index(in_.worker)];
  if (!member.present || in_.epoch < member.admitted) return;
  for (size_t b = 0; b < member.next.size(); ++b) {
    if (member.next[b] != in_.clock - 1) continue;
    ++member.next[b];
    ++member.landed[b];
  }
  SetApplied(&member, *std::min_element(member.landed.begin(), member.landed.end()), truth);
}

// An update is in the store: of a member that may be gone meanwhile.
void Checkers::Land(const Pending& update, uint32_t bucket, Truth* truth) {
  truth->counts[bucket].applied += 1;
  truth->counts[bucket].sum += update.delta;
  Member& member = truth->members[Index(update.worker)];
  if (!member.present || member.admitted != update.admitted) return;
  ++member.landed[bucket];
  SetApplied(&member, *std::min_element(member.landed.begin(), member.landed.end()), truth);
}

// What was taken is in the store at once, or, where the policy defers, later in the order taken.
void Checkers::ExpectStore(const server::Shard& shard, Truth* truth) {
  const auto& counts = shard.store().counts()->buckets();
  for (uint32_t b = 0; b < counts.size(); ++b) {
    auto& pending = truth->pending[b];
    size_t landing = pending.size();
    if (truth->policy->deferred()) {
      landing = std::min<uint64_t>(landing, counts[b].applied - truth->counts[b].applied);
    }
    for (size_t i = 0; i < landing; ++i) Land(pending[i], b, truth);
    pending.erase(pending.begin(), pending.begin() + static_cast<ptrdiff_t>(landing));
  }
  if (counts == truth->counts) return;
  Fail(absl::StrCat("S6: ", Where(shard), " has ", TotalApplied(counts),
                    " updates in its store where ", TotalApplied(truth->counts),
                    " are due (or their sums differ); last in: type ", static_cast<int>(in_.type),
                    " of worker ", Index(in_.worker), " clock ", in_.clock));
  truth->counts = counts;
}

// Policies that gather rounds: remembered until the round is published.
void Checkers::TakeHeldPush(bool rejected, Truth* truth) {
  if (Index(in_.worker) >= truth->members.size() || in_.bucket >= truth->pending.size()) return;
  const Member& member = truth->members[Index(in_.worker)];
  if (!member.present || member.joining || in_.epoch < member.admitted) return;
  if (in_.clock != truth->version || rejected) return;
  auto& pending = truth->pending[in_.bucket];
  uint32_t micro_batches_here = 0;
  for (const Pending& held : pending) {
    if (!Overlap(held.micro_batches, in_.micro_batches)) continue;
    // With the tree any supplier of a micro-batch will do, and a node that holds all of those it
    // overlaps, and more, takes their place. Else it must be a duplicate: two members'
    // contributions are never the same.
    const bool within = held.micro_batches.begin >= in_.micro_batches.begin &&
                        held.micro_batches.end <= in_.micro_batches.end;
    if (truth->policy->takes_over() && within) {
      micro_batches_here += held.micro_batches.size();
      continue;
    }
    if (truth->policy->fixed_tree) return;
    if (held.worker == in_.worker && held.admitted == member.admitted) return;
  }
  if (micro_batches_here == in_.micro_batches.size()) return;
  if (micro_batches_here > 0) {
    std::erase_if(pending, [&](const Pending& held) {
      return Overlap(held.micro_batches, in_.micro_batches);
    });
  }
  pending.push_back({in_.micro_batches, in_.worker, member.admitted, in_.delta});
}

void Checkers::ExpectRound(const server::Shard& shard, Truth* truth) {
  const auto& counts = shard.store().counts()->buckets();
  if (counts == truth->counts) return SkipEmptyRounds(truth);
  if (LeavesOut(*truth)) return ExpectChosen(shard, truth);
  for (size_t b = 0; b < counts.size(); ++b) {
    auto& expected = truth->counts[b];
    expected.applied += truth->pending[b].size();
    for (const Pending& held : truth->pending[b]) expected.sum += held.delta;
  }
  if (counts != truth->counts) {
    Fail(absl::StrCat("S6: ", Where(shard), " published version ", truth->version + 1, " with ",
                      TotalApplied(counts), " contributions in its store where ",
                      TotalApplied(truth->counts), " are due (or their sums differ)"));
    truth->counts = counts;
  }
  ExpectCovered(shard, *truth);
  for (auto& pending : truth->pending) pending.clear();
  ++truth->version;
}

// Which members' updates went in is found by trying: their integers are all different. Where there
// are none, or very many members, only the number of updates is looked at.
void Checkers::ExpectChosen(const server::Shard& shard, Truth* truth) {
  constexpr size_t kTried = 12;
  const auto& counts = shard.store().counts()->buckets();
  const size_t ranks = truth->members.size();
  const bool integers =
      !shard.store().checks_payload() && ranks <= kTried && counts[0].sum != truth->counts[0].sum;
  std::optional<std::vector<bool>> found;
  for (uint64_t set = 1; integers && set < uint64_t{1} << ranks && !found.has_value(); ++set) {
    std::vector<server::CountStore::Count> expected = truth->counts;
    for (size_t b = 0; b < counts.size(); ++b) {
      for (const Pending& held : truth->pending[b]) {
        if ((set >> Index(held.worker) & 1u) == 0) continue;
        expected[b].applied += 1;
        expected[b].sum += held.delta;
      }
    }
    if (expected != counts) continue;
    found.emplace(ranks);
    for (size_t rank = 0; rank < ranks; ++rank) (*found)[rank] = (set >> rank & 1u) != 0;
  }
  if (found.has_value()) {
    CheckChosen(shard, *truth, *found);
  } else if (integers) {
    Fail(absl::StrCat("S6: ", Where(shard), " published version ", truth->version + 1,
                      " with a sum that no set of members makes"));
  }
  truth->counts = counts;
  for (auto& pending : truth->pending) pending.clear();
  ++truth->version;
}

void Checkers::CheckChosen(const server::Shard& shard, const Truth& truth,
                           const std::vector<bool>& in) {
  const auto [it, first] = chosen_.emplace(truth.version, in);
  if (it->second != in) {
    Fail(absl::StrCat("K1: ", Where(shard), " took others' updates for round ", truth.version,
                      " than another shard"));
  }
  if (Index(shard.id()) != 0) return;  // it only follows
  const auto takes_part = [&](const Member& member) {
    return member.present && (member.joining || member.start <= truth.version);
  };
  const auto members = std::count_if(truth.members.begin(), truth.members.end(), takes_part);
  const auto taken = std::count(in.begin(), in.end(), true);
  const auto due = std::max<int64_t>(1, members - int64_t{options_.policy.spare()});
  // Several may leave with one roster, one after another.
  if (taken == due || (in_.type == MessageType::kRoster && taken > due)) return;
  Fail(absl::StrCat("K1: round ", truth.version, " took ", taken, " updates of ", members,
                    " members; ", due, " are due"));
}

// Where all who took part in an open round have gone, and its contributions with them, the round
// ends empty: those that are left began later.
void Checkers::SkipEmptyRounds(Truth* truth) {
  if (truth->policy->takes_over() || LeavesOut(*truth) || truth->applied.empty()) return;
  for (const auto& pending : truth->pending) {
    if (!pending.empty()) return;
  }
  truth->version = std::max(truth->version, truth->applied.Min());  // of their start clocks
}

void Checkers::ExpectCovered(const server::Shard& shard, const Truth& truth) {
  for (size_t b = 0; b < truth.pending.size(); ++b) {
    uint64_t micro_batches = 0;
    for (const Pending& held : truth.pending[b]) micro_batches += held.micro_batches.size();
    if (truth.policy->takes_over() && micro_batches != options_.micro_batch_count) {
      Fail(absl::StrCat("B1: ", Where(shard), " published clock ", truth.version, " with ",
                        micro_batches, " of ", options_.micro_batch_count,
                        " micro-batches in bucket ", b));
    }
    if (truth.policy->fixed_tree) continue;  // what is taken over may be here from others already
    for (size_t rank = 0; rank < truth.members.size(); ++rank) {
      const Member& member = truth.members[rank];
      if (!member.present || member.joining || member.next[b] > truth.version) continue;
      const bool in =
          std::any_of(truth.pending[b].begin(), truth.pending[b].end(), [&](const Pending& held) {
            return Index(held.worker) == rank && held.admitted == member.admitted;
          });
      if (!in) {
        Fail(absl::StrCat("B1: ", Where(shard), " published round ", truth.version,
                          " without member ", rank));
      }
    }
  }
}

void Checkers::CheckReply(const server::Shard& shard, const Message& reply, Truth* truth) {
  const auto& body = wire::As<wire::PullReply>(reply);
  const uint32_t rank = Index(wire::TeamOf(reply.worker, options_.team));
  if (rank >= truth->members.size()) return;
  Member& member = truth->members[rank];
  const bool snapshots = Snapshots(*truth);
  const Clock frontier = snapshots                ? truth->version
                         : truth->applied.empty() ? kClockMax
                                                  : truth->applied.Min();
  const auto describe = [&] {
    return absl::StrCat("a read of worker ", rank, " at clock ", reply.clock, " from ",
                        Where(shard));
  };
  if (body.final) {
    if (frontier < options_.rounds) {
      Fail(absl::StrCat("final: ", describe(), " came before clock ", frontier, " ended"));
    }
    return;
  }
  if (!member.present) return;  // its sender is gone: nobody acts on this reply
  const Clock lag = std::max<Clock>(0, reply.clock - frontier);
  const size_t slot = std::min(static_cast<size_t>(lag), kLagSlots - 1);
  if (read_lags_.size() <= slot) read_lags_.resize(slot + 1);
  ++read_lags_[slot];
  const auto& bound = truth->policy->guarantee.read_lag_max;
  if (bound.has_value() && lag > *bound) {
    Fail(absl::StrCat("S1: ", describe(), " lags by ", lag, "; the bound is ", *bound));
  }
  if (snapshots && reply.clock != truth->version) {
    Fail(absl::StrCat("B1: ", describe(), " saw version ", truth->version));
  }
  const Clock own_lag = options_.own_lags.empty() ? 0 : options_.own_lags[Index(shard.id())];
  if (!snapshots && truth->policy->guarantee.own_writes && member.applied < reply.clock - own_lag) {
    Fail(absl::StrCat("S2: ", describe(), " lacks its own update of clock ", member.applied));
  }
  if (!truth->applied.empty() && body.oldest > frontier) {
    Fail(absl::StrCat("S1: ", describe(), " claims oldest ", body.oldest, ", truth is ", frontier));
  }
  if (body.version < member.last_read) Fail(absl::StrCat("S4: ", describe(), " went back"));
  const uint64_t total = TotalApplied(truth->counts);
  if (body.version != total) {
    Fail(absl::StrCat("S4: ", describe(), " holds ", body.version, " updates of ", total));
  }
  member.last_read = body.version;
}

void Checkers::OnWorkerStart(WorkerId worker, Clock clock) {
  joined_ = joined_ || lost_ || (!running_.empty() && running_.Max() > clock);
  running_.Start(worker, clock);
  AfterWorker(worker, {});
}

void Checkers::OnWorkerGone(WorkerId worker) {
  lost_ = true;
  running_.Gone(worker);
}

void Checkers::AfterWorker(WorkerId worker, absl::Span<const Message> sent) {
  if (!running_.Has(worker)) return;
  for (const Message& message : sent) {
    if (message.type == MessageType::kClock) running_.Complete(worker, message.clock);
  }
  const Clock gap = running_.Gap();
  gap_max_ = std::max(gap_max_, gap);
  const auto& bound = options_.policy.guarantee.clock_gap_max;
  // A newcomer of a decentralised policy begins at 0 and goes on from where its peer finds itself.
  if (joined_ && options_.policy.decentralised()) return;
  if (bound.has_value() && gap > *bound) {
    Fail(absl::StrCat("S3: worker ", Index(worker), " has moved: the gap is ", gap,
                      "; the bound is ", *bound));
  }
}

void Checkers::AddTo(Fingerprint* f) const {
  for (const Truth& truth : truths_) {
    f->Add(truth.epoch);
    f->Add(truth.version);
    for (const Member& member : truth.members) {
      f->Add(member.present);
      if (!member.present) continue;
      f->Add(member.joining);
      f->Add(member.admitted);
      for (const Clock next : member.next) f->Add(next);
      for (const Clock landed : member.landed) f->Add(landed);
      f->Add(member.start);
      f->Add(member.last_read);
    }
    for (const auto& pending : truth.pending) {
      uint64_t sum = pending.size();  // order does not matter
      for (const Pending& held : pending) {
        sum +=
            (uint64_t{held.micro_batches.begin} << 32 | Index(held.worker)) * 0x9E3779B97F4A7C15u +
            held.admitted;
      }
      f->Add(sum);
    }
  }
  for (const auto& [round, ranks] : chosen_) {
    f->Add(round);
    for (const bool in : ranks) f->Add(in);
  }
  running_.AddTo(f);
  f->Add(violations_);
}

}  // namespace soapstone::sim
