// Store: the values of one shard's slices and the rows of its tables. Two kinds behind one value
// type: real tensors with an optimizer, or, for the simulator and the checkers, integers that count
// what was applied, so that 10,000 simulated workers need no gradient memory and exactly-once is
// checked without rounding.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/fingerprint.h"
#include "base/frame_sums.h"
#include "base/ids.h"
#include "base/memory/buffer.h"
#include "server/store/contribution.h"
#include "server/store/table_store.h"

namespace soapstone::server {

// Real parameters. Movable, not copyable.
class TensorStore {
 public:
  explicit TensorStore(TensorStoreOptions options);
  // `replicas`: P, for rules that depend on it. An update of no samples changes nothing, but for
  // the elastic rule, whose differences stand for no samples. Returns the parameter whose values,
  // or what the optimizer remembers of them, it has left not finite; none: all are.
  std::optional<ParamId> Apply(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                               uint32_t leaf_count, size_t replicas);
  Buffers Read() const;
  // The part of it that is one bucket's.
  Buffers ReadBucket(BucketId bucket) const;
  // That part of what Read has returned.
  Buffers PartOf(BucketId bucket, const Buffers& all) const;
  // The sum of `parts`, a buffer a slice of the bucket; changes nothing.
  Buffers SumOf(BucketId bucket, const std::vector<Contribution>& parts, uint32_t leaf_count);
  // The values from now on: a buffer a slice of the shard. Not with Apply.
  void Load(Buffers values);
  // Read, to be sent to `worker`: compensated stores remember what it got.
  Buffers ReadFor(WorkerId worker);
  // The largest change of a parameter that `part`, alone, would make: max |lr g / B|; infinity
  // where a g is not finite.
  double MassOf(Clock clock, const Contribution& part) const;
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
    std::vector<float> block;  // kBlockMomentum: D. kCompensated: mean square of gradients
  };
  double Rate(Clock clock) const;
  // Makes the bucket's values writable. Null: they are where they were. Else they are elsewhere
  // now, with nothing in them yet, and this is what they were.
  std::shared_ptr<Values> Own(BucketId bucket);
  void Place(BucketId bucket);
  // How an update of the bucket writes, after Own.
  compute::Writing WritingTo(BucketId bucket, bool elsewhere);
  absl::Span<const float> SumOf(const std::vector<Contribution>& parts, size_t slice,
                                uint32_t leaf_count, size_t elements);
  absl::Span<const float> Compensate(const Contribution& part, size_t slice, SliceValues* values,
                                     size_t first_slice);
  static void Mean(const std::vector<Contribution>& parts, size_t slice, SliceValues* values);
  void Average(const std::vector<Contribution>& parts, size_t slice, size_t replicas,
               SliceValues* values);
  // By rules other than gradients'. False: they are none of these.
  bool Combine(const std::vector<Contribution>& parts, size_t slice, uint32_t leaf_count,
               size_t replicas, SliceValues* values);

  TensorStoreOptions options_;
  mutable BufferPool pool_;
  std::vector<BucketValues> buckets_;
  std::vector<SliceValues> slices_;  // as layout.slices(shard)
  std::vector<float> sum_;           // scratch of sums
  std::vector<Buffers> read_by_;     // kCompensated: by worker, what it was sent last
  std::vector<uint64_t> sums_;       // by slice, where they are checked
  mutable Buffers read_;             // what Read returned, until the next Apply
};

// Counts instead of values: per bucket the applied contributions and the sum of their int64
// payloads (8 bytes; absent: 0).
class CountStore {
 public:
  explicit CountStore(uint32_t bucket_count) : buckets_(bucket_count) {}
  void Apply(BucketId bucket, const std::vector<Contribution>& parts);
  // Counts contributions whose payloads are no integers.
  void Add(BucketId bucket, uint64_t contributions) {
    buckets_[Index(bucket)].applied += contributions;
  }
  struct Count {
    uint64_t applied = 0;
    int64_t sum = 0;
    friend bool operator==(const Count&, const Count&) = default;
  };
  const std::vector<Count>& buckets() const { return buckets_; }

 private:
  std::vector<Count> buckets_;
};

class Store {
 public:
  // Values, and where the layout has tables their rows.
  explicit Store(const TensorStoreOptions& options);
  explicit Store(CountStore counts) : counts_(std::move(counts)) {}
  // Values, and beside them how many contributions each bucket has had: co-simulation, whose
  // checkers look at counts.
  Store(TensorStore tensors, CountStore counts)
      : tensors_(std::make_shared<TensorStore>(std::move(tensors))), counts_(std::move(counts)) {}

