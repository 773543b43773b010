// Layout: which slice of which parameter lives on which shard, and in which bucket it travels.
// A value, computed alike by every process from the same parameters and shard count.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/parameter.h"

namespace soapstone::wire {

// Elements [begin, end) of a parameter, row-major.
struct Slice {
  ParamId param{};
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t elements() const { return end - begin; }
  friend bool operator==(const Slice&, const Slice&) = default;
};

// Slices of one shard that travel in one push message. Bucket 0 holds the parameters whose
// gradient is ready first (the last layer's). `first_slice` is the index of slices[0] in the
// shard's slice list.
struct Bucket {
  uint32_t first_slice = 0;
  std::vector<Slice> slices;
  uint64_t elements() const;
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

// Of parameters that are pieces, each held by a set of a team's workers (strategy/pieces.h): which
// set holds each, and which servers keep it in equal shares, ascending; none: all of them.
struct PieceHolders {
  uint32_t sets = 0;
  std::vector<uint32_t> set_of;                // by parameter
  std::vector<std::vector<uint32_t>> servers;  // by parameter
};

struct LayoutOptions {
  uint32_t shard_count = 1;
  uint64_t bucket_bytes = 1 << 20;  // a bucket is closed when it reaches this size
  std::vector<TableSpec> tables;    // each spread over all shards, by key
  // Divides shard_count. Above 1 parameters are laid out by layers: shard k has a part of transfer
  // stage k % transfer stages of the forward pass, so that a server with `stages` shards has a part
  // of each.
  uint32_t transfer_stages = 1;
};

class Layout {
 public:
  // Slices each tensor into pieces of at most max(1024, min(total / (4 * shards), a bucket's))
  // elements, and never more than total / shards, so that no shard is empty; gives pieces, largest
  // first, to the shard with the least so far (ties: lowest id); and groups each shard's pieces,
  // last parameter first, into buckets.
  // With transfer stages the parameters in forward order are cut into that many stretches
  // (StageBounds in layout.cc), each of these into equal parts for the shards of its transfer
  // stage, and these into pieces of at most a bucket. Error: InvalidArgument when there are more
  // shards than elements (but none at all), neither parameter nor table, a parameter with a
  // negative dimension, a table with rows of none, transfer stages that do not divide the shards,
  // or without parameters.
  static absl::StatusOr<Layout> Build(std::vector<ParamSpec> params, LayoutOptions options);

  // All of them on one shard: what a worker and its peer see of each other. REQUIRES: params that
  // Build takes.
  static Layout Whole(std::vector<ParamSpec> params);

  // Of pieces: shard k has those that set k % sets holds, of what server k / sets keeps; no shard
  // has pieces of two sets, and one may have none. Of the options without tables and transfer
  // stages. Error: as Build, and shards that are not so many a server as there are sets.
  static absl::StatusOr<Layout> BuildOfPieces(std::vector<ParamSpec> params,
                                              const PieceHolders& holders,
                                              const LayoutOptions& options);
  // These shards alone, numbered anew in this order, and the parameters that they have slices of,
  // numbered anew in theirs.
  Layout Only(const std::vector<ShardId>& shards) const;

  const std::vector<ParamSpec>& params() const { return params_; }
  uint32_t shard_count() const { return static_cast<uint32_t>(buckets_.size()); }
  uint32_t transfer_stages() const { return transfer_stages_; }
  // Where in the forward pass a shard's parameters are first used: 0 is first. Also the priority of
  // what is sent to the shard and of its answers.
  uint32_t transfer_stage(ShardId shard) const { return Index(shard) % transfer_stages_; }
  // Shards beyond them are copies (consistency/levels.h): k and k + shard_count have the same
  // slices.
  const std::vector<Bucket>& buckets(ShardId shard) const {
    return buckets_[Index(shard) % buckets_.size()];
  }
  // All slices of a shard in bucket order: the frames of a pull reply.
  const std::vector<Slice>& slices(ShardId shard) const {
    return slices_[Index(shard) % slices_.size()];
  }
  uint64_t elements() const;
  uint64_t elements(ShardId shard) const;

  const std::vector<TableSpec>& tables() const { return tables_; }
  // Tensors by one index: the parameters, then the tables.
  const std::string& NameOf(uint32_t tensor) const {
    return tensor < params_.size() ? params_[tensor].name : tables_[tensor - params_.size()].name;
  }
  // Buckets of a shard: those of slices, then one a table, for the rows of that shard's keys
  // (wire/key_shard.h).
  uint32_t bucket_count(ShardId shard) const {
    return static_cast<uint32_t>(buckets(shard).size() + tables_.size());
  }
  BucketId BucketOfTable(ShardId shard, uint32_t table) const {
    return BucketId{static_cast<uint32_t>(buckets(shard).size()) + table};
  }
  // The table whose rows travel in a bucket; none for a bucket of slices. REQUIRES: one of
  // bucket_count.
  std::optional<uint32_t> TableOf(ShardId shard, BucketId bucket) const {
    const size_t dense = buckets(shard).size();
    if (Index(bucket) < dense) return std::nullopt;
    return static_cast<uint32_t>(Index(bucket) - dense);
  }

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  std::vector<ParamSpec> params_;
  std::vector<TableSpec> tables_;
  uint32_t transfer_stages_ = 1;
  std::vector<std::vector<Bucket>> buckets_;
  std::vector<std::vector<Slice>> slices_;
};

}  // namespace soapstone::wire
