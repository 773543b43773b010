// `soapstone keygen`: makes a job's keys (security/job_keys.h) and prints their fingerprints.
#pragma once

#include "apps/keygen/keygen_flags.h"

namespace soapstone::apps {

// Returns the exit code.
int Keygen(const KeygenFlags& flags);

}  // namespace soapstone::apps
