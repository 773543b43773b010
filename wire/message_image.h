// Messages that an actor keeps, in its image (base/memory/state_image.h): as they go over the wire,
// so that what is read has passed the checks of what comes from outside.
#pragma once

#include "base/memory/state_image.h"
#include "wire/message.h"

namespace soapstone::wire {

void WriteState(StateWriter* writer, const Message& message);
bool ReadState(StateReader* reader, Message* message);

// As the scheduler has sent it.
void WriteState(StateWriter* writer, const Roster& roster);
bool ReadState(StateReader* reader, Roster* roster);

}  // namespace soapstone::wire
