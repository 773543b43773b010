#include "sim/fault_world.h"

#include <algorithm>
#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace soapstone::sim {
namespace {

uint64_t StepsMax(const SeedOptions& options) {
  if (options.steps_max > 0) return options.steps_max;
  const JobShape& shape = options.world.shape;
  const uint64_t messages_a_step =
      uint64_t{shape.shards} * (4 + 2 * std::max(shape.micro_batch_count, shape.buckets_per_shard));
  return 20 * (100 + shape.workers * static_cast<uint64_t>(shape.clocks) * messages_a_step);
}

// Draws of one run. Each run has slow and fast channels and devices, so that some node falls
// behind and stays behind: even odds at every step would keep all close together.
class Picker {
 public:
  Picker(const SeedOptions& options, uint64_t seed)
      : options_(options),
        draws_(seed, RandomUse::kFault, 0),
        speeds_(seed, RandomUse::kFault, 1) {}

  const Choice& Pick(const std::vector<Choice>& choices) {
    if (draws_.Uniform(next_++) < options_.fault_probability) {
      std::vector<const Choice*> faults;
      for (const Choice& choice : choices) {
        if (choice.is_fault()) faults.push_back(&choice);
      }
      if (!faults.empty()) return *faults[draws_.Below(next_++, faults.size())];
    }
    double total = 0;
    for (const Choice& choice : choices) total += Weight(choice);
    double left = draws_.Uniform(next_++) * total;
    const Choice* last = nullptr;
    for (const Choice& choice : choices) {
      if (choice.is_fault()) continue;
      last = &choice;
      left -= Weight(choice);
      if (left < 0) break;
    }
    return last != nullptr ? *last : choices.front();
  }

 private:
  double Weight(const Choice& choice) const {
    if (choice.is_fault()) return 0;
    static constexpr double kSpeeds[] = {1, 1, 0.3, 0.02};
    return kSpeeds[speeds_.Below(
        uint64_t{static_cast<uint8_t>(choice.kind)} << 40 | uint64_t{choice.from} << 20 | choice.to,
        std::size(kSpeeds))];
  }

  const SeedOptions& options_;
  CounterRandom draws_;
  CounterRandom speeds_;
  uint64_t next_ = 0;
};

}  // namespace

absl::StatusOr<SeedReport> RunSeed(const SeedOptions& options, uint64_t seed) {
  SOAP_ASSIGN_OR_RETURN(World world, World::Make(options.world));
  Picker picker(options, seed);
  SeedReport report{.seed = seed};
  std::deque<std::string> trace;
  const uint64_t steps_max = StepsMax(options);
  while (!world.Finished() && !world.Violation().has_value()) {
    if (report.steps == steps_max) {
      report.violation = absl::StrCat("S5: not over after ", steps_max, " steps");
      break;
    }
    const std::vector<Choice> choices = world.Enabled();
    const Choice choice = picker.Pick(choices);
    trace.push_back(world.Describe(choice));
    if (trace.size() > options.trace_lines) trace.pop_front();
    world.Do(choice);
    ++report.steps;
    report.faults += choice.is_fault() ? 1 : 0;
  }
  if (!report.violation.has_value()) report.violation = world.Violation();
  report.trace.assign(trace.begin(), trace.end());
  report.read_lags = world.checkers().read_lags();
  report.clock_gap_max = world.checkers().clock_gap_max();
  report.share_changes = world.share_changes();
  return report;
}

std::string SeedReport::ToString() const {
  return absl::StrCat("seed ", seed, ": ", violation.value_or("ok"), "\n  ",
                      absl::StrJoin(trace, "\n  "));
}

}  // namespace soapstone::sim
