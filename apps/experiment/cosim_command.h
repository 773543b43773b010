// `soapstone simulate --job`: trains a job in virtual time and shows how accuracy goes against it.
#pragma once

#include "apps/experiment/simulate_flags.h"

namespace soapstone::apps {

// REQUIRES: flags.job_path is given. Returns the exit code.
int SimulateJob(const SimulateFlags& flags);

}  // namespace soapstone::apps
