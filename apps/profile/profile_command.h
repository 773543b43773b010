// `soapstone profile`: the time of every operator of a model on this machine, and the memory of its
// steps beside what was planned.
#pragma once

#include "apps/profile/profile_flags.h"

namespace soapstone::apps {

// Returns the exit code.
int Profile(const ProfileFlags& flags);

}  // namespace soapstone::apps
