// TranspositionTable remembers of strategies that a search met before how long their steps take at
// least. A search that undoes and repeats changes meets the same strategies on many ways. Simulator
// asks it before it looks at a proposal, and tells it what a run has shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "scheduler/planner/blocks/strategy_state.h"

namespace soapstone::planner {

// Invariants:
//  1. AtLeast(h) is what was last remembered under h itself, or 0: never what belongs to another.
//  2. It has a place for each value of some bits of a hash; what comes later takes the place of
//  what
//     was there, so that it does not grow.
// Not to be shared between threads.
class TranspositionTable {
 public:
  TranspositionTable() : entries_(kEntries) {}

  void Clear() { entries_.assign(kEntries, {}); }
  Nanos AtLeast(const StrategyHash& hash) const {
    const Entry& entry = entries_[PlaceOf(hash)];
    return entry.hash == hash ? entry.at_least : 0;
  }
  void Remember(const StrategyHash& hash, Nanos at_least) {
    entries_[PlaceOf(hash)] = {hash, at_least};
  }

 private:
  static constexpr size_t kEntries = size_t{1} << 16;
  static size_t PlaceOf(const StrategyHash& hash) { return hash.words[0] & (kEntries - 1); }
  struct Entry {
    StrategyHash hash;
    Nanos at_least = 0;
  };
  std::vector<Entry> entries_;
};

}  // namespace soapstone::planner
