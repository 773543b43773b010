// News: lines of the scheduler for the user, until somebody takes them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace soapstone::scheduler {

// Invariant: at most kMax lines are kept; the oldest goes for the next. A value.
class News {
 public:
  static constexpr size_t kMax = 1000;

  void Add(std::string line) {
    if (lines_.size() >= kMax) lines_.erase(lines_.begin());
    lines_.push_back(std::move(line));
  }
  // The same of what is waited for, unless that was told less than `every` ago.
  void AddWaiting(Nanos now, Nanos every, std::string line) {
    if (now - waiting_told_ < every) return;
    waiting_told_ = now;
    Add(std::move(line));
  }
  // As if something had been told now: the next waiting is told in `every` at the soonest.
  void BeginWaiting(Nanos now) { waiting_told_ = now; }
  // Of a process that is refused, which asks until it has heard so: once in kRefusedEvery, and of
  // so many processes in that time. Anybody who reaches the scheduler can be one.
  static constexpr Nanos kRefusedEvery = 5 * kSecond;
  static constexpr size_t kRefusedMax = 4;
  void AddRefused(Nanos now, uint64_t nonce, std::string line) {
    if (now - refused_since_ >= kRefusedEvery) refused_.clear();
    if (refused_.empty()) refused_since_ = now;
    if (refused_.size() < kRefusedMax && refused_.insert(nonce).second) Add(std::move(line));
  }
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  std::vector<std::string> lines_;
  Nanos waiting_told_ = 0;
  Nanos refused_since_ = 0;
  std::set<uint64_t> refused_;  // nonces, told of since then
};

}  // namespace soapstone::scheduler
