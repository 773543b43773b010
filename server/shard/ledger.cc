#include "server/shard/ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace soapstone::server {
namespace {

template <typename T>
T& Slot(WorkerId worker, std::vector<T>* slots) {
  if (Index(worker) >= slots->size()) slots->resize(Index(worker) + 1);
  return (*slots)[Index(worker)];
}

}  // namespace

const char* Violation::KindName() const {
  switch (kind) {
    case Kind::kReadLag:
      return "read_lag";
    case Kind::kSnapshot:
      return "snapshot";
    case Kind::kOwnWrites:
      return "own_writes";
    case Kind::kClockGap:
      return "clock_gap";
    case Kind::kDropped:
      return "dropped";
    case Kind::kOrder:
      return "order";
    case Kind::kStore:
      return "store";
    case Kind::kOldest:
      return "oldest";
    case Kind::kOlder:
      return "older";
    case Kind::kFinal:
      return "final";
    case Kind::kReplicas:
      break;
  }
  return "replicas";
}

std::string Violation::ToString() const {
  const std::string where = absl::StrCat("shard ", Index(shard), ": ");
  const std::string read =
      absl::StrCat(where, "a read of worker ", Index(worker), " at clock ", clock);
  const std::string update =
      absl::StrCat("an update of worker ", Index(worker), " of clock ", clock);
  switch (kind) {
    case Kind::kReadLag:
      return absl::StrCat(read, " lags by ", seen, "; the bound is ", bound);
    case Kind::kSnapshot:
      return absl::StrCat(read, " holds an update of clock ", seen, ", which is no snapshot");
    case Kind::kOwnWrites:
      return absl::StrCat(read, " lacks the worker's own updates from clock ", seen, " on");
    case Kind::kDropped:
      return absl::StrCat(update, " was dropped, and no other stands for it");
    case Kind::kOrder:
      return absl::StrCat(update, " was applied after one of clock ", seen);
    case Kind::kStore:
      return absl::StrCat(where, "the store has ", seen, " updates where ", bound,
                          " are due, or applied them in another order; last ", update);
    case Kind::kOldest:
      return absl::StrCat(read, " claims clock ", bound, " to be applied; ", seen, " is");
    case Kind::kOlder:
      return absl::StrCat(read, " holds the values of ", seen, " updates; ", bound, " are applied");
    case Kind::kFinal:
      return absl::StrCat(where, "a final read of worker ", Index(worker), " at clock ", seen,
                          "; the run ends at ", clock);
    case Kind::kReplicas:
      return absl::StrCat(where, "worker ", Index(worker), " hands in other values than worker ",
                          seen);
    case Kind::kClockGap:
      break;
  }
  return absl::StrCat(where, "worker ", Index(worker), " has completed ", clock, " clocks, ", seen,
                      " more than are applied of the slowest; the bound is ", bound);
}

Ledger::Row& Ledger::RowOf(WorkerId worker) { return Slot(worker, &rows_); }
Ledger::Member& Ledger::MemberOf(WorkerId worker) { return Slot(worker, &members_); }

void Ledger::OnMember(WorkerId worker, Clock clock) {
  MemberOf(worker).completed = clock;
  Refresh(worker);
}

void Ledger::OnGone(WorkerId worker) {
  MemberOf(worker) = {};
  applied_.Remove(worker);
  std::erase_if(surplus_, [&](const Update& update) { return update.worker == worker; });
}

void Ledger::OnClock(WorkerId worker, Clock completed) {
  Member& member = MemberOf(worker);
  if (completed <= member.completed) return;
  member.completed = completed;
  Refresh(worker);
  const Clock gap = completed - applied_.Min();
  const std::optional<Clock>& bound = terms_.guarantee.clock_gap_max;
  if (bound.has_value() && gap > *bound) {
    Break({Violation::Kind::kClockGap, shard_, worker, completed, gap, *bound});
  }
}

