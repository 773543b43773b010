// `soapstone simulate --job`: trains a job in virtual time and shows how accuracy goes against it.
#pragma once

#include "apps/experiment/simulate_flags.h"
#include "cluster/job.h"
#include "experiment/cosim/cosim.h"

namespace soapstone::apps {

// REQUIRES: flags.job_path is given. Returns the exit code.
int SimulateJob(const SimulateFlags& flags);

experiment::CosimJob CosimJobOf(const Job& job);

}  // namespace soapstone::apps
