// IterationTrace: a worker's file of iteration times, a CSV row an iteration, which
// cluster/straggler_trace.h replays: worker, clock, compute_us, injected_us, blocked_us, end_us.
// Each worker writes a part of its own; who started them all joins the parts.
#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::apps {

// The part that the worker writes for a job whose trace goes to `path`.
std::string TracePart(const std::string& path, WorkerId worker);

class IterationTrace {
 public:
  // Begins the file anew. Error: it cannot be written.
  static absl::StatusOr<std::unique_ptr<IterationTrace>> Open(const std::string& path,
                                                              WorkerId worker);
  // The worker's cumulative counters at time `now`, the machine's own (NodeLoop::Now). Writes a row
  // when an iteration was completed since the last call, which is made at least once an iteration;
  // all but its clocks and times is ignored.
  void Take(Nanos now, const wire::Progress& progress);

 private:
  IterationTrace(std::ofstream file, WorkerId worker) : file_(std::move(file)), worker_(worker) {}

  std::ofstream file_;
  WorkerId worker_;
  wire::Progress last_;
};

// Removes the parts that an earlier job left for workers [0, workers).
void RemoveTraceParts(const std::string& path, uint32_t workers);
// Puts the parts of workers [0, workers) that there are into `path`, and removes them.
absl::Status JoinTraceParts(const std::string& path, uint32_t workers);

}  // namespace soapstone::apps
