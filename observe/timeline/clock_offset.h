// ClockOffset: how far the steady clock of another machine is from ours, by messages that went both
// ways. Knows no message: it is told when each left, by its sender's clock, and when it came.
#pragma once

#include <optional>

#include "base/ids.h"

namespace soapstone::timeline {

// With offset = their clock - ours, of a message that took d there, and one that took d' back:
//   came there - left here = offset + d      came here - left there = d' - offset
// No message takes less than nothing: -back <= offset <= forth, of the least of each.
// A value. Times beyond 2^59 are nobody's, and are dropped.
class ClockOffset {
 public:
  void Forth(Nanos left_here, Nanos came_there) { Take(left_here, came_there, &forth_); }
  void Back(Nanos left_there, Nanos came_here) { Take(left_there, came_here, &back_); }

  // The least; empty: nothing went that way.
  std::optional<Nanos> forth() const { return forth_; }
  std::optional<Nanos> back() const { return back_; }

 private:
  static void Take(Nanos left, Nanos came, std::optional<Nanos>* least);

  std::optional<Nanos> forth_;
  std::optional<Nanos> back_;
};

}  // namespace soapstone::timeline