  // Applies `parts` as one update. REQUIRES: with a fixed tree, ascending by leaves. Returns the
  // tensor that it has left not finite, if any: an index into the layout's parameters, then tables.
  std::optional<uint32_t> Apply(BucketId bucket, Clock clock,
                                const std::vector<Contribution>& parts, uint32_t leaf_count,
                                size_t replicas);
  // At a branch of the tree, in place of Apply: their sum, to be sent on. Counts count them.
  Buffers Gather(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                 uint32_t leaf_count);
  // And the values that came back.
  void Load(Buffers values);
  // The values now: a buffer a slice (none for counts), then keys and rows of each table.
  Buffers Read() const;
  // The same of one bucket: a buffer a slice; of a table its keys and rows.
  Buffers ReadBucket(BucketId bucket) const;
  // Read, and the rows of these keys: what a pull of `worker` is answered with.
  struct Answer {
    Buffers values;
    uint64_t version = 0;   // updates (contributions) that are in them
    uint64_t checksum = 0;  // of them (wire::SumOf), taken when each was written; 0: none kept
  };
  Answer ReadFor(WorkerId worker, const Buffers& keys, bool final);
  // ReadBucket, for the model's file. Of a table the checksum is of its rows alone.
  Answer ReadToSave(BucketId bucket);
  // What was applied to a bucket: how many contributions, and in which order, as a digest that
  // StampWith makes of one contribution after another. The ledger makes its own beside it.
  struct Stamp {
    uint64_t updates = 0;
    uint64_t order = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  static void StampWith(WorkerId worker, MicroBatchRange leaves, Clock clock, Stamp* stamp);
  Stamp stamp(BucketId bucket) const {
    return Index(bucket) < stamps_.size() ? stamps_[Index(bucket)] : Stamp();
  }
  // For tests of the ledger.
  void SetFault(StoreFault fault) { fault_ = fault; }
  // Counts: 1.
  double MassOf(Clock clock, const Contribution& part) const;
  // How many samples' updates are in the values (0 for counts).
  uint64_t samples() const { return tensors_ != nullptr ? tensors_->samples() : 0; }
  // True where payloads of `payload` fit bucket `bucket` (always, for counts).
  bool checks_payload() const { return tensors_ != nullptr; }
  // Null where the model has none.
  const TableStore* tables() const { return tables_.get(); }
  const CountStore* counts() const { return counts_.has_value() ? &*counts_ : nullptr; }
  void AddTo(Fingerprint* f) const;

 private:
  std::optional<uint32_t> TableOf(BucketId bucket) const {
    if (tables_ == nullptr || Index(bucket) < first_table_) return std::nullopt;
    return Index(bucket) - first_table_;
  }

  struct Withheld {
    Clock clock = 0;
    std::vector<Contribution> parts;
  };
  std::optional<uint32_t> ApplyNow(BucketId bucket, Clock clock,
                                   const std::vector<Contribution>& parts, uint32_t leaf_count,
                                   size_t replicas);
  // What a fault makes of an answer.
  bool Misreads(bool final, StoreFault always, StoreFault at_the_end) const {
    return Version() > 0 && (fault_ == always || (final && fault_ == at_the_end));
  }
  void KeepOlder(BucketId bucket);
  void PutOlderRows(const Buffers& keys, Buffers* rows) const;
  void StampBucket(BucketId bucket, Clock clock, const std::vector<Contribution>& parts);
  uint64_t Version() const;

  // One of them, or both. Copies of a store share its tensors and tables.
  std::shared_ptr<TensorStore> tensors_;
  std::shared_ptr<TableStore> tables_;
  uint32_t first_table_ = 0;  // its bucket
  uint32_t params_ = 0;       // of the layout
  std::optional<CountStore> counts_;
  std::vector<Stamp> stamps_;  // by bucket
  bool checks_ = false;
  StoreFault fault_ = StoreFault::kNone;
  std::vector<Withheld> withheld_;   // by bucket; a fault's
  Answer older_;                     // likewise: tensors
  FrameSums older_sums_;             // likewise
  std::vector<Buffers> older_rows_;  // likewise: of each table keys and rows
};

}  // namespace soapstone::server
