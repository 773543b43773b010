// The runs of a job's processes, one after another: a job has several where it stops to go on by
// another strategy (--replan), or is started again after a loss (--restarts). Each begins at the
// checkpoint that the one before has left.
#pragma once

#include "apps/cli/console.h"
#include "apps/cli/launcher.h"
#include "wire/config/job.pb.h"

namespace soapstone::apps {

// Runs it to its end. `config`: that of the first run; becomes that of the last. `finished`: the
// last one's (Launcher). Returns the exit code.
int RunToItsEnd(LauncherOptions options, Console* console, wire::JobConfig* config, bool* finished);

}  // namespace soapstone::apps
