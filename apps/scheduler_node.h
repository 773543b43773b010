// SchedulerNode: the shell of the scheduler: runs the Coordinator over a transport and says how the
// job gets on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "apps/job.h"
#include "apps/node_loop.h"
#include "apps/progress_meter.h"
#include "apps/report.h"
#include "scheduler/coordinator.h"
#include "transport/transport.h"

namespace soapstone::apps {

// One thread calls Run; RequestStop from any. `reports` outlives it.
class SchedulerNode {
 public:
  // `session`: random, nonzero. `transport` listens already.
  SchedulerNode(std::shared_ptr<const Job> job, std::unique_ptr<transport::Transport> transport,
                uint64_t session, ReportSink* reports);

  // Runs the job to its end. Returns the exit code.
  int Run();
  // Ends the job; Run returns `code`.
  void RequestStop(int code) { loop_.RequestStop(code); }

 private:
  void Deliver(Nanos now, const wire::Message& message);
  void Flush();
  void Watch(Nanos now);  // phases and news
  void Report(Nanos now);
  ResultReport Result() const;

  std::shared_ptr<const Job> job_;
  NodeLoop loop_;
  scheduler::Coordinator coordinator_;
  ProgressMeter meter_;
  ReportSink* reports_;
  wire::Outbox out_;
  std::optional<Nanos> running_since_;
  std::optional<Nanos> running_until_;
  Nanos next_report_ = 0;
  ProgressReport last_progress_;
};

}  // namespace soapstone::apps
