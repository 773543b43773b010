// `soapstone plan`: how to spread a model's training step over a machine, and how long the step
// then takes, without either at hand.
#pragma once

#include "apps/plan/plan_flags.h"

namespace soapstone::apps {

// Returns the exit code.
int Plan(const PlanFlags& flags);

}  // namespace soapstone::apps
