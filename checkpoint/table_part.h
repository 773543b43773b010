// Rows of a shard's tables in a part of a checkpoint (checkpoint/part.h, which calls it). Of table
// "user" that the shard has 5,000 rows of, in blocks of bounded size, in the order in which they
// were made:
//
//   "user[0,4096).keys"              [4096] U64, each once, in no order
//   "user[0,4096).rows"              [4096, dim] F32
//   "user[0,4096).first", ".second"  [4096, dim] F32: what the optimizer has of each row, if it has
//   "user[0,4096).steps"             [4096] U64: gradients that each has had, where that counts
//   "user[0,4096).used"              [4096] U64, 0 or 1, where rows are bounded: used of late
//   "user[4096,5000).keys"           ..
//
// and in the metadata "user.table": "[5000,16]", rows and floats of each, of an empty table too,
// and where rows are bounded "user.hand", the row from which eviction looks on. Numbers of rows are
// the shard's own: what has a meaning elsewhere is table and key. A ".pad" of one F32 follows a
// block that would leave what comes after it off a multiple of 8 bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/row_block.h"

namespace soapstone::checkpoint {

// A shard's rows of a table, as they are written.
struct PartTable {
  std::string name;
  RowForm form;
  uint64_t rows = 0;
  std::optional<uint32_t> hand;
  // Gives the next `count` rows; asked for all, in their order.
  std::function<absl::Status(size_t count, RowBlock* block)> next;
};

// A tensor of a part, before its values are there.
struct PartTensor {
  std::string name;
  const char* dtype = "F32";
  std::vector<uint64_t> shape;
  uint64_t bytes = 0;
};

// In the order of AppendRows.
void AddTensors(const PartTable& table, std::vector<PartTensor>* tensors);
// Into the header's metadata.
void AddMetadata(const PartTable& table, nlohmann::ordered_json* metadata);
// All of them, block by block. Error: that of `next` or `append`.
absl::Status AppendRows(const PartTable& table,
                        const std::function<absl::Status(const void*, size_t)>& append);

// Where rows [begin, end) of a shard's table lie: bytes of the file where each of their tensors
// begins; 0: there is none.
struct StoredRows {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t keys_at = 0;
  uint64_t values_at = 0;
  uint64_t first_at = 0;
  uint64_t second_at = 0;
  uint64_t steps_at = 0;
  uint64_t used_at = 0;
};
struct StoredTable {
  std::string name;
  RowForm form;
  uint64_t rows = 0;
  std::optional<uint32_t> hand;
  std::vector<StoredRows> blocks;  // ascending, of all rows
};

// Reads the tables of a header, whose data are bytes [data_at, end) of the file. Each call throws
// nlohmann's exception where the header is none of ours.
class TablesInHeader {
 public:
  TablesInHeader(const nlohmann::json& metadata, uint64_t data_at, uint64_t end);
  // False: it is no table's tensor.
  bool Add(const std::string& tensor, const nlohmann::json& entry);
  std::vector<StoredTable> Finish();

 private:
  uint64_t data_at_;
  uint64_t end_;
  std::map<std::string, StoredTable> tables_;
  std::map<std::string, std::map<uint64_t, StoredRows>> blocks_;  // by table and begin
};

}  // namespace soapstone::checkpoint
