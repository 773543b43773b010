// Words of the scheduler's lines for the user: nodes, times, and what has diverged.
#pragma once

#include <string>

#include "base/ids.h"
#include "wire/message.h"

namespace soapstone::scheduler {

const char* Spoken(wire::Role role);     // "worker"
std::string Spoken(wire::Address node);  // "worker 3"
std::string Seconds(Nanos duration);     // "5.0 s"

// "diverged at clock 7: the gradient of fc1.weight by worker 0 is not finite".
std::string Divergence(Clock clock, const wire::NotFinite& what);

}  // namespace soapstone::scheduler
