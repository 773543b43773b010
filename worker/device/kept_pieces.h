// KeptPieces: the pieces of parameters that a seat of a team keeps as its own between exchanges,
// under policies whose workers make local steps: their values, what the local optimizer remembers
// of them, and what an exchange sends. A seat alone holds each of these pieces in its team, so no
// step needs anything of another seat. SeatExecutor calls it; it knows nothing of sections.
//
// Invariants
//  1. Values change by Load, Step and Move alone.
//  2. What is handed over is never written again.
// Thread-compatible: of one device's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "compute/optimizer.h"
#include "compute/schedule.h"
#include "wire/layout.h"
#include "worker/device/device.h"

namespace soapstone::worker {

// Of local steps.
struct LocalSteps {
  compute::OptimizerSpec optimizer;
  double momentum = 0;  // > 0: they are Nesterov's with it
  compute::ScheduleSpec schedule;
  bool keeps_start = false;  // exchanges send how far a round of them led
};

class KeptPieces {
 public:
  KeptPieces(std::shared_ptr<const wire::Layout> layout, LocalSteps steps, Clock total_clocks);

  // Memory that it takes at most: values, the optimizer's state, what is handed over, and what a
  // round began with.
  uint64_t memory_bytes() const;
  // [elements of the piece] f32, valid until the next Load.
  absl::Span<const float> values(uint32_t piece) const { return pieces_[piece].values; }

  // From the answers of the shards.
  void Load(const LoadCommand& load);
  // x <- x - lr g, of all pieces, with g the mean over `samples`. gradients: by piece the sum over
  // them, [elements]. Returns the first piece that is left not finite.
  std::optional<uint32_t> Step(Clock clock, uint64_t samples,
                               const std::vector<absl::Span<const float>>& gradients);
  // d = alpha (x - centre), x <- x - d, with the very d that the shard adds (Zhang et al., NIPS
  // 2015, eqs. 3 and 4): it is handed over next.
  void Move(const ElasticCommand& elastic);
  // d = x - what the round began with: it is handed over next.
  void TakeDelta();
  // d of a bucket, a buffer a slice; and the samples of the steps since the exchange before.
  Buffers HandOver(ShardId shard, BucketId bucket) const;
  uint64_t samples() const { return handed_samples_; }

 private:
  struct Piece {
    std::vector<float> values;
    compute::SliceState state;
    BufferPool::Block handed;  // d
  };
  // do_slice(piece, slice, its floats of what has come) of all slices.
  template <typename DoSlice>
  void Walk(const std::vector<Buffers>& frames, DoSlice do_slice);
  void BeginExchange();

  std::shared_ptr<const wire::Layout> layout_;
  LocalSteps steps_;
  Clock total_clocks_ = 0;
  std::vector<Piece> pieces_;   // by parameter of the layout
  std::vector<Buffers> start_;  // of the round, by shard
  uint64_t samples_ = 0;        // since the last exchange
  uint64_t handed_samples_ = 0;
  BufferPool pool_;
};

}  // namespace soapstone::worker
