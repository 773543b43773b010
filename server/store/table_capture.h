// TableCapture: the rows of a shard's tables as they were at one moment, for a thread that writes
// them down while the shard goes on to change them. The store makes one (table_store.h), the
// server's shells hand it on. Knows nothing of files.
//
// Copy on update (Cao et al., "Fast checkpoint recovery algorithms for frequently consistent
// applications", SIGMOD 2011): nothing is copied when it is made, but for a bit a row where rows
// remember their use. A row that is about to change, and has not been taken yet, is kept as it was;
// rows are taken in the order of their numbers, so that one number says which have been.
//
// Invariants: 1. what is taken is what was there when it was made, to the bit. 2. A row is kept
// once at most, and no longer than until it is taken. 3. Who changes rows never waits here for who
// takes them, but for the copy of a few rows; WaitForRoom is for a shell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/memory/row_block.h"
#include "base/mutex.h"
#include "base/steady_clock.h"
#include "server/store/row_chunks.h"

namespace soapstone::server {

class TableCapture {
 public:
  static constexpr uint64_t kKeptBytesMax = uint64_t{256} << 20;

  struct Table {
    RowPlaces places;  // whose chunks outlive the capture
    RowForm form;
    std::optional<uint32_t> hand;  // eviction's, where rows remember their use
    std::vector<uint64_t> used;    // bits of 64 rows each
    uint32_t rows() const { return places.size(); }
  };
  // `kept_bytes_max`: as WaitForRoom.
  explicit TableCapture(std::vector<Table> tables, uint64_t kept_bytes_max = kKeptBytesMax);
  TableCapture(const TableCapture&) = delete;
  TableCapture& operator=(const TableCapture&) = delete;

  // Of a table, as it was: `rows()` and `form`, which any thread reads.
  const Table& table(uint32_t i) const { return tables_[i]; }

  // The thread that changes rows, before it does; numbers that were no rows then are passed over.
  void Keep(uint32_t table, absl::Span<const uint32_t> rows);
  // Its shell, between two messages. Where more is kept than there is room for: waits until less
  // is, and from `deadline` on gives the capture up.
  void WaitForRoom(SteadyTime deadline);

  // The thread that writes: the next rows of a table. REQUIRES: there are so many left. Error:
  // ResourceExhausted, once it was given up.
  absl::Status Take(uint32_t table, size_t count, RowBlock* block);
  // Nobody takes any more, and nothing is kept. Any thread.
  void End();
  bool ended() const;

 private:
  struct KeptRow {
    uint64_t key = 0;
    uint64_t steps = 0;
    std::vector<float> floats;
  };
  struct Reading {
    uint32_t next = 0;                 // rows before it have been taken
    std::map<uint32_t, KeptRow> kept;  // by row, from `next` on
  };
  uint64_t BytesOf(const Table& table) const;
  void TakeRow(const Table& table, uint32_t row, Reading* reading, size_t to, RowBlock* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::vector<Table> tables_;
  const uint64_t kept_bytes_max_;
  mutable Mutex mutex_;
  Signal room_;
  std::vector<Reading> readings_ ABSL_GUARDED_BY(mutex_);  // by table
  uint64_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace soapstone::server
