// SparseTable: the rows of one sparse parameter that one shard owns, by 64-bit key, each with its
// optimizer's state. A shard reads and applies batches; it has validated what came from peers.
// Knows nothing of shards, messages or policies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/frame_sums.h"
#include "base/memory/row_block.h"
#include "base/parameter.h"
#include "compute/init.h"
#include "compute/optimizer.h"
#include "compute/row_optimizer.h"
#include "server/store/key_index.h"
#include "server/store/row_chunks.h"
#include "server/store/table_capture.h"

namespace soapstone::server {

struct SparseTableOptions {
  uint32_t dim = 0;  // floats of a row, in [1, kDimMax]
  compute::OptimizerSpec optimizer;
  InitKind init = InitKind::kZero;
  double scale = 0;
  uint64_t seed = 0;
  uint32_t table = 0;
  // 0: no bound; else a new row takes the place of one that has not been used for long.
  uint64_t rows_max = 0;
  // Without rows_max: more rows than these are refused. At most 2^31.
  uint64_t rows_limit = uint64_t{1} << 31;
  bool checks = false;  // keep a checksum of each row's values, for who reads them
};

// Invariants: 1. a row's bits depend on the options, and on the gradients it has had since it was
// created, in their order; on nothing else. 2. Rows that no gradient touches do not change: decay
// applies to a row when it has a gradient. 3. What is returned never depends on the order of
// hashes.
// 4. No call moves rows, and a row's creation costs a bounded amount (an index of 4,096 slots is
// built anew at most; with rows_max a turn of the clock's hand, 64 rows a step, at most).
//
// Memory of a row: its floats (values and state), 8 bytes of key, 8 more where steps are counted
// (adam, adamw), 4.6 to 9.2 of index, with rows_max a bit, and 8 to 16 where rows are checked.
//
// One thread at a time. Movable.
class SparseTable {
 public:
  static constexpr uint32_t kDimMax = 1 << 20;

  // REQUIRES: dim in [1, kDimMax], rows_limit and rows_max at most 2^31.
  explicit SparseTable(const SparseTableOptions& options);

  const SparseTableOptions& options() const { return options_; }

  // The rows of `keys`, in any order. One without a row reads as its initial value, a function of
  // (seed, table, key, element) alone; reading creates none. With rows_max it is a use of the row.
  // rows: [keys, dim] f32. Where rows are checked, `sums` (may be null) takes the sum of each as it
  // was written.
  void Read(absl::Span<const uint64_t> keys, absl::Span<float> rows, FrameSums* sums = nullptr);

  // Creates the rows that are missing, each with its initial value, and gives every row its
  // gradient: one step of the optimizer, whose step count is the row's own. gradients: [keys, dim]
  // f32. REQUIRES: keys strictly ascending.
  // Error: ResourceExhausted, when rows_limit is reached, memory is out, or keys were chosen to
  // collide in the index. Rows of some of the smaller keys then have their gradients; the table can
  // still be used.
  absl::Status Apply(const compute::Update& update, absl::Span<const uint64_t> keys,
                     absl::Span<const float> gradients);

  // What a capture has of it now. REQUIRES: the table outlives the capture, and is not moved.
  TableCapture::Table Capture() const;
  // Has `capture`, in which this is the table of its number, keep rows before they change; null: no
  // more.
  void KeepFor(TableCapture* capture) { capture_ = capture; }
  // Rows that a capture had, after those that are there. REQUIRES: what they have fits form().
  // Error: InvalidArgument, where a key is there already, or where rows are bounded and are too
  // many; ResourceExhausted, as Apply. The table is good for nothing then.
  absl::Status Restore(const RowBlock& rows);
  // Eviction's, as the capture had it; below size().
  void set_hand(uint32_t hand) { hand_ = hand; }
  RowForm form() const;

  // False once a gradient has left a row, or its state, not finite.
  bool all_finite() const { return all_finite_; }

  uint64_t size() const { return rows_.size(); }
  // Held by rows and index.
  uint64_t memory_bytes() const { return rows_.memory_bytes() + index_.memory_bytes(); }
  // Of all rows, ascending.
  std::vector<uint64_t> Keys() const;

 private:
  // Keys are looked up by the group: first all hashes, then all slots, then all rows, so that
  // memory answers many questions at once.
  static constexpr size_t kGroup = 32;
  struct Group {
    absl::Span<const uint64_t> keys;
    std::array<uint64_t, kGroup> hashes;
    std::array<uint32_t, kGroup> rows;  // KeyIndex::kNone: there is none
  };
  void Find(absl::Span<const uint64_t> keys, Group* group);
  absl::Status ApplyGroup(const compute::Update& update, absl::Span<const uint64_t> keys,
                          const float* gradients);
  absl::Status Create(size_t i, Group* group);
  void RestoreRow(const RowBlock& rows, size_t i, uint32_t row);
  // A row that is not the group's, the next that has not been used since the hand was here last.
  uint32_t Victim(const Group& group);
  uint64_t SumOf(const float* values) const {
    return ContentSum(values, options_.dim * sizeof(float));
  }
  void Use(uint32_t row) {
    if (options_.rows_max > 0) rows_.set_used(row);
  }

  SparseTableOptions options_;
  compute::RowInit init_;
  compute::RowOptimizer optimizer_;
  RowChunks rows_;
  KeyIndex index_;
  uint32_t hand_ = 0;  // eviction's
  TableCapture* capture_ = nullptr;
  bool all_finite_ = true;
};

}  // namespace soapstone::server
