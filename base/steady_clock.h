// SteadyTime: the clock of everything that waits. It never goes back and never jumps: what sets the
// machine's date (NTP, an administrator, a lost battery) does not touch it. The date is for people
// alone: names of folders, stamps of log lines. tests/style/layers.py holds the tree to that.
#pragma once

#include <chrono>
#include <compare>

#include "absl/time/time.h"
#include "base/ids.h"

namespace soapstone {

// A point on that clock. Saturates as absl::Duration does: a deadline too far away is never.
class SteadyTime {
 public:
  // The clock's origin, which means nothing: of tests, and what was not set.
  constexpr SteadyTime() = default;
  static constexpr SteadyTime InfinitePast() { return SteadyTime(-absl::InfiniteDuration()); }
  static constexpr SteadyTime InfiniteFuture() { return SteadyTime(absl::InfiniteDuration()); }
  static SteadyTime At(Nanos since_origin) { return SteadyTime(absl::Nanoseconds(since_origin)); }

  // Nanoseconds since the origin, as actors count; the nearest there is where that is too far.
  Nanos nanos() const { return absl::ToInt64Nanoseconds(since_origin_); }
  absl::Duration since_origin() const { return since_origin_; }

  SteadyTime& operator+=(absl::Duration d) {
    since_origin_ += d;
    return *this;
  }
  friend SteadyTime operator+(SteadyTime t, absl::Duration d) { return t += d; }
  friend SteadyTime operator-(SteadyTime t, absl::Duration d) { return t += -d; }
  friend absl::Duration operator-(SteadyTime a, SteadyTime b) {
    return a.since_origin_ - b.since_origin_;
  }
  friend bool operator==(SteadyTime a, SteadyTime b) { return a.since_origin_ == b.since_origin_; }
  friend std::weak_ordering operator<=>(SteadyTime a, SteadyTime b) {
    if (a.since_origin_ == b.since_origin_) return std::weak_ordering::equivalent;
    return a.since_origin_ < b.since_origin_ ? std::weak_ordering::less
                                             : std::weak_ordering::greater;
  }

 private:
  explicit constexpr SteadyTime(absl::Duration since_origin) : since_origin_(since_origin) {}

  absl::Duration since_origin_;
};

// CLOCK_MONOTONIC, on which std::condition_variable can wait (glibc's pthread_cond_clockwait).
inline SteadyTime SteadyNow() {
  return SteadyTime::At(std::chrono::steady_clock::now().time_since_epoch() /
                        std::chrono::nanoseconds(1));
}

}  // namespace soapstone
