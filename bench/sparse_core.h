// A shard's sparse table on its own, in this process: rows a second that it applies and reads, and
// what a row costs in memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/processes.h"
#include "compute/optimizer.h"
#include "server/store/sparse_table.h"

namespace soapstone::bench {

struct SparseLoad {
  uint64_t table_rows = 10'000'000;
  uint32_t dim = 16;
  uint32_t batch = 4096;   // different keys of a push
  uint32_t batches = 256;  // of one measurement
  double exponent = 1.1;   // of Zipf's distribution
};

// Batches for `measurements` of them, none used twice.
std::vector<std::vector<uint64_t>> SparseBatches(const SparseLoad& load, uint32_t measurements);

// A row's bytes.
struct RowMemory {
  double counted = 0;   // by the table
  double resident = 0;  // by which this process grew
  double floats = 0;    // values and the optimizer's state
};

class SparseCore {
 public:
  // Creates all rows of the table. `batches` outlive it.
  SparseCore(const SparseLoad& load, const compute::OptimizerSpec& optimizer,
             const std::vector<std::vector<uint64_t>>& batches);

  // Messages of these samples are rows.
  Sample Create() const { return created_; }  // what the constructor took
  Sample Apply(uint32_t measurement);
  Sample Read(uint32_t measurement);
  RowMemory Memory() const;

 private:
  template <typename Each>
  Sample Time(uint32_t measurement, const Each& each);

  const SparseLoad load_;
  const std::vector<std::vector<uint64_t>>& batches_;
  uint64_t resident_before_;
  server::SparseTable table_;
  std::vector<std::vector<float>> gradients_;  // some, taken in turn
  std::vector<float> rows_;
  Sample created_;
};

}  // namespace soapstone::bench
