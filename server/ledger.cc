#include "server/ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace soapstone::server {
namespace {

constexpr int kLogEvery = 1000;

template <typename T>
T& Slot(WorkerId worker, std::vector<T>* slots) {
  if (Index(worker) >= slots->size()) slots->resize(Index(worker) + 1);
  return (*slots)[Index(worker)];
}

}  // namespace

std::string Violation::ToString() const {
  const std::string where = absl::StrCat("shard ", Index(shard), ": ");
  const std::string read =
      absl::StrCat(where, "a read of worker ", Index(worker), " at clock ", clock);
  switch (kind) {
    case Kind::kReadLag:
      return absl::StrCat(read, " lags by ", seen, "; the bound is ", bound);
    case Kind::kSnapshot:
      return absl::StrCat(read, " holds an update of clock ", seen, ", which is no snapshot");
    case Kind::kOwnWrites:
      return absl::StrCat(read, " lacks the worker's own updates from clock ", seen, " on");
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
}

void Ledger::OnClock(WorkerId worker, Clock completed) {
  Member& member = MemberOf(worker);
  if (completed <= member.completed) return;
  member.completed = completed;
  Refresh(worker);
  const Clock gap = completed - applied_.Min();
  const std::optional<Clock>& bound = guarantee_.clock_gap_max;
  if (bound.has_value() && gap > *bound) {
    Break({Violation::Kind::kClockGap, shard_, worker, completed, gap, *bound});
  }
}

void Ledger::OnTaken(WorkerId worker, Clock clock) {
  auto& in_hand = MemberOf(worker).in_hand;
  const auto it = std::lower_bound(in_hand.begin(), in_hand.end(), std::pair(clock, 0u));
  if (it != in_hand.end() && it->first == clock) {
    ++it->second;
  } else {
    in_hand.insert(it, {clock, 1});
  }
  Refresh(worker);
}

void Ledger::Forget(WorkerId worker, Clock clock) {
  auto& in_hand = MemberOf(worker).in_hand;
  const auto it = std::lower_bound(in_hand.begin(), in_hand.end(), std::pair(clock, 0u));
  if (it == in_hand.end() || it->first != clock) return;  // of a former member of its rank
  if (--it->second == 0) in_hand.erase(it);
  Refresh(worker);
}

void Ledger::OnApplied(WorkerId worker, Clock clock, uint64_t staleness) {
  Forget(worker, clock);
  newest_ = std::max(newest_, clock);
  RowOf(worker).stalenesses.Add(staleness);
}

void Ledger::OnDropped(WorkerId worker, Clock clock) { Forget(worker, clock); }

void Ledger::Refresh(WorkerId worker) {
  const Member& member = MemberOf(worker);
  if (member.completed == kNoClock) return;
  const Clock applied = member.in_hand.empty()
                            ? member.completed
                            : std::min(member.completed, member.in_hand.front().first);
  if (applied != applied_.Of(worker)) applied_.Set(worker, applied);
}

void Ledger::OnRead(WorkerId worker, Clock clock) {
  // Where rounds leave members out, what counts is how many rounds there are.
  const bool rounds = guarantee_.left_out_max.has_value();
  const Clock lag = std::max<Clock>(0, clock - (rounds ? newest_ + 1 : applied_.Min()));
  RowOf(worker).read_lags.Add(static_cast<uint64_t>(lag));
  const Clock own = applied_.Of(worker);
  if (guarantee_.read_lag_max.has_value() && lag > *guarantee_.read_lag_max) {
    Break({Violation::Kind::kReadLag, shard_, worker, clock, lag, *guarantee_.read_lag_max});
  } else if (guarantee_.snapshot_reads && newest_ >= clock) {
    Break({Violation::Kind::kSnapshot, shard_, worker, clock, newest_, 0});
  } else if (guarantee_.own_writes && own != kNoClock && own < clock) {
    Break({Violation::Kind::kOwnWrites, shard_, worker, clock, own, 0});
  }
}

void Ledger::Break(const Violation& violation) {
  ++RowOf(violation.worker).violations;
  if (!first_violation_.has_value()) first_violation_ = violation;
  LOG_EVERY_N(ERROR, kLogEvery) << "guarantee broken: " << violation.ToString();
}

Ledger::Row Ledger::Total() const {
  Row total;
  for (const Row& row : rows_) {
    total.read_lags.Add(row.read_lags);
    total.stalenesses.Add(row.stalenesses);
    total.violations += row.violations;
  }
  return total;
}

}  // namespace soapstone::server
