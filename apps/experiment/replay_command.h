// `soapstone replay`: runs a recorded job again, in its recorded time, and compares what comes out.
#pragma once

#include "apps/experiment/replay_flags.h"

namespace soapstone::apps {

// Returns the exit code: kExitOk when every event was replayed and the parameters have the recorded
// hash (or the run ended without one), kExitReplayDiffers when not.
int ReplayRecording(const ReplayFlags& flags);

}  // namespace soapstone::apps
