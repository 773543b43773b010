// A process of its own for what measures and plans before a job: a signal ends it at any time, and
// what it needs of memory and of the signals' masks is its own.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/profile/scratch_folder.h"

namespace soapstone::apps {

// How it went.
struct ProcessEnd {
  std::optional<int> asked;  // a signal came: the code to end with
  std::string failed;        // "killed by SIGKILL", ..; empty: well
};

// Runs `work` in a fork of this process, whose temporary files go to `folder`. Waits for its end;
// on a stop signal (base/stop_signals.h) ends it at once, with all that it started. REQUIRES: this
// process has one thread. Error: it cannot be started.
absl::StatusOr<ProcessEnd> RunApart(const ScratchFolder& folder, const std::function<void()>& work);

}  // namespace soapstone::apps
