#include "scheduler/seat_speeds.h"

namespace soapstone::scheduler {

SeatSpeeds::SeatSpeeds(uint32_t workers, Clock first)
    : speeds_(workers, Speed{.clock = first, .begun = first + kWarmUp}) {}

void SeatSpeeds::Observe(WorkerId worker, const wire::Progress& progress) {
  if (Index(worker) >= speeds_.size()) return;
  Speed& speed = speeds_[Index(worker)];
  const Nanos worked = progress.compute_ns + progress.injected_ns;
  const Clock clocks = progress.clock - speed.clock;
  if (clocks < 0 || worked < speed.worked) {  // another process has the rank
    speed = {.clock = progress.clock, .worked = worked, .begun = progress.clock + kWarmUp};
    return;
  }
  if (clocks < kReadingClocks) return;
  const auto took = static_cast<double>(worked - speed.worked);
  const bool measured = speed.clock >= speed.begun;
  speed.clock = progress.clock;
  speed.worked = worked;
  if (!measured) return;
  if (speed.base_clocks < kBaseClocks) {
    speed.base_ns += took;
    speed.base_clocks += clocks;
    return;
  }
  const double base = speed.base_ns / static_cast<double>(speed.base_clocks);
  const double ratio = base > 0 ? took / static_cast<double>(clocks) / base : 1;
  const bool slow = ratio > kSlow;
  const bool odd = slow || ratio < kFast;
  if (!odd || slow != speed.slow) speed.odd_ns = 0, speed.odd_clocks = speed.odd_told = 0;
  if (!odd) return;
  speed.slow = slow;
  speed.odd_ns += took;
  speed.odd_clocks += clocks;
}

double SeatSpeeds::SlownessOf(const Speed& speed) {
  if (speed.odd_clocks < kLasting) return 1;
  return speed.odd_ns / static_cast<double>(speed.odd_clocks) *
         static_cast<double>(speed.base_clocks) / speed.base_ns;
}

std::optional<std::vector<double>> SeatSpeeds::Take() {
  bool due = false;
  for (const Speed& speed : speeds_) due = due || speed.odd_clocks - speed.odd_told >= kLasting;
  if (!due) return std::nullopt;
  std::vector<double> slowness;
  slowness.reserve(speeds_.size());
  for (Speed& speed : speeds_) {
    slowness.push_back(SlownessOf(speed));
    speed.odd_told = speed.odd_clocks;
  }
  return slowness;
}

}  // namespace soapstone::scheduler
