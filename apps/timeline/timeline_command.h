// `soapstone timeline`: a picture of what a job's processes did, from the files that they write.
#pragma once

#include "apps/timeline/timeline_flags.h"

namespace soapstone::apps {

// Waits where the job runs and has not come to the clocks' end. The exit code.
int DrawJobTimeline(const TimelineFlags& flags);

}  // namespace soapstone::apps
