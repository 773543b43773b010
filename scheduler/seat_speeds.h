// SeatSpeeds: whether what a worker computes takes other times for good than it did when the run
// began, so that another strategy may be better. A value; the scheduler's shell feeds it with what
// workers report of themselves, and tells the launcher, which plans.
//
// Of readings of at least kReadingClocks clocks each, with t the time of a clock that a worker
// computed, or rested as its straggler model asks, and never waited:
//     b = mean t over the first kBaseClocks clocks after the first kWarmUp
//     s = mean t / b over the readings since the last that was between kFast and kSlow
// A worker is slow, or fast, by s once these readings have kLasting clocks: what passes sooner is
// what staleness is for.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

class SeatSpeeds {
 public:
  static constexpr Clock kWarmUp = 5;
  static constexpr Clock kBaseClocks = 20;
  static constexpr Clock kReadingClocks = 5;
  static constexpr Clock kLasting = 20;
  static constexpr double kSlow = 1.25;
  static constexpr double kFast = 0.8;

  // `workers` of them, which begin at clock `first`.
  SeatSpeeds(uint32_t workers, Clock first);

  // The worker's cumulative counters. Those of a rank's new holder begin at zero; it is measured
  // anew.
  void Observe(WorkerId worker, const wire::Progress& progress);
  // By worker, 1 for those that are neither slow nor fast. None: nobody is; or that was told less
  // than kLasting clocks of theirs ago.
  std::optional<std::vector<double>> Take();

 private:
  struct Speed {
    Clock clock = 0;     // of the last reading
    Nanos worked = 0;    // then
    Clock begun = 0;     // from here on it is measured
    double base_ns = 0;  // sum over base_clocks
    Clock base_clocks = 0;
    double odd_ns = 0;  // sum over the readings that were slow, or fast, in a row
    Clock odd_clocks = 0;
    Clock odd_told = 0;  // of them
    bool slow = false;   // they were; else fast
  };
  static double SlownessOf(const Speed& speed);

  std::vector<Speed> speeds_;
};

}  // namespace soapstone::scheduler
