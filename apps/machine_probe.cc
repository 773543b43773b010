#include "apps/machine_probe.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/busy_rates.h"
#include "apps/roofline.h"
#include "apps/sync_probe.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "models/safetensors_writer.h"

namespace soapstone::apps {
namespace {

constexpr double kApplyShareMin = 0.1;  // of what a byte takes, however fast copies are

double MemoryGib() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) /
         static_cast<double>(int64_t{1} << 30);
}

// What the simulator makes of the servers' links and rates, so that it gives what was measured:
// with k workers that push P bytes at once to S servers, each of which keeps P/S,
//   T = 2 · latency + 2 · P/link + k · P/S / apply
// link is the speed of a copy (a byte read, a byte written) with k at it.
struct ServerRates {
  double link_gbps = 0, apply_gbps = 0, latency_us = 0;
};

ServerRates RatesOf(const SyncTimes& times, const MachineProbe& probe, double copy_gbps) {
  const double copies = std::min(2 / copy_gbps, (1 - kApplyShareMin) * times.ns_per_byte);
  return {.link_gbps = 2 / copies,
          .apply_gbps = probe.devices / (times.ns_per_byte - copies) / probe.servers,
          .latency_us = times.fixed_ns / 2 / 1000};
}

}  // namespace

absl::Status MeasureMachine(const MachineProbe& asked) {
  SOAP_RETURN_IF_ERROR(models::CheckWritable(asked.path));
  MachineProbe probe = asked;
  if (probe.devices == 0) probe.devices = std::max(1u, std::thread::hardware_concurrency());
  const std::unique_ptr<compute::Backend> backend = compute::MakeCpuBackend({.threads = 1});
  SOAP_ASSIGN_OR_RETURN(const Roofline alone, MeasureRoofline(backend.get(), 1));
  SOAP_ASSIGN_OR_RETURN(const Slowdown slowdown, MeasureSlowdown(probe.devices, probe.step_ns));
  SOAP_ASSIGN_OR_RETURN(const SyncTimes times,
                        MeasureSynchronization(probe.devices, probe.servers, slowdown.memory));
  const double gbps = alone.gbps / slowdown.memory;
  const ServerRates rates = RatesOf(times, probe, gbps / 2);
  std::ofstream file(asked.path);
  file << absl::StrFormat(
      "# Measured by `soapstone plan --measure_machine` (docs/planner.md): what each of %d\n"
      "# processes reaches while all of them run and meet every %.4g ms. One alone: %.4g GFLOP/s\n"
      "# and %.4g GB/s, of which they are %.3f and %.3f times as slow. Servers: steps of a "
      "cluster\n"
      "# took, besides operators, %.4g us and %.4g ns for a byte of the parameters.\n"
      "name: \"this_machine_%d\"\n"
      "kinds { name: \"process\" tflops: %.5g memory_gbytes_per_s: %.5g memory_gib: %.4g }\n"
      "nodes {\n  name: \"node\"\n  count: 1\n  devices: %d\n  kind: \"process\"\n"
      "  mesh { gbytes_per_s: %.5g latency_us: %.4g }\n"
      "  host { gbytes_per_s: %.5g latency_us: %.4g }\n"
      "  servers: %d\n  server_apply_gbytes_per_s: %.5g\n}\n",
      probe.devices, static_cast<double>(probe.step_ns) / kMillisecond, alone.gflops, alone.gbps,
      slowdown.products, slowdown.memory, times.fixed_ns / 1000, times.ns_per_byte, probe.devices,
      alone.gflops / slowdown.products / 1e3, gbps, MemoryGib() / probe.devices, probe.devices,
      rates.link_gbps, rates.latency_us, rates.link_gbps, rates.latency_us, probe.servers,
      rates.apply_gbps);
  file << std::flush;
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", asked.path));
}

}  // namespace soapstone::apps
