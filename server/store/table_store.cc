#include "server/store/table_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/leaf_tree.h"
#include "glog/logging.h"
#include "wire/key_shard.h"

namespace soapstone::server {

TableStore::TableStore(TensorStoreOptions options) : options_(std::move(options)) {
  const std::vector<TableSpec>& specs = options_.layout->tables();
  for (uint32_t t = 0; t < specs.size(); ++t) {
    tables_.emplace_back(SparseTableOptions{.dim = specs[t].dim,
                                            .optimizer = options_.optimizer,
                                            .init = specs[t].init,
                                            .scale = specs[t].scale,
                                            .seed = options_.seed,
                                            .table = t,
                                            .rows_max = specs[t].rows_max,
                                            .checks = options_.checks});
  }
}

SparseRows TableStore::RowsOf(uint32_t table, const Contribution& part) const {
  SparseRows rows;
  std::vector<uint64_t> scratch;
  const absl::Span<const uint64_t> keys = KeysOf(part.payload[0], &scratch);
  const absl::Span<const float> values = part.payload[1].floats();
  CHECK_EQ(values.size(), keys.size() * DimOf(table));
  rows.keys.assign(keys.begin(), keys.end());
  rows.rows.assign(values.begin(), values.end());
  return rows;
}

// T(lo, hi) of base/leaf_tree.h over rows: a part, and a row of a part, that is missing counts as
// absent.
SparseRows TableStore::TreeSum(uint32_t table, const std::vector<Contribution>& parts,
                               MicroBatchRange range) const {
  const auto begins_before = [](const Contribution& c, uint32_t micro_batch) {
    return c.micro_batches.begin < micro_batch;
  };
  const auto first = std::lower_bound(parts.begin(), parts.end(), range.begin, begins_before);
  const auto last = std::lower_bound(first, parts.end(), range.end, begins_before);
  if (first == last) return {};
  if (std::next(first) == last || range.size() < 2) return RowsOf(table, *first);
  const uint32_t mid = LeafSplit(range.begin, range.end);
  return SumOf(TreeSum(table, parts, {range.begin, mid}), TreeSum(table, parts, {mid, range.end}),
               DimOf(table));
}

bool TableStore::Apply(uint32_t table, Clock clock, const std::vector<Contribution>& parts,
                       uint32_t micro_batch_count) {
  if (SamplesOf(parts) == 0) return tables_[table].all_finite();
  if (capture_ != nullptr && capture_->ended()) KeepFor(nullptr);
  const compute::Update update = UpdateOf(options_, clock, parts);
  absl::Status applied;
  if (parts.size() == 1 && parts[0].weight == 1) {
    applied = tables_[table].Apply(update, KeysOf(parts[0].payload[0], &keys_),
                                   parts[0].payload[1].floats());
  } else {
    SparseRows sum;
    if (options_.fixed_tree) {
      sum = TreeSum(table, parts, {0, micro_batch_count});
    } else {
      for (const Contribution& part : parts) {
        SparseRows rows = RowsOf(table, part);
        for (float& value : rows.rows) value *= part.weight;
        sum = sum.keys.empty() ? std::move(rows) : SumOf(sum, rows, DimOf(table));
      }
    }
    applied = tables_[table].Apply(update, sum.keys, sum.rows);
  }
  LOG_IF_EVERY_N(ERROR, !applied.ok(), 1000)
      << "rows of table " << options_.layout->tables()[table].name << ": " << applied.message();
  return tables_[table].all_finite();
}

Buffers TableStore::Read(const Buffers& keys, FrameSums* sums) {
  Buffers frames(tables_.size());
  for (uint32_t t = 0; t < keys.size(); ++t) {
    const absl::Span<const uint64_t> wanted = KeysOf(keys[t], &keys_);
    if (wanted.empty()) continue;
    const BufferPool::Block block = pool_.Take(wanted.size() * DimOf(t) * sizeof(float));
    tables_[t].Read(wanted, block.floats(), sums);
    frames[t] = block.View();
  }
  return frames;
}

Buffers TableStore::ReadAll() {
  Buffers frames;
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    for (Buffer& frame : ReadAll(t)) frames.push_back(std::move(frame));
  }
  return frames;
}

Buffers TableStore::ReadAll(uint32_t table, FrameSums* sums) {
  const std::vector<uint64_t> keys = tables_[table].Keys();
  std::vector<float> rows(keys.size() * DimOf(table));
  tables_[table].Read(keys, absl::MakeSpan(rows), sums);
  Buffers frames;
  frames.push_back(Buffer::CopyOf<uint64_t>(keys));
  frames.push_back(Buffer::CopyOf<float>(rows));
  return frames;
}

void TableStore::KeepFor(std::shared_ptr<TableCapture> capture) {
  if (capture_ != nullptr) capture_->End();
  capture_ = std::move(capture);
  for (SparseTable& table : tables_) table.KeepFor(capture_.get());
}

std::shared_ptr<TableCapture> TableStore::Capture() {
  std::vector<TableCapture::Table> now;
  now.reserve(tables_.size());
  for (const SparseTable& table : tables_) now.push_back(table.Capture());
  KeepFor(std::make_shared<TableCapture>(std::move(now)));
  return capture_;
}

std::string TableStore::WhyNotKeys(uint32_t table, const Buffer& frame) const {
  if (frame.size() % sizeof(uint64_t) != 0) {
    return absl::StrCat("a frame of keys has ", frame.size(), " bytes");
  }
  std::vector<uint64_t> scratch;
  const absl::Span<const uint64_t> keys = KeysOf(frame, &scratch);
  if (!AscendStrictly(keys)) return "keys do not ascend";
  const uint32_t shards = options_.layout->shard_count();
  const bool here = std::all_of(keys.begin(), keys.end(), [&](uint64_t key) {
    return wire::ShardOfKey(table, key, shards) == options_.shard;
  });
  return here ? "" : "a key is another shard's";
}

std::string TableStore::WhyNotKeys(const Buffers& keys) const {
  if (!keys.empty() && keys.size() != tables_.size()) {
    return absl::StrCat(keys.size(), " frames of keys for ", tables_.size(), " tables");
  }
  for (uint32_t t = 0; t < keys.size(); ++t) {
    if (std::string why = WhyNotKeys(t, keys[t]); !why.empty()) return why;
  }
  return "";
}

std::string TableStore::WhyNotRows(uint32_t table, const Buffers& payload) const {
  if (payload.size() != 2) {
    return absl::StrCat(payload.size(), " payload frames; rows have 2: keys and values");
  }
  const size_t count = payload[0].size() / sizeof(uint64_t);
  if (payload[1].size() != count * DimOf(table) * sizeof(float) || !payload[1].IsFloatAligned()) {
    return absl::StrCat(payload[1].size(), " bytes of values for ", count, " rows of ",
                        DimOf(table));
  }
  return WhyNotKeys(table, payload[0]);
}

}  // namespace soapstone::server
