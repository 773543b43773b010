#include "consistency/clock_table.h"

#include "glog/logging.h"

namespace soapstone::consistency {

void ClockTable::Set(WorkerId worker, Clock clock) {
  DCHECK_GE(clock, 0);
  Remove(worker);
  if (Index(worker) >= clocks_.size()) clocks_.resize(Index(worker) + 1, kNoClock);
  clocks_[Index(worker)] = clock;
  ++counts_[clock];
  ++members_;
}

void ClockTable::Remove(WorkerId worker) {
  const Clock clock = Of(worker);
  if (clock == kNoClock) return;
  clocks_[Index(worker)] = kNoClock;
  const auto it = counts_.find(clock);
  if (--it->second == 0) counts_.erase(it);
  --members_;
}

Clock ClockTable::Of(WorkerId worker) const {
  return Index(worker) < clocks_.size() ? clocks_[Index(worker)] : kNoClock;
}

void ClockTable::AddTo(Fingerprint* f) const {
  for (size_t i = 0; i < clocks_.size(); ++i) {
    if (clocks_[i] == kNoClock) continue;
    f->Add(i);
    f->Add(clocks_[i]);
  }
  f->Add(members_);
}

}  // namespace soapstone::consistency
