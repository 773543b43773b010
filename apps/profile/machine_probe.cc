#include "apps/profile/machine_probe.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/named_model.h"
#include "apps/profile/contention_probe.h"
#include "apps/profile/cost_table.h"
#include "apps/profile/roofline.h"
#include "apps/profile/synchronization_probe.h"
#include "base/status_macros.h"
#include "compute/cpu/backend.h"
#include "models/formats/safetensors_writer.h"

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

// Costs are scaled by the rates of the machine over those of the cost file: where both are of one
// machine, by nothing but the slowdown.
absl::StatusOr<Roofline> RatesAlone(const std::string& costs_path) {
  if (!costs_path.empty()) {
    SOAP_ASSIGN_OR_RETURN(const wire::CostTable table, ReadCostTable(costs_path));
    return Roofline{.gflops = static_cast<double>(table.flops_per_second()) / 1e9,
                    .gbps = static_cast<double>(table.bytes_per_second()) / 1e9};
  }
  const std::unique_ptr<compute::Backend> backend = compute::MakeCpuBackend({.threads = 1});
  return MeasureRoofline(backend.get(), 1);
}

absl::StatusOr<Slowdown> SlowdownFor(const MachineProbe& probe) {
  if (probe.model.empty()) return MeasureSlowdown(probe.devices, probe.step_ns);
  if (probe.graph != nullptr) {
    return MeasureSlowdownOfSteps(*probe.graph, probe.batch, probe.devices);
  }
  SOAP_ASSIGN_OR_RETURN(const models::Graph graph, GraphOf(probe.model));
  return MeasureSlowdownOfSteps(graph, probe.batch, probe.devices);
}

std::string LoadOf(const MachineProbe& probe) {
  if (!probe.model.empty()) {
    return absl::StrFormat("steps of %d samples of %s", probe.batch, probe.model);
  }
  return absl::StrFormat("%.4g ms of products, or copies",
                         static_cast<double>(probe.step_ns) / kMillisecond);
}

}  // namespace

absl::Status MeasureMachine(const MachineProbe& asked) {
  SOAP_RETURN_IF_ERROR(models::CheckWritable(asked.path));
  MachineProbe probe = asked;
  if (probe.devices == 0) probe.devices = std::max(1u, std::thread::hardware_concurrency());
  SOAP_ASSIGN_OR_RETURN(const Roofline alone, RatesAlone(probe.costs_path));
  SOAP_ASSIGN_OR_RETURN(const Slowdown slowdown, SlowdownFor(probe));
  SOAP_ASSIGN_OR_RETURN(const SyncTimes times,
                        MeasureSynchronization(probe.devices, probe.servers, slowdown.memory));
  const double gbps = alone.gbps / slowdown.memory;
  const ServerRates rates = RatesOf(times, probe, gbps / 2);
  std::ofstream file(asked.path);
  // In text, so that it says what its values are.
  file
      << absl::StrFormat(
             "# Measured by `soapstone plan --measure_machine` (docs/planner.md): what each of %d\n"
             "# processes reaches while all of them do, and meet after,\n# %s.\n",
             probe.devices, LoadOf(probe))
      << absl::StrFormat(
             "# One alone: %.4g GFLOP/s and %.4g GB/s; all: %.3f and %.3f times as slow.\n",
             alone.gflops, alone.gbps, slowdown.products, slowdown.memory)
      << absl::StrFormat(
             "# Servers: steps of a cluster took, besides operators, %.4g us and %.4g ns a byte\n"
             "# of the parameters.\n",
             times.fixed_ns / 1000, times.ns_per_byte)
      << absl::StrFormat(
             "name: \"this_machine_%d\"\n"
             "kinds { name: \"process\" tflops: %.5g memory_gbytes_per_s: %.5g memory_gib: %.4g "
             "}\n",
             probe.devices, alone.gflops / slowdown.products / 1e3, gbps,
             MemoryGib() / probe.devices)
      << absl::StrFormat(
             "nodes {\n  name: \"node\"\n  count: 1\n  devices: %d\n  kind: \"process\"\n"
             "  mesh { gbytes_per_s: %.5g latency_us: %.4g }\n"
             "  host { gbytes_per_s: %.5g latency_us: %.4g }\n"
             "  servers: %d\n  server_apply_gbytes_per_s: %.5g\n}\n",
             probe.devices, rates.link_gbps, rates.latency_us, rates.link_gbps, rates.latency_us,
             probe.servers, rates.apply_gbps)
      << std::flush;
  if (file) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", asked.path));
}

}  // namespace soapstone::apps
