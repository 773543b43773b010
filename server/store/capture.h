// A shard's part of a checkpoint: the order to take one, and what was taken. Values without a
// clock; the shard's shell calls them (apps/loop/shard_thread.h), as it does a learning curve's
// snapshots.
//
// Where the policy holds the updates of a round back until all are there (bsp) the values change
// with the frontier alone: the round is its own marker, and what is taken while the frontier is C
// holds the updates of all clocks below C and of no other.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "server/store/slice_image.h"
#include "server/store/store.h"

namespace soapstone::server {

struct Capture {
  Clock clock = 0;
  std::vector<SliceImage> slices;  // as layout.slices(shard)
  friend bool operator==(const Capture&, const Capture&) = default;
};

class CaptureOrder {
 public:
  // To capture at `clock`; takes the place of an order that was not carried out.
  void Take(Clock clock) { clock_ = clock; }
  // To be called after each message, with the shard's frontier then. Empty: nothing is due.
  std::optional<Capture> Look(Clock frontier, const Store& store);
  // True, once, where the frontier was past the order's clock when it was looked at.
  bool TakeMissed() { return std::exchange(missed_, false); }

 private:
  std::optional<Clock> clock_;
  bool missed_ = false;
};

}  // namespace soapstone::server
