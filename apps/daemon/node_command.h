// `soapstone node`: one process of a job, in the role that follows from a number over all of them.
#pragma once

#include "apps/cli/node_flags.h"

namespace soapstone::apps {

// Runs it to its end; the exit code.
int RunNodeCommand(NodeFlags flags);

}  // namespace soapstone::apps
