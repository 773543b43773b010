// Store: the values of one shard's slices and the rows of its tables. Two kinds behind one value
// type: real tensors with an optimizer, or, for the simulator and the checkers, integers that count
// what was applied, so that 10,000 simulated workers need no gradient memory and exactly-once is
// checked without rounding.
#pragma once

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
#include "base/memory/state_image.h"
#include "server/store/contribution.h"
#include "server/store/count_store.h"
#include "server/store/slice_image.h"
#include "server/store/table_store.h"
#include "server/store/tensor_store.h"

namespace soapstone::server {

class Store {
 public:
  // Values, and where the layout has tables their rows.
  explicit Store(const TensorStoreOptions& options);
  explicit Store(CountStore counts) : counts_(std::move(counts)) {}
  // Values, and beside them how many contributions each bucket has had: co-simulation, whose
  // checkers look at counts.
  Store(TensorStore tensors, CountStore counts)
      : tensors_(std::make_shared<TensorStore>(std::move(tensors))), counts_(std::move(counts)) {}

  // Applies `parts` as one update. REQUIRES: with a fixed tree, ascending by micro-batches. Returns
  // the tensor that it has left not finite, if any: an index into the layout's parameters, then
  // tables.
  std::optional<uint32_t> Apply(BucketId bucket, Clock clock,
                                const std::vector<Contribution>& parts, uint32_t micro_batch_count,
                                size_t replicas);
  // At a branch of the tree, in place of Apply: their sum, to be sent on. Counts count them.
  Buffers Gather(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                 uint32_t micro_batch_count);
  // `sum` += part, each as a push carries it: of several seats that hold the same parameters. What
  // `sum` views is not written to.
  void AddPart(const Buffers& part, Buffers* sum);
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
    template <class Self, class Visitor>
    static void Visit(Self& self, Visitor&& visit) {
      visit(self.updates, self.order);
    }
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  static void StampWith(WorkerId worker, MicroBatchRange micro_batches, Clock clock, Stamp* stamp);
  Stamp stamp(BucketId bucket) const {
    return Index(bucket) < stamps_.size() ? stamps_[Index(bucket)] : Stamp();
  }
  // As TensorStore's, of its slices. REQUIRES: values.
  std::vector<SliceImage> Capture() const { return tensors_->Capture(); }
  absl::Status Restore(const SliceSource& source) { return tensors_->Restore(source); }
  // Of the tables, as TableStore's; null where there are none. What is returned keeps the store's
  // rows alive, and ends with its last copy.
  std::shared_ptr<TableCapture> CaptureTables() const;
  // REQUIRES: there are tables, and no update has been applied.
  TableStore* tables_to_restore() { return tables_.get(); }
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
  // Values are views, and stay as they are. REQUIRES: no tables, no fault.
  friend void WriteState(StateWriter* writer, const Store& store);
  // In place of what the store has. False: it is of another job, and the store good for nothing.
  friend bool ReadState(StateReader* reader, Store* store);

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
                                   const std::vector<Contribution>& parts,
                                   uint32_t micro_batch_count, size_t replicas);
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
  BufferPool joined_;  // AddPart's
  StoreFault fault_ = StoreFault::kNone;
  std::vector<Withheld> withheld_;   // by bucket; a fault's
  Answer older_;                     // likewise: tensors
  FrameSums older_sums_;             // likewise
  std::vector<Buffers> older_rows_;  // likewise: of each table keys and rows
};

}  // namespace soapstone::server
