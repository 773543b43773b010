// Do states with equal fingerprints have equal futures? An explorer takes such states for one, so a
// field that a fingerprint leaves out hides behaviours. This explores a world, keeps the first
// state of each fingerprint, and walks from each state that comes to the same one, beside the
// first, by the same choices at random: at each step both must offer the same choices, and have the
// same fingerprint and the same verdict.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/fingerprint.h"
#include "base/random.h"

namespace soapstone::check {

struct FuturesOptions {
  size_t states_max = 2'000;  // kept
  uint64_t pairs_max = 600;   // walked from
  uint64_t walks = 2;         // from each
  uint64_t steps = 60;        // of a walk
  uint64_t seed = 1;
};

struct FuturesReport {
  uint64_t states = 0;
  uint64_t pairs = 0;  // states reached by another way
  uint64_t steps = 0;  // compared
  std::optional<std::string> difference;
};

template <typename World>
std::pair<uint64_t, uint64_t> PrintOf(const World& world) {
  Fingerprint f;
  world.AddTo(&f);
  return f.value();
}

// What tells two worlds of one fingerprint apart now, if anything.
template <typename World>
std::optional<std::string> DifferenceNow(const World& a, const World& b) {
  if (a.Violation().has_value() != b.Violation().has_value()) return "one of them is a violation";
  if (a.Finished() != b.Finished()) return "one of them is finished";
  if (!(a.Enabled() == b.Enabled())) return "their choices differ";
  if (PrintOf(a) != PrintOf(b)) return "their fingerprints differ";
  return std::nullopt;
}

// The explored part is drawn at random, not depth first: so it has states from all over the space.
template <typename World>
FuturesReport CompareFutures(const World& start, const FuturesOptions& options) {
  FuturesReport report;
  const CounterRandom random(options.seed, RandomUse::kTest, 0);
  uint64_t draw = 0;
  const auto walk = [&](World a, World b) -> std::optional<std::string> {
    std::string path;
    for (uint64_t step = 0; step <= options.steps; ++step) {
      ++report.steps;
      if (const auto what = DifferenceNow(a, b)) {
        return absl::StrCat(*what, " after ", step, " steps:", path);
      }
      const auto choices = a.Enabled();
      if (choices.empty() || a.Violation().has_value()) break;
      const auto& choice = choices[random.Below(draw++, choices.size())];
      absl::StrAppend(&path, "\n  ", a.Describe(choice));
      a.Do(choice);
      b.Do(choice);
    }
    return std::nullopt;
  };
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, World> first;
  first.emplace(PrintOf(start), start);
  std::vector<World> open = {start};
  while (!open.empty() && report.pairs < options.pairs_max && !report.difference.has_value()) {
    std::swap(open[random.Below(draw++, open.size())], open.back());
    const World world = std::move(open.back());
    open.pop_back();
    for (const auto& choice : world.Enabled()) {
      World next = world;
      next.Do(choice);
      const auto print = PrintOf(next);
      const auto known = first.find(print);
      if (known == first.end()) {
        if (first.size() >= options.states_max) continue;
        first.emplace(print, next);
        open.push_back(std::move(next));
        continue;
      }
      ++report.pairs;
      for (uint64_t i = 0; i < options.walks && !report.difference.has_value(); ++i) {
        report.difference = walk(known->second, next);
      }
    }
  }
  report.states = first.size();
  return report;
}

}  // namespace soapstone::check
