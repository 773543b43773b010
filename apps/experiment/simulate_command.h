// `soapstone simulate`: a virtual cluster in virtual time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/experiment/simulate_flags.h"

namespace soapstone::apps {

// Runs it and prints its table. Returns the exit code.
int Simulate(const SimulateFlags& flags);

// The exit code; of a broken guarantee, which only a bug of ours breaks here, with a line on
// stderr.
int EndOfSimulation(uint64_t violations, const std::optional<std::string>& first);

}  // namespace soapstone::apps