bool Ledger::IsSurplus(const Update& update) {
  if (!terms_.shares_micro_batches || Index(update.bucket) >= rounds_.size()) return false;
  Round& round = rounds_[Index(update.bucket)];
  if (update.clock < round.clock) return true;
  if (update.clock > round.clock) return false;
  const MicroBatchRange micro_batches = update.micro_batches;
  auto first = round.micro_batches.lower_bound(micro_batches.begin);
  if (first != round.micro_batches.begin() && std::prev(first)->second.end > micro_batches.begin)
    return true;
  const auto last = round.micro_batches.lower_bound(micro_batches.end);  // begins behind it
  if (first == last) return false;
  uint32_t here = 0;
  for (auto it = first; it != last; ++it) here += it->second.end - it->first;
  if (std::prev(last)->second.end > micro_batches.end || here == micro_batches.size()) return true;
  for (auto it = first; it != last; ++it) {
    surplus_.push_back(
        {it->second.worker, update.clock, update.bucket, {it->first, it->second.end}});
  }
  round.micro_batches.erase(first, last);
  return false;
}

void Ledger::OnTaken(const Update& update) {
  auto& pending = MemberOf(update.worker).pending;
  const auto it = std::lower_bound(pending.begin(), pending.end(), std::pair(update.clock, 0u));
  if (it != pending.end() && it->first == update.clock) {
    ++it->second;
  } else {
    pending.insert(it, {update.clock, 1});
  }
  if (IsSurplus(update)) {
    surplus_.push_back(update);
  } else if (terms_.shares_micro_batches) {
    Round& round = rounds_.size() > Index(update.bucket)
                       ? rounds_[Index(update.bucket)]
                       : (rounds_.resize(Index(update.bucket) + 1), rounds_.back());
    if (update.clock > round.clock) round = {.clock = update.clock};
    round.micro_batches.emplace(update.micro_batches.begin,
                                Round::Node{update.micro_batches.end, update.worker});
  }
  Refresh(update.worker);
}

bool Ledger::Forget(WorkerId worker, Clock clock) {
  auto& pending = MemberOf(worker).pending;
  const auto it = std::lower_bound(pending.begin(), pending.end(), std::pair(clock, 0u));
  if (it == pending.end() || it->first != clock) return false;
  if (--it->second == 0) pending.erase(it);
  Refresh(worker);
  return true;
}

void Ledger::CheckOrder(const Update& update) {
  if (terms_.shares_micro_batches) {
    if (Index(update.bucket) >= rounds_.size()) return;
    Round& round = rounds_[Index(update.bucket)];
    const bool now = round.clock == update.clock;
    if (!now || update.micro_batches.begin < round.applied) {
      Break({Violation::Kind::kOrder, shard_, update.worker, update.clock, round.clock});
    }
    if (now) round.applied = update.micro_batches.end;
    return;
  }
  Member& member = MemberOf(update.worker);
  const auto& pending = member.pending;
  const auto it = std::lower_bound(pending.begin(), pending.end(), std::pair(update.clock, 0u));
  if (it == pending.end() || it->first != update.clock) return;  // of a former member of its rank
  if (member.latest.size() <= Index(update.bucket)) {
    member.latest.resize(Index(update.bucket) + 1, kNoClock);
  }
  Clock& latest = member.latest[Index(update.bucket)];
  if (update.clock < latest) {
    Break({Violation::Kind::kOrder, shard_, update.worker, update.clock, latest});
  }
  latest = std::max(latest, update.clock);
}

void Ledger::OnApplied(const Update& update, uint64_t staleness) {
  CheckOrder(update);
  given_.push_back(update);
  RowOf(update.worker).stalenesses.Add(staleness);
}

// What the store does not testify to stays pending.
void Ledger::OnStored(BucketId bucket, const Store::Stamp& stamp) {
  if (expected_.size() <= Index(bucket)) expected_.resize(Index(bucket) + 1);
  Store::Stamp& expected = expected_[Index(bucket)];
  stored_.clear();
  stored_.swap(given_);
  const std::vector<Update>& given = stored_;
  for (const Update& update : given) {
    // The store is given all parts of an update under the clock of the last.
    Store::StampWith(update.worker, update.micro_batches, given.back().clock, &expected);
  }
  if (stamp != expected) {
    if (given.empty()) return;
    const Update& last = given.back();
    return Break({Violation::Kind::kStore, shard_, last.worker, last.clock,
                  static_cast<Clock>(stamp.updates), static_cast<Clock>(expected.updates)});
  }
  for (const Update& update : given) {
    Forget(update.worker, update.clock);
    newest_ = std::max(newest_, update.clock);
  }
}

void Ledger::OnHandIn(WorkerId worker, BucketId bucket, uint64_t sum) {
  if (handed_in_.size() <= Index(bucket)) handed_in_.resize(Index(bucket) + 1);
  HandedIn& first = handed_in_[Index(bucket)];
  if (!first.sum.has_value()) first = {sum, worker};
  if (*first.sum == sum) return;
  Break({Violation::Kind::kReplicas, shard_, worker, 0, Index(first.worker), 0});
}

