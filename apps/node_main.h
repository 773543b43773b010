// The main function that the three daemons share: flags, job, logging, transport, signals, loop.
#pragma once

#include "wire/message.h"

namespace soapstone::apps {

// Runs `soapstone-<role>`. Returns the process's exit code.
int NodeMain(wire::Role role, int argc, char** argv);

}  // namespace soapstone::apps
