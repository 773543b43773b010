// `soapstone top`: how a job is, drawn again and again.
#pragma once

#include "apps/top/top_flags.h"

namespace soapstone::apps {

// Until the job ends, or once. The exit code.
int Top(const TopFlags& flags);

}  // namespace soapstone::apps
