// `soapstone checkpoint`: what is in a folder of checkpoints, whether it is whole, and its tensors
// as a file of their own. Changes nothing in the folder, and may be called while a job writes
// there.
#pragma once

#include "apps/checkpoint_command/checkpoint_flags.h"

namespace soapstone::apps {

// Returns the exit code.
int TellOfCheckpoints(const CheckpointFlags& flags);

}  // namespace soapstone::apps
