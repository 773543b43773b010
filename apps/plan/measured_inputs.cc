#include "apps/plan/measured_inputs.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/profile/machine_probe.h"
#include "apps/profile/model_costs.h"
#include "base/files/whole_file.h"
#include "base/status_macros.h"
#include "strategy/machine_text.h"

namespace soapstone::apps {
namespace {

namespace fs = std::filesystem;

constexpr char kMachine[] = "/this.machine.textproto";
constexpr char kCosts[] = "/costs.textproto";
constexpr Nanos kMeetingMax = 50 * kMillisecond;  // of steps by which a machine is measured

}  // namespace

InputsProbe ProbeOf(const wire::JobConfig& config, const Job& job) {
  const wire::Cluster& cluster = config.cluster();
  const uint32_t teams = std::max(1u, cluster.teams());
  return {.model = config.model(),
          .graph = job.graph,
          .threads = static_cast<int>(std::max(1u, cluster.threads())),
          .servers = std::max(1u, cluster.servers()),
          .teams = teams,
          .devices = cluster.workers() / teams,
          .batch = config.training().batch() / teams};
}

absl::Status CheckMachineFile(const std::string& path, const wire::JobConfig& config) {
  SOAP_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  SOAP_ASSIGN_OR_RETURN(const planner::Machine machine, planner::ParseMachine(text, path));
  const uint32_t teams = std::max(1u, config.cluster().teams());
  const uint32_t devices = config.cluster().workers() / teams;
  if (machine.devices().size() >= devices) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("--machine: %s has %d devices, and %d workers are to share the model: give "
                      "another file, or --workers=%d",
                      path, machine.devices().size(), devices, machine.devices().size() * teams));
}

// Long steps are stood for by shorter work.
absl::Status MeasureInputs(const InputsProbe& probe, const std::string& folder) {
  const std::string costs = folder + kCosts;
  const absl::StatusOr<Nanos> share = MeasureModelCosts(*probe.graph,
                                                        {.model = probe.model,
                                                         .threads = probe.threads,
                                                         .batch = probe.batch,
                                                         .workers = probe.devices},
                                                        costs);
  if (!share.ok()) fs::remove(costs);
  if (!probe.machine_path.empty()) return absl::OkStatus();
  const Nanos step = share.value_or(kMeetingMax);
  MachineProbe machine = {.path = folder + kMachine,
                          .devices = probe.devices * probe.teams,
                          .servers = probe.servers,
                          .step_ns = std::clamp<Nanos>(step, kMillisecond, kMeetingMax),
                          .costs_path = share.ok() ? costs : ""};
  if (step <= kMeetingMax) {
    machine.model = probe.model;
    machine.graph = probe.graph;
    machine.batch = std::max<int64_t>(1, probe.batch / probe.devices);
  }
  return MeasureMachine(machine);
}

PlanInputs InputsIn(const std::string& folder, const std::string& machine_given) {
  std::error_code error;
  return {.machine = machine_given.empty() ? folder + kMachine : machine_given,
          .costs = fs::exists(folder + kCosts, error) ? folder + kCosts : ""};
}

absl::Status MeasuredInputs::KeepFrom(const std::string& folder, const std::string& machine_given) {
  auto kept = std::make_unique<ScratchFolder>();
  std::error_code error;
  for (const char* name : {kMachine, kCosts}) {
    if (kept->made() && fs::exists(folder + name, error)) {
      fs::copy_file(folder + name, kept->path() + name, error);
    }
    if (!kept->made() || error) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot keep what was measured in ", kept->path(), ": is TMPDIR writable?"));
    }
  }
  files_ = InputsIn(kept->path(), machine_given);
  folder_ = std::move(kept);
  return absl::OkStatus();
}

}  // namespace soapstone::apps
