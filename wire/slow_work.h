// SlowWork: how far a server is with work that takes as long as the model is large: initial values
// before it acknowledges its first roster, the model's file at the end. It rides on the server's
// heartbeats, so that the scheduler can tell slow from hung; a heartbeat without it says that there
// is none.
#pragma once

#include <cstdint>

#include "wire/message.h"

namespace soapstone::wire {

struct SlowWork {
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  friend bool operator==(const SlowWork&, const SlowWork&) = default;
};

// A server's heartbeat has the body of a worker's, of which two fields have a meaning: what was
// moved to its place, and what is to be.
inline Progress ProgressOf(const SlowWork& work) {
  return {.pushed_bytes = work.done_bytes, .pulled_bytes = work.total_bytes};
}
inline SlowWork SlowWorkOf(const Progress& progress) {
  return {.done_bytes = progress.pushed_bytes, .total_bytes = progress.pulled_bytes};
}

}  // namespace soapstone::wire
