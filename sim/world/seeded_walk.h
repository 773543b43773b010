// Walk: drives a world by a seeded random draw, faults among the choices, until the job is over or
// something is wrong. A seed is a walk: the same world, options and seed give the same steps.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"

namespace soapstone::sim {

struct WalkOptions {
  // A fault that is enabled is drawn with this probability at each step.
  double fault_probability = 0.03;
  // S5: a job that is not over after so many steps is stuck.
  uint64_t steps_max = 0;
  size_t trace_lines = 60;  // kept of the end; 0: none is made, which is faster
};

struct WalkReport {
  uint64_t seed = 0;
  uint64_t steps = 0;
  uint64_t faults = 0;
  std::optional<std::string> violation;
  std::vector<std::string> trace;  // the last steps, oldest first

  // "seed 17: S1: ..." and the trace, a line each.
  std::string ToString() const {
    return absl::StrCat("seed ", seed, ": ", violation.value_or("ok"), "\n  ",
                        absl::StrJoin(trace, "\n  "));
  }
};

// Draws of one walk. Each has slow and fast channels and devices, so that some node falls behind
// and stays behind: even odds at every step would keep all close together.
class SeededPicker {
 public:
  SeededPicker(double fault_probability, uint64_t seed)
      : fault_probability_(fault_probability),
        draws_(seed, RandomUse::kFault, 0),
        speeds_(seed, RandomUse::kFault, 1) {}

  // AnyChoice: kind, from, to, and is_fault(). REQUIRES: there are some.
  template <typename AnyChoice>
  const AnyChoice& Pick(const std::vector<AnyChoice>& choices) {
    if (draws_.Uniform(next_++) < fault_probability_) {
      std::vector<const AnyChoice*> faults;
      for (const AnyChoice& choice : choices) {
        if (choice.is_fault()) faults.push_back(&choice);
      }
      if (!faults.empty()) return *faults[draws_.Below(next_++, faults.size())];
    }
    double total = 0;
    for (const AnyChoice& choice : choices) total += Weight(choice);
    double left = draws_.Uniform(next_++) * total;
    const AnyChoice* last = nullptr;
    for (const AnyChoice& choice : choices) {
      if (choice.is_fault()) continue;
      last = &choice;
      left -= Weight(choice);
      if (left < 0) break;
    }
    return last != nullptr ? *last : choices.front();
  }

 private:
  template <typename AnyChoice>
  double Weight(const AnyChoice& choice) const {
    if (choice.is_fault()) return 0;
    static constexpr double kSpeeds[] = {1, 1, 0.3, 0.02};
    return kSpeeds[speeds_.Below(
        uint64_t{static_cast<uint8_t>(choice.kind)} << 40 | uint64_t{choice.from} << 20 | choice.to,
        std::size(kSpeeds))];
  }

  double fault_probability_;
  CounterRandom draws_;
  CounterRandom speeds_;
  uint64_t next_ = 0;
};

// AnyWorld: as explore.h's. It is left where the walk ends.
template <typename AnyWorld>
void Walk(const WalkOptions& options, uint64_t seed, AnyWorld* world, WalkReport* report) {
  SeededPicker picker(options.fault_probability, seed);
  std::deque<std::string> trace;
  report->seed = seed;
  while (!world->Finished() && !world->Violation().has_value()) {
    if (report->steps == options.steps_max) {
      report->violation = absl::StrCat("S5: not over after ", options.steps_max, " steps");
      break;
    }
    const auto choices = world->Enabled();
    const auto choice = picker.Pick(choices);
    if (options.trace_lines > 0) trace.push_back(world->Describe(choice));
    if (trace.size() > options.trace_lines) trace.pop_front();
    world->Do(choice);
    ++report->steps;
    report->faults += choice.is_fault() ? 1 : 0;
  }
  if (!report->violation.has_value()) report->violation = world->Violation();
  report->trace.assign(trace.begin(), trace.end());
}

}  // namespace soapstone::sim
