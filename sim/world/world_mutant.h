// WorldMutant: what a world (sim/world.h) does wrong on purpose, so that tests see its checkers
// find it.
#pragma once

#include <cstdint>

#include "wire/message.h"

namespace soapstone::sim {

// Deliberate bugs around the shipped actors, for tests of the checkers.
enum class WorldMutant : uint8_t {
  kNone,
  kDuplicateUnseen,    // a duplicated push does not look like one to the shard
  kClockOvertakes,     // clocks are delivered before the pushes in front of them
  kUncountedClock,     // and do not say how many pushes precede them
  kNoTakeover,         // workers do not hear of a loss
  kNoRelease,          // shards do not hear of a loss
  kSharesTooEarly,     // workers take new shares for valid two clocks before they are
  kNoReload,           // devices do not load the parameters of a former clock again
  kNoResume,           // what a connection that broke had under way is not sent again
  kNoLinkLost,         // who cannot reach another says so to nobody
  kLateWordTaken,      // word of a link to a rank's former holder is taken for one to the present
  kCapturesEarly,      // a shard is captured a clock before its frontier is there
  kBeginsThoughBound,  // workers say that they are bound, and are not
  kBeginsUnseen,       // likewise, and shards do not look at what they have taken
  kNeverDrained,       // shards do not hear that they are to be captured, but their shells
  kNeverReleased,      // workers do not hear that they may go on
  kForgetfulPrint,     // worlds are compared without the faults that are left
};

// What the mutant does to a message on its arrival. False: it is lost.
bool Mutate(WorldMutant mutant, wire::Message* message);

}  // namespace soapstone::sim
