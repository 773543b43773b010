// `soapstone plan --compare=A,B`: two strategies for one model and machine, side by side.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "apps/plan/plan_flags.h"

namespace soapstone::apps {

// Their steps, and the operators and servers that differ; with --json as an object. Both are priced
// by the costs of the flags, whatever they were found by; where those are others the text says so.
// Errors: not two files; a file that is no strategy, or one for another model or machine.
absl::StatusOr<std::string> CompareStrategies(const PlanFlags& flags);

}  // namespace soapstone::apps
