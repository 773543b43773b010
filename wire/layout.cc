#include "wire/layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::wire {
namespace {

// Elements of all parameters, or why they cannot be laid out.
absl::StatusOr<uint64_t> CountElements(const std::vector<ParamSpec>& params) {
  constexpr uint64_t kElementsMax = uint64_t{1} << 48;  // far from any overflow below
  uint64_t total = 0;
  for (const ParamSpec& param : params) {
    uint64_t elements = 1;
    for (int64_t dim : param.shape) {
      if (dim < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter '", param.name, "' has a negative dimension"));
      }
      if (dim != 0 && elements > kElementsMax / static_cast<uint64_t>(dim)) {
        return absl::InvalidArgumentError(
            absl::StrCat("parameter '", param.name, "' is too large"));
      }
      elements *= static_cast<uint64_t>(dim);
    }
    total += elements;
    if (total > kElementsMax) return absl::InvalidArgumentError("parameters are too large");
  }
  return total;
}

std::vector<Slice> Cut(const std::vector<ParamSpec>& params, uint64_t piece_elements_max) {
  std::vector<Slice> pieces;
  for (size_t p = 0; p < params.size(); ++p) {
    const uint64_t elements = params[p].elements();
    for (uint64_t begin = 0; begin < elements; begin += piece_elements_max) {
      pieces.push_back({ParamId{static_cast<uint32_t>(p)}, begin,
                        std::min(begin + piece_elements_max, elements)});
    }
  }
  return pieces;
}

// The longest-processing-time rule (Graham 1969): largest first, to the least loaded.
std::vector<std::vector<Slice>> Deal(std::vector<Slice> pieces, uint32_t shard_count) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const Slice& a, const Slice& b) { return a.elements() > b.elements(); });
  using Load = std::pair<uint64_t, uint32_t>;  // elements, shard: ties go to the lowest id
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (uint32_t shard = 0; shard < shard_count; ++shard) least.push({0, shard});
  std::vector<std::vector<Slice>> dealt(shard_count);
  for (const Slice& piece : pieces) {
    const auto [elements, shard] = least.top();
    least.pop();
    dealt[shard].push_back(piece);
    least.push({elements + piece.elements(), shard});
  }
  return dealt;
}

// Sorts `slices` into the order in which gradients become ready and cuts it into buckets.
std::vector<Bucket> Group(std::vector<Slice>* slices, uint64_t bucket_bytes) {
  std::sort(slices->begin(), slices->end(), [](const Slice& a, const Slice& b) {
    if (a.param != b.param) return a.param > b.param;
    return a.begin < b.begin;
  });
  std::vector<Bucket> buckets;
  uint64_t open_bytes = 0;
  bool open = false;
  for (size_t i = 0; i < slices->size(); ++i) {
    if (!open) {
      buckets.push_back({.first_slice = static_cast<uint32_t>(i)});
      open_bytes = 0;
    }
    const Slice& slice = (*slices)[i];
    buckets.back().slices.push_back(slice);
    open_bytes += slice.elements() * sizeof(float);
    open = open_bytes < bucket_bytes;
  }
  return buckets;
}

uint64_t SumElements(const std::vector<Slice>& slices) {
  uint64_t elements = 0;
  for (const Slice& slice : slices) elements += slice.elements();
  return elements;
}

}  // namespace

uint64_t Bucket::elements() const { return SumElements(slices); }

absl::StatusOr<Layout> Layout::Build(std::vector<ParamSpec> params, LayoutOptions options) {
  if (params.empty()) return absl::InvalidArgumentError("the model has no parameter to lay out");
  if (options.shard_count == 0) return absl::InvalidArgumentError("there must be a shard");
  if (params.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError("too many parameters");
  }
  SOAP_ASSIGN_OR_RETURN(const uint64_t total, CountElements(params));
  if (options.shard_count > total) {
    return absl::InvalidArgumentError(absl::StrCat(options.shard_count, " shards, but only ", total,
                                                   " parameter elements: use fewer servers"));
  }
  // With pieces of at most total / shards elements there are as many pieces as shards, so that
  // none is empty.
  const uint64_t fair = total / options.shard_count;
  const uint64_t piece_elements_max = std::min(std::max<uint64_t>(1024, fair / 4), fair);

  Layout layout;
  layout.slices_ = Deal(Cut(params, piece_elements_max), options.shard_count);
  for (std::vector<Slice>& slices : layout.slices_) {
    layout.buckets_.push_back(Group(&slices, options.bucket_bytes));
  }
  layout.params_ = std::move(params);
  return layout;
}

uint64_t Layout::elements() const {
  uint64_t elements = 0;
  for (const std::vector<Slice>& slices : slices_) elements += SumElements(slices);
  return elements;
}

uint64_t Layout::elements(ShardId shard) const { return SumElements(slices(shard)); }

Layout Layout::Whole(std::vector<ParamSpec> params) { return *Build(std::move(params), {}); }

}  // namespace soapstone::wire
