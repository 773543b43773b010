// Descriptors 0, 1 and 2 of a process that was started without some of them: what it opens next
// would get their numbers, and what is printed would go into a socket or an event's counter. Who
// calls: every main function, first.
#pragma once

namespace soapstone::apps {

enum class WhenClosed {
  kSilent,  // what is written is nobody's: daemons
  kError,   // a write fails, as it would: commands, whose result would be lost
};

// Puts /dev/null in the place of each that is closed. A write beyond the largest size that a file
// may have (ulimit -f) fails from now on, as on a full disk, where it would end the process.
void HoldStandardDescriptors(WhenClosed when);

}  // namespace soapstone::apps
