// Describes the machine that this runs on as a machine file (wire/config/machine.proto), by
// measuring it: `soapstone plan --measure_machine`.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"
#include "models/graph/graph.h"

namespace soapstone::apps {

struct MachineProbe {
  std::string path;      // of the file
  uint32_t devices = 0;  // processes; 0: as many as cores
  uint32_t servers = 1;
  // What processes do while it is measured how much slower they are together
  // (apps/profile/contention_probe.h): steps of a model, or, of none, products and copies of so
  // long between meetings.
  std::string model;
  std::shared_ptr<const models::Graph> graph;  // of the model; null: the one of that name
  int64_t batch = 0;                           // of a process
  Nanos step_ns = 0;
  std::string costs_path;  // whose rates those of a process alone are; empty: they are measured
};

// All processes at once: the file is of just so many, whatever cores they share. Errors: the file
// cannot be written; unknown model; a cost file
// that cannot be read; of MeasureSynchronization.
absl::Status MeasureMachine(const MachineProbe& probe);

}  // namespace soapstone::apps
