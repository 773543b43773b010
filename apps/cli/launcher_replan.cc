// Launcher: a job in progress that goes on by another strategy.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "apps/cli/launcher.h"
#include "apps/loop/node_loop.h"
#include "base/stop_signals.h"
#include "cluster/job.h"

namespace soapstone::apps {

constexpr Nanos kAfterGrace = 5 * kSecond;

bool Launcher::looks_for_strategy() const {
  return options_.replanner != nullptr && !stops_by_.has_value() && !stop_.has_value() &&
         !result_.has_value();
}

// The scheduler brings all workers to one clock, and ends the job when its checkpoint is written;
// where that does not come about it says so, and the job goes on as it is.
void Launcher::LookForStrategy() {
  Replanner* replanner = options_.replanner;
  if (stops_by_.has_value() && !stop_.has_value() && NodeLoop::Now() > *stops_by_) {
    stops_by_.reset();
    replanner->GiveUp();
  }
  if (!looks_for_strategy()) return;
  for (const std::string& line : replanner->Turn(NodeLoop::Now())) {
    console_->Line(absl::StrCat("--replan: ", line));
  }
  if (!replanner->found()) return;
  stops_by_ = NodeLoop::Now() + NanosOf(options_.config.cluster().grace_s()) + kAfterGrace;
  scheduler()->SignalWith(SIGTERM, kStopForStrategy);
}

}  // namespace soapstone::apps
