// What a store holds of its slices beside messages: captured for a checkpoint, and restored from
// one. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/memory/buffer.h"
#include "compute/optimizer.h"

namespace soapstone::server {

// Of one slice at one moment.
struct SliceImage {
  Buffer values;              // [n] f32: a view; an update goes to another block meanwhile
  compute::SliceState state;  // the optimizer's, copied: it is changed in place
  friend bool operator==(const SliceImage&, const SliceImage&) = default;
};

// Fills in a slice of the store, by its index in the layout's slices of the shard. values: [n] f32.
using SliceSource =
    std::function<absl::Status(size_t slice, absl::Span<float> values, compute::SliceState* state)>;

}  // namespace soapstone::server
