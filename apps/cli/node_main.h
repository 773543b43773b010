// The main function that the three daemons share: flags, job, logging, transport, signals, loop.
#pragma once

#include "server/store/store_fault.h"
#include "wire/message.h"

namespace soapstone::apps {

// Runs `soapstone-<role>`. Returns the process's exit code. `fault`: of what it keeps, for tests.
int NodeMain(wire::Role role, int argc, char** argv,
             server::StoreFault fault = server::StoreFault::kNone);

}  // namespace soapstone::apps
