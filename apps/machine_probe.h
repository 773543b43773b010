// Describes the machine that this runs on as a machine file (wire/machine.proto), by measuring it:
// `soapstone plan --measure_machine`.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "base/ids.h"

namespace soapstone::apps {

struct MachineProbe {
  std::string path;      // of the file
  uint32_t devices = 0;  // processes; 0: as many as cores
  uint32_t servers = 1;
  Nanos step_ns = 0;  // of a process alone, between two meetings (apps/busy_rates.h)
};

// All processes at once: the file is of just so many, whatever cores they share. Errors: the file
// cannot be written; of MeasureSynchronization.
absl::Status MeasureMachine(const MachineProbe& probe);

}  // namespace soapstone::apps
