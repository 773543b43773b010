#include "apps/simulate_command.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "apps/job_source.h"
#include "apps/node_loop.h"
#include "base/exit_codes.h"
#include "sim/virtual_cluster.h"

namespace soapstone::apps {
namespace {

constexpr char kProgram[] = "soapstone";
constexpr double kDefaultDuration = 2000;  // mean iterations

sim::VirtualOptions OptionsOf(const SimulateFlags& flags) {
  sim::VirtualOptions options{.workers = flags.workers,
                              .shards = flags.shards,
                              .policy = flags.policy,
                              .stragglers = flags.stragglers,
                              .seed = flags.seed,
                              .clocks = flags.clocks,
                              .duration = flags.duration,
                              .latency_us = flags.latency_us,
                              .bandwidth_mbps = 1000 * flags.bandwidth_gbps,
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

}  // namespace

int Simulate(const SimulateFlags& flags) {
  const absl::StatusOr<sim::VirtualResult> result = sim::RunVirtual(OptionsOf(flags));
  if (!result.ok()) return SayConfigError(kProgram, result.status());
  std::cout << sim::ToTable(*result);
  if (!flags.trace_path.empty()) {
    std::ofstream file(flags.trace_path);
    file << sim::TimelineJson(*result) << std::flush;
    if (!file) {
      return SayConfigError(kProgram, absl::InvalidArgumentError(absl::StrCat(
                                          "--trace: cannot write ", flags.trace_path)));
    }
    std::cout << "timeline written to " << flags.trace_path << " (open it in ui.perfetto.dev)\n";
  }
  return result->violations == 0 ? kExitOk : kExitInternal;
}

}  // namespace soapstone::apps
