// `soapstone simulate`: a virtual cluster in virtual time.
#pragma once

#include "apps/flags.h"

namespace soapstone::apps {

// Runs it and prints its table. Returns the exit code.
int Simulate(const SimulateFlags& flags);

}  // namespace soapstone::apps
