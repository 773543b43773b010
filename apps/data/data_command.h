// `soapstone data`: lists public data sets, or checks one that was fetched and lays it out.
#pragma once

#include "apps/data/data_flags.h"

namespace soapstone::apps {

// Returns the exit code.
int Data(const DataFlags& flags);

}  // namespace soapstone::apps
