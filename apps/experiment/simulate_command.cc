#include "apps/experiment/simulate_command.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/command_line.h"
#include "apps/cli/job_source.h"
#include "apps/experiment/cosim_command.h"
#include "apps/loop/node_loop.h"
#include "base/exit_codes.h"
#include "base/files/whole_file.h"
#include "cluster/job_paths.h"
#include "sim/virtual_cluster.h"

namespace soapstone::apps {
namespace {

constexpr uint32_t kSeedsDefault = 5;
constexpr uint64_t kEventsForMoreSeeds = 1'000'000;  // of one run
constexpr double kDefaultDuration = 2000;            // mean iterations

sim::VirtualOptions OptionsOf(const SimulateFlags& flags) {
  sim::VirtualOptions options{.workers = flags.workers,
                              .shards = flags.shards,
                              .micro_batch_count = flags.micro_batches,
                              .rebalance = flags.rebalance,
                              .policy = flags.policy,
                              .stragglers = flags.stragglers,
                              .seed = flags.seed,
                              .clocks = flags.clocks,
                              .duration = flags.duration,
                              .iteration_ns = std::llround(1000 * flags.iteration_us),
                              .latency_us = flags.latency_us,
                              .bandwidth_mbps = 1000 * flags.bandwidth_gbps,
                              .timeout_ns = std::llround(flags.heartbeat_timeout_s * kSecond),
                              .model_elements = flags.elements,
                              .timeline = !flags.trace_path.empty()};
  if (options.clocks == 0 && options.duration == 0) options.duration = kDefaultDuration;
  options.wall_seconds = [] {
    return static_cast<double>(NodeLoop::Now()) / static_cast<double>(kSecond);
  };
  if (isatty(STDERR_FILENO) != 0) {
    options.progress = [](double fraction) {
      std::fprintf(stderr, "\rsimulating %3.0f%%%s", 100 * fraction,
                   fraction < 1 ? "" : "\r\x1b[K");
    };
  }
  return options;
}

// --seeds, or as many as are quickly run: five for small jobs, one for large.
uint32_t SeedsOf(const SimulateFlags& flags, const sim::VirtualResult& first) {
  if (flags.seeds > 0) return flags.seeds;
  return first.events <= kEventsForMoreSeeds ? kSeedsDefault : 1;
}

}  // namespace

int Simulate(const SimulateFlags& flags) {
  if (!flags.job_path.empty()) return SimulateJob(flags);
  wire::JobConfig read;
  read.mutable_training()->set_stragglers(flags.stragglers);
  const absl::Status apart = CheckApart({{"--trace", flags.trace_path}}, read, {});
  if (!apart.ok()) return SayConfigError(kSoapstone, apart);
  sim::VirtualOptions options = OptionsOf(flags);
  absl::StatusOr<sim::VirtualResult> result = sim::RunVirtual(options);
  if (!result.ok()) return SayConfigError(kSoapstone, result.status());
  // Stalls are rare and heavy: one run's rate is off by several per cent. So the same job is run
  // with the next seeds too, and the rate is their mean.
  std::vector<double> rates = {result->rate};
  uint64_t violations = result->violations;
  std::optional<std::string> violation = result->violation;
  options.timeline = false;
  for (uint32_t i = 1; i < SeedsOf(flags, *result); ++i) {
    ++options.seed;
    const absl::StatusOr<sim::VirtualResult> next = sim::RunVirtual(options);
    if (!next.ok()) return SayConfigError(kSoapstone, next.status());
    rates.push_back(next->rate);
    violations += next->violations;
    if (!violation.has_value()) violation = next->violation;
  }
  std::cout << sim::ToTable(*result);
  if (rates.size() > 1) {
    const auto [low, high] = std::minmax_element(rates.begin(), rates.end());
    std::cout << absl::StrFormat(
        "mean rate              %.3f over %d seeds (%.3f to %.3f)\n",
        std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size()),
        rates.size(), *low, *high);
  }
  if (!flags.trace_path.empty()) {
    const absl::Status written = WriteWholeFile(flags.trace_path, sim::TimelineJson(*result));
    if (!written.ok()) return SayConfigError(kSoapstone, written);
    std::cout << "timeline written to " << flags.trace_path << " (open it in ui.perfetto.dev)\n";
  }
  return EndOfSimulation(violations, violation);
}

int EndOfSimulation(uint64_t violations, const std::optional<std::string>& first) {
  if (violations == 0) return kExitOk;
  return SayConfigError(
      kSoapstone,
      absl::InternalError(absl::StrCat(
          "the guarantee was broken ", violations, " times; first: ", first.value_or("not kept"),
          ". That is a fault of Soapstone's: please report it with the command line")));
}

}  // namespace soapstone::apps
