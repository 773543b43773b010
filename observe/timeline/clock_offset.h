// ClockOffset: how far the steady clock of another machine is from ours, by messages that went both
// ways. Knows no message: it is told when each left, by its sender's clock, and when it came.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/ids.h"

namespace soapstone::timeline {

// Of the fastest message there it took d, of the fastest back d'. With offset = their clock - ours:
//   forth = came there - left here = offset + d      back = came here - left there = d' - offset
//   offset = (forth - back) / 2, and wrong by (forth + back) / 2 = (d + d') / 2 at most
// A value. Times beyond 2^59 are nobody's, and are dropped.
class ClockOffset {
 public:
  void Forth(Nanos left_here, Nanos came_there) { Take(left_here, came_there, &forth_); }
  void Back(Nanos left_there, Nanos came_here) { Take(left_there, came_here, &back_); }

  struct Estimate {
    Nanos offset = 0;
    Nanos error = 0;
  };
  // Empty: nothing went one of the ways.
  std::optional<Estimate> estimate() const;

 private:
  static constexpr Nanos kNone = std::numeric_limits<Nanos>::max();
  static void Take(Nanos left, Nanos came, Nanos* least);

  Nanos forth_ = kNone;
  Nanos back_ = kNone;
};

}  // namespace soapstone::timeline
