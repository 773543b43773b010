// `soapstone models`: lists the zoo, or one model's operators and memory.
#pragma once

#include "apps/cli/models_flags.h"

namespace soapstone::apps {

// Returns the exit code.
int ListModels(const ModelsFlags& flags);

}  // namespace soapstone::apps
