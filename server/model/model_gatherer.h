// ModelGatherer: the end of the job on server 0: asks the shards for the model bucket by bucket,
// and hands its values on in the model's order, so that nobody ever has a second whole model. An
// actor without I/O: the shell writes the file and reports kSaved.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/memory/sparse_rows.h"
#include "base/sha256.h"
#include "server/model/model_cursor.h"
#include "wire/layout.h"
#include "wire/message.h"
#include "wire/outbox.h"

namespace soapstone::server {

// Invariants
//  1. TakeNext hands over every element of every parameter once, parameters in order, row-major.
//  2. What is asked for and not yet released is at most `window_bytes`, or else what the next
//     values stand in, beside buckets that are used in part (one or two a shard); and at most
//     kAwaitedMax messages are on their way.
//  3. Tables come first, whole: a row of one may be anywhere.
class ModelGatherer {
 public:
  static constexpr uint64_t kWindowBytes = uint64_t{64} << 20;
  static constexpr size_t kAwaitedMax = 1024;  // answers, of tensors
  // `self`: the server that it is on.
  explicit ModelGatherer(std::shared_ptr<const wire::Layout> layout,
                         uint64_t window_bytes = kWindowBytes, ServerId self = ServerId{0});

  // Asks for the first. Once.
  void Start(wire::Outbox* out);
  // Takes kSlices of one shard. Error: not asked for, or frames that do not fit the layout; it is
  // as if it had not come.
  absl::Status OnSlices(const wire::Message& message, wire::Outbox* out);
  // In a job that checks them: whether these slices or rows are those that were written.
  bool IsAsWritten(const wire::Message& message) const;

  // All tables are here.
  bool has_tables() const { return tables_missing_ == 0; }
  // Of tables the keys and rows that shards sent: by table and shard.
  using ShardRows = std::vector<std::vector<Buffers>>;
  // To be put together (PutTogether). REQUIRES: has_tables. Once.
  ShardRows TakeTables() { return std::move(rows_of_); }
  // The next values: [n] f32, of one slice. Empty: not here yet, or there are no more.
  std::optional<Buffer> TakeNext();
  // So much of what was taken has been let go of.
  void Release(uint64_t bytes, wire::Outbox* out);
  // Everything was taken.
  bool all_taken() const { return has_tables() && taken_.done(); }

 private:
  struct Arrived {
    Buffers frames;
    uint64_t left = 0;  // elements that are not yet taken
  };
  using Key = std::pair<ShardId, BucketId>;

  absl::Status TakeRows(const wire::Message& message, uint32_t table);
  void AskForMore(wire::Outbox* out);
  void Ask(Key bucket, wire::Outbox* out);

  std::shared_ptr<const wire::Layout> layout_;
  uint64_t window_bytes_;
  ServerId self_;
  ModelCursor asked_;                         // behind it: buckets are asked for
  ModelCursor taken_;                         // behind it: values are taken
  uint64_t out_bytes_ = 0;                    // asked for and not released
  uint64_t held_bytes_ = 0;                   // taken and not released
  std::vector<std::vector<bool>> asked_for_;  // by shard and bucket
  std::vector<std::vector<bool>> awaited_;    // likewise: the answer has not come
  size_t awaited_count_ = 0;
  std::map<Key, Arrived> here_;  // never one of which all is taken
  ShardRows rows_of_;
  size_t tables_missing_ = 0;  // answers
};

// Each table whole, its keys ascending. Copies every row more than once, so no loop that has
// heartbeats to send calls it.
std::vector<SparseRows> PutTogether(const wire::Layout& layout, ModelGatherer::ShardRows rows);

// The hash of a model: SHA-256 over all parameters in order, row-major little-endian f32; then of
// each table the keys, little-endian u64, and the rows.
class ModelHash {
 public:
  void Add(const Buffer& values) { hash_.Update(values.data(), values.size()); }
  // Hex. Once.
  std::string Finish(const std::vector<SparseRows>& tables);

 private:
  Sha256 hash_;
};

// The same of shards that can be read at once: `read` gives Store::ReadBucket.
std::string HashOfShards(const std::shared_ptr<const wire::Layout>& layout,
                         const std::function<Buffers(ShardId, BucketId)>& read);

}  // namespace soapstone::server
