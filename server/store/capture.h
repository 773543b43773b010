// A shard's part of a checkpoint: the order to take one, and what was taken. Values without a
// clock; the shard's shell calls them (apps/loop/shard_thread.h), as it does a learning curve's
// snapshots.
//
// Where the policy holds the updates of a round back until all are there (bsp, backup) the values
// change with the frontier alone: the round is its own marker, and what is taken while the frontier
// is C holds the updates of all clocks below C and of no other. Elsewhere updates are applied as
// they come, and the same is so where no worker begins C before it is taken
// (scheduler/checkpoints/begin_bound.h): that no update of C has come is looked at here.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fingerprint.h"
#include "base/ids.h"
#include "consistency/traits.h"
#include "server/store/slice_image.h"
#include "server/store/table_capture.h"

namespace soapstone::server {

// A shard's values change with its frontier alone.
bool ChangesByRounds(const consistency::PolicyTraits& policy);

struct Capture {
  Clock clock = 0;
  std::vector<SliceImage> slices;        // as layout.slices(shard)
  std::shared_ptr<TableCapture> tables;  // null: there are none
  friend bool operator==(const Capture&, const Capture&) = default;
};

class CaptureOrder {
 public:
  // To capture at `clock`; takes the place of an order that was not carried out.
  void Take(Clock clock) { clock_ = clock; }
  // To be called after each message, with the shard's frontier then, and the greatest clock of an
  // update that may be in the values before its round is complete (kNoClock: there is none such).
  // The clock that its store is to be captured at, now; none: nothing is due.
  std::optional<Clock> Look(Clock frontier, Clock newest);
  // The clock that the shard had come to where that was past the order's when it was looked at;
  // once.
  std::optional<Clock> TakeMissed() { return std::exchange(missed_, std::nullopt); }
  void AddTo(Fingerprint* f) const { f->Add(clock_.value_or(kNoClock)); }

 private:
  std::optional<Clock> clock_;
  std::optional<Clock> missed_;
};

}  // namespace soapstone::server
