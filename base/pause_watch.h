// PauseWatch: whether who waits for others was there to hear them. A process that was stopped
// (SIGSTOP, a debugger, a machine that slept) finds all its deadlines over when it wakes, and what
// others said meanwhile unread.
#pragma once

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/steady_clock.h"

namespace soapstone {

// Who keeps deadlines calls Look before it judges by them, many times a second where it waits for
// something. One thread.
class PauseWatch {
 public:
  static constexpr absl::Duration kMin = absl::Seconds(1);

  void Look(SteadyTime now) {
    const absl::Duration between = now - std::exchange(looked_at_, now);
    now_ = now;
    pause_ = between < kMin ? absl::ZeroDuration() : between;
  }
  bool paused() const { return pause_ > absl::ZeroDuration(); }
  // The time since `at` does not count as far as it was the pause.
  void Forgive(SteadyTime* at) const {
    if (*at <= now_) *at = std::min(*at + pause_, now_);
  }

 private:
  SteadyTime looked_at_ = SteadyTime::InfiniteFuture();
  SteadyTime now_;
  absl::Duration pause_;
};

}  // namespace soapstone
