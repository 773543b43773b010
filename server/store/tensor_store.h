// TensorStore: the values of one shard's slices, and what an update makes of them by the job's
// optimizer and its policy's store rule. The store (store.h) owns one; the tests of models' numbers
// make their own. Knows nothing of messages and workers but whose contribution it is.
//
// Invariants
//  1. What is read stays as it was read: an update goes to another block while somebody keeps the
//     values of its bucket.
//  2. What an update makes of the values depends on its contributions and on those before it alone:
//     with a fixed tree not on how micro-batches are grouped, and never on who reads.
//  3. Checksums, where they are kept, are those of the values last written.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/frame_sums.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "base/memory/state_image.h"
#include "server/store/contribution.h"
#include "server/store/slice_image.h"

namespace soapstone::server {

// Movable, not copyable.
class TensorStore {
 public:
  explicit TensorStore(TensorStoreOptions options);
  // `replicas`: P, for rules that depend on it. An update of no samples changes nothing, but for
  // the elastic rule, whose differences stand for no samples. Returns the parameter whose values,
  // or what the optimizer remembers of them, it has left not finite; none: all are.
  std::optional<ParamId> Apply(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                               uint32_t micro_batch_count, size_t replicas);
  Buffers Read() const;
  // The part of it that is one bucket's.
  Buffers ReadBucket(BucketId bucket) const;
  // That part of what Read has returned.
  Buffers PartOf(BucketId bucket, const Buffers& all) const;
  // The sum of `parts`, a buffer a slice of the bucket; changes nothing.
  Buffers SumOf(BucketId bucket, const std::vector<Contribution>& parts,
                uint32_t micro_batch_count);
  // The values from now on: a buffer a slice of the shard. Not with Apply.
  void Load(Buffers values);
  // Read, to be sent to `worker`: compensated stores remember what it got.
  Buffers ReadFor(WorkerId worker);
  // The largest change of a parameter that `part`, alone, would make: max |lr g / B|; infinity
  // where a g is not finite.
  double MassOf(Clock clock, const Contribution& part) const;
  // A slice each, as layout.slices(shard). Costs a copy of what the optimizer remembers: 4 bytes an
  // element with momentum, 8 with adam, none with sgd.
  std::vector<SliceImage> Capture() const;
  // In place of the initial values; its samples are counted from here. REQUIRES: no update has been
  // applied. Error: the source's; the store is good for nothing then.
  absl::Status Restore(const SliceSource& source);
  // All that it has, as Store's.
  void WriteTo(StateWriter* writer) const;
  bool ReadFrom(StateReader* reader);
  // How many samples' updates are in the values: those of the bucket that has the fewest.
  uint64_t samples() const;
  // Adds those of all tensors, taken when each was written. REQUIRES: they are to be checked.
  void AddSums(FrameSums* sums) const;
  void AddSums(BucketId bucket, FrameSums* sums) const;

 private:
  void Sum(BucketId bucket);  // anew
  // Values of a bucket, in one block. Who reads them keeps them for as long as a message is on its
  // way: an update meanwhile goes to another block.
  struct Values {
    BufferPool::Block block;
    std::atomic<uint64_t> readers{0};
    std::atomic<bool> read{false};  // since the last update
  };
  class Reader;
  struct BucketValues {
    std::shared_ptr<Values> now;
    uint64_t samples = 0;  // of the contributions applied
  };
  struct SliceValues {
    absl::Span<float> values;  // in its bucket's block
    compute::SliceState state;
    std::vector<float> block;  // BlockMomentumRule: D. CompensatedRule: mean square of gradients
  };
  double Rate(Clock clock) const;
  // Makes the bucket's values writable. Null: they are where they were. Else they are elsewhere
  // now, with nothing in them yet, and this is what they were.
  std::shared_ptr<Values> Own(BucketId bucket);
  void Place(BucketId bucket);
  // How an update of the bucket writes, after Own.
  compute::Writing WritingTo(BucketId bucket, bool elsewhere);
  absl::Span<const float> SumOf(const std::vector<Contribution>& parts, size_t slice,
                                uint32_t micro_batch_count, size_t elements);
  absl::Span<const float> Compensate(const consistency::CompensatedRule& rule,
                                     const Contribution& part, size_t slice, SliceValues* values,
                                     size_t first_slice);
  static void Mean(const std::vector<Contribution>& parts, size_t slice, SliceValues* values);
  bool SumDeltas(const std::vector<Contribution>& parts, size_t slice, size_t elements);
  void MoveBlock(const consistency::BlockMomentumRule& rule, size_t replicas, SliceValues* values);
  // By rules other than gradients'. False: they are none of these.
  bool Combine(const std::vector<Contribution>& parts, size_t slice, uint32_t micro_batch_count,
               size_t replicas, SliceValues* values);

  TensorStoreOptions options_;
  mutable BufferPool pool_;
  std::vector<BucketValues> buckets_;
  std::vector<SliceValues> slices_;  // as layout.slices(shard)
  std::vector<float> sum_;           // scratch of sums
  std::vector<Buffers> read_by_;     // CompensatedRule: by worker, what it was sent last
  std::vector<uint64_t> sums_;       // by slice, where they are checked
  mutable Buffers read_;             // what Read returned, until the next Apply
};

}  // namespace soapstone::server
