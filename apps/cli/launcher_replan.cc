// Launcher: a job in progress that goes on by another strategy.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "apps/cli/launcher.h"
#include "apps/loop/node_loop.h"
#include "base/stop_signals.h"

namespace soapstone::apps {

// The scheduler brings all workers to one clock, and ends the job when its checkpoint is written;
// where that does not come about it says so, and the job goes on as it is.
void Launcher::LookForStrategy() {
  Replanner* replanner = options_.replanner;
  if (replanner == nullptr || replanning_ || stop_.has_value() || result_.has_value()) return;
  for (const std::string& line : replanner->Turn(NodeLoop::Now())) {
    console_->Line(absl::StrCat("--replan: ", line));
  }
  if (!replanner->found()) return;
  replanning_ = true;
  scheduler()->SignalWith(SIGTERM, kStopForStrategy);
}

}  // namespace soapstone::apps
