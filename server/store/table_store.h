// TableStore: one shard's part of the model's tables: which rows, and what a gradient does to them.
// The store owns one; the shard checks messages with it. Knows nothing of policies and workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/memory/buffer.h"
#include "base/memory/sparse_rows.h"
#include "server/store/contribution.h"
#include "server/store/sparse_table.h"
#include "server/store/table_capture.h"

namespace soapstone::server {

class TableStore {
 public:
  explicit TableStore(TensorStoreOptions options);

  // One update of a table by the sum of `parts`, whose payloads are keys and rows (wire/message.h,
  // kPush). With the fixed tree along it (REQUIRES: ascending by micro-batches), else in the order
  // given. A table that is full takes no new rows; that is logged. An update of no samples changes
  // nothing. False: some row is not finite now. REQUIRES: WhyNotRows is empty for all.
  bool Apply(uint32_t table, Clock clock, const std::vector<Contribution>& parts,
             uint32_t micro_batch_count);

  // The rows asked for: a frame a table, [keys, dim] f32. keys: a frame a table, or none at all.
  // `sums`: as SparseTable::Read. REQUIRES: WhyNotKeys is empty.
  Buffers Read(const Buffers& keys, FrameSums* sums = nullptr);
  // Everything: of each table a frame of keys, ascending, and a frame of rows.
  Buffers ReadAll();
  // The same of one table: keys and rows. `sums`: as SparseTable::Read.
  Buffers ReadAll(uint32_t table, FrameSums* sums = nullptr);

  // All rows as they are now, which may change meanwhile. One before it that is still being taken
  // is given up. REQUIRES: the store is not moved from now on, and outlives what is returned.
  std::shared_ptr<TableCapture> Capture();
  // Rows of a table, after those that are there. As SparseTable::Restore.
  absl::Status Restore(uint32_t table, const RowBlock& rows) {
    return tables_[table].Restore(rows);
  }
  void set_hand(uint32_t table, uint32_t hand) { tables_[table].set_hand(hand); }

  // Why frames that came from outside cannot be taken; empty where they can. Keys ascend, each
  // once, and live on this shard.
  std::string WhyNotKeys(const Buffers& keys) const;
  std::string WhyNotRows(uint32_t table, const Buffers& payload) const;

  const SparseTable& table(uint32_t i) const { return tables_[i]; }

 private:
  std::string WhyNotKeys(uint32_t table, const Buffer& keys) const;
  uint32_t DimOf(uint32_t table) const { return options_.layout->tables()[table].dim; }
  SparseRows RowsOf(uint32_t table, const Contribution& part) const;
  SparseRows TreeSum(uint32_t table, const std::vector<Contribution>& parts,
                     MicroBatchRange range) const;
  void KeepFor(std::shared_ptr<TableCapture> capture);

  TensorStoreOptions options_;
  std::vector<SparseTable> tables_;
  std::shared_ptr<TableCapture> capture_;  // that rows are kept for; null: none
  BufferPool pool_;
  std::vector<uint64_t> keys_;  // scratch: keys of a frame that is not aligned
};

}  // namespace soapstone::server