void Ledger::OnDropped(const Update& update) {
  const auto copy = std::find_if(surplus_.begin(), surplus_.end(), [&](const Update& s) {
    return s.worker == update.worker && s.clock == update.clock && s.bucket == update.bucket &&
           s.micro_batches == update.micro_batches;
  });
  const bool surplus = copy != surplus_.end();
  if (surplus) surplus_.erase(copy);
  if (!Forget(update.worker, update.clock) || surplus) return;
  Member& member = MemberOf(update.worker);
  member.dropped = std::min(member.dropped, update.clock);
  Refresh(update.worker);
  Break({Violation::Kind::kDropped, shard_, update.worker, update.clock});
}

void Ledger::OnLeftOut(const Update& update) {
  if (!terms_.guarantee.left_out_max.has_value()) return OnDropped(update);
  Forget(update.worker, update.clock);
}

void Ledger::OnRefused(const Update& update) { Forget(update.worker, update.clock); }

void Ledger::Void() {
  for (Member& member : members_) member.pending.clear();
  for (Round& round : rounds_) round = {};
  surplus_.clear();
  for (uint32_t w = 0; w < members_.size(); ++w) Refresh(WorkerId{w});
}

void Ledger::Refresh(WorkerId worker) {
  const Member& member = MemberOf(worker);
  if (member.completed == kNoClock) return;
  Clock applied = std::min(member.completed, member.dropped);
  if (!member.pending.empty()) applied = std::min(applied, member.pending.front().first);
  if (applied != applied_.Of(worker)) applied_.Set(worker, applied);
}

void Ledger::CheckVersion(const Read& read) {
  uint64_t due = 0;
  for (const Store::Stamp& stamp : expected_) due += stamp.updates;
  if (read.version == due) return;
  Break({Violation::Kind::kOlder, shard_, read.worker, read.clock, static_cast<Clock>(read.version),
         static_cast<Clock>(due)});
}

void Ledger::OnRead(const Read& read) {
  const auto& [worker, clock, oldest, version] = read;
  // Where rounds leave members out, what counts is how many rounds there are.
  const bool rounds = terms_.guarantee.left_out_max.has_value();
  const Clock min = rounds ? newest_ + 1 : applied_.Min();
  const Clock lag = std::max<Clock>(0, clock - min);
  Row& row = RowOf(worker);
  row.read_lags.Add(static_cast<uint64_t>(lag));
  row.lag_sum += static_cast<uint64_t>(lag);
  const Clock own = applied_.Of(worker);
  if (terms_.guarantee.read_lag_max.has_value() && lag > *terms_.guarantee.read_lag_max) {
    Break({Violation::Kind::kReadLag, shard_, worker, clock, lag, *terms_.guarantee.read_lag_max});
  } else if (terms_.guarantee.snapshot_reads && newest_ >= clock) {
    Break({Violation::Kind::kSnapshot, shard_, worker, clock, newest_, 0});
  } else if (terms_.guarantee.own_writes && own != kNoClock && own < clock - terms_.own_lag) {
    Break({Violation::Kind::kOwnWrites, shard_, worker, clock, own, 0});
  } else if (!rounds && oldest > min) {
    Break({Violation::Kind::kOldest, shard_, worker, clock, min, oldest});
  } else {
    CheckVersion(read);
  }
}

void Ledger::OnFinalRead(const Read& read) {
  const Clock min = terms_.guarantee.left_out_max.has_value() ? newest_ + 1 : applied_.Min();
  if (min < read.clock) {
    return Break({Violation::Kind::kFinal, shard_, read.worker, read.clock, min, 0});
  }
  CheckVersion(read);
}

void Ledger::Break(const Violation& violation) {
  ++RowOf(violation.worker).violations;
  if (!first_violation_.has_value()) first_violation_ = violation;
  log_.Add(violation.KindName(), violation.worker, violation.clock,
           [&] { return violation.ToString(); });
}

Ledger::Row Ledger::Total() const {
  Row total;
  for (const Row& row : rows_) {
    total.read_lags.Add(row.read_lags);
    total.lag_sum += row.lag_sum;
    total.stalenesses.Add(row.stalenesses);
    total.violations += row.violations;
  }
  return total;
}

}  // namespace soapstone::server
