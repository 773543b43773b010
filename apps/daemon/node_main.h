// The main function that the three daemons share: flags, job, logging, transport, signals, loop.
#pragma once

#include <string>

#include "apps/cli/node_flags.h"
#include "server/store/store_fault.h"
#include "wire/config/job.pb.h"
#include "wire/message.h"

namespace soapstone::apps {

// "scheduler", "server" or "worker".
const char* RoleName(wire::Role role);

// Runs such a process. `program`: what its errors begin with. `config`: as ConfigFromFlags. Returns
// its exit code. `fault`: of what it keeps, for tests.
int RunRole(wire::Role role, const std::string& program, const NodeFlags& flags,
            const wire::JobConfig& config, server::StoreFault fault = server::StoreFault::kNone);

// Runs `soapstone-<role>`. Returns the process's exit code. `fault`: as RunRole.
int NodeMain(wire::Role role, int argc, char** argv,
             server::StoreFault fault = server::StoreFault::kNone);

}  // namespace soapstone::apps
