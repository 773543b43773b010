// The two ways in which a run of an experiment is made: co-simulation in this process, and real
// processes under the launcher. They turn plans into outcomes.
#pragma once

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "experiment/run.h"

namespace soapstone::apps {

// What all runs of this process are made with: read once.
struct MachineFacts {
  std::string hardware;  // "Intel(R) Xeon(R) ..., 2 cores"
  std::string build;     // "program 0123456789ab, libdnnl.so.2.7, ..."
};
MachineFacts ReadMachineFacts();

// Thread-safe; does not stop early.
absl::StatusOr<experiment::RunOutcome> RunInVirtualTime(const experiment::RunPlan& plan,
                                                        const MachineFacts& machine,
                                                        const experiment::RunProgress& progress);

// `log_dir`: of this run's processes. Takes the signals of its thread, as the launcher does.
// Cancelled: by a signal, whose exit code is then in `signalled`.
absl::StatusOr<experiment::RunOutcome> RunProcesses(const experiment::RunPlan& plan,
                                                    const MachineFacts& machine,
                                                    const std::string& log_dir,
                                                    std::atomic<int>* signalled);

}  // namespace soapstone::apps
