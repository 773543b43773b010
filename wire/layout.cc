#include "wire/layout.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace soapstone::wire {
namespace {

constexpr uint32_t kRowElementsMax = 1 << 20;

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

// Where layers begin in the row of all elements, and its end. A parameter of one dimension, such as
// a bias, belongs to the layer before it.
std::vector<uint64_t> LayerBounds(const std::vector<ParamSpec>& params) {
  std::vector<uint64_t> bounds = {0};
  uint64_t at = 0;
  for (const ParamSpec& param : params) {
    if (param.shape.size() > 1 && at > bounds.back()) bounds.push_back(at);
    at += param.elements();
  }
  bounds.push_back(at);
  return bounds;
}

// Where transfer stages begin in the row of all elements, and its end. A layer's weight is its
// share of the layers, which stands for its share of the computation, plus its share of the
// elements, which is its share of the traffic:
//     weight(l) = 1 / layers + elements(l) / total
// Stages are of equal weight, but begin with a layer where one begins within half a stage. So early
// layers, which are small and waited for first, get transfer stages of their own, and a large one
// several. Each transfer stage has `elements_min` elements at least. In whole numbers: all machines
// find the same.
std::vector<uint64_t> TransferStageBounds(const std::vector<ParamSpec>& params,
                                          uint32_t transfer_stages, uint64_t elements_min) {
  constexpr uint64_t kUnit = 1 << 14;  // elements are below 2^48: products stay below 2^64
  const std::vector<uint64_t> layers = LayerBounds(params);
  const uint64_t total = layers.back();
  std::vector<uint64_t> weights = {0};  // of all layers before
  for (size_t l = 0; l + 1 < layers.size(); ++l) {
    const uint64_t weight =
        kUnit / (layers.size() - 1) + (layers[l + 1] - layers[l]) * kUnit / total;
    weights.push_back(weights.back() + std::max<uint64_t>(weight, 1));
  }
  const uint64_t half_transfer_stage = weights.back() / transfer_stages / 2;
  std::vector<uint64_t> bounds = {0};
  for (uint64_t s = 1, l = 0; s < transfer_stages; ++s) {
    const uint64_t target = weights.back() * s / transfer_stages;
    while (weights[l + 1] <= target) ++l;
    const uint64_t from_begin = target - weights[l], to_end = weights[l + 1] - target;
    uint64_t at = layers[l] + (layers[l + 1] - layers[l]) * from_begin / (from_begin + to_end);
    if (std::min(from_begin, to_end) < half_transfer_stage)
      at = layers[from_begin <= to_end ? l : l + 1];
    bounds.push_back(
        std::clamp(at, bounds.back() + elements_min, total - (transfer_stages - s) * elements_min));
  }
  bounds.push_back(total);
  return bounds;
}

// The slices of elements [begin, end) of the row, in pieces of at most so many.
std::vector<Slice> SlicesOf(const std::vector<ParamSpec>& params, uint64_t begin, uint64_t end,
                            uint64_t piece_elements_max) {
  std::vector<Slice> slices;
  uint64_t first = 0;  // of the parameter
  for (size_t p = 0; p < params.size() && first < end; ++p) {
    const uint64_t last = std::min(first + params[p].elements(), end);
    for (uint64_t at = std::max(first, begin); at < last; at += piece_elements_max) {
      slices.push_back({ParamId{static_cast<uint32_t>(p)}, at - first,
                        std::min(at + piece_elements_max, last) - first});
    }
    first += params[p].elements();
  }
  return slices;
}

// By shard.
std::vector<std::vector<Slice>> DealByTransferStages(const std::vector<ParamSpec>& params,
                                                     const LayoutOptions& options) {
  const uint64_t parts = options.shard_count / options.transfer_stages;  // of a transfer stage
  const std::vector<uint64_t> bounds = TransferStageBounds(params, options.transfer_stages, parts);
  const uint64_t piece_elements_max =
      std::max<uint64_t>(1024, options.bucket_bytes / sizeof(float));
  std::vector<std::vector<Slice>> dealt(options.shard_count);
  for (uint32_t shard = 0; shard < options.shard_count; ++shard) {
    const uint64_t first = bounds[shard % options.transfer_stages];
    const uint64_t elements = bounds[shard % options.transfer_stages + 1] - first;
    const auto cut = [&](uint64_t part) {
      return first + elements / parts * part + elements % parts * part / parts;
    };
    const uint64_t part = shard / options.transfer_stages;
    dealt[shard] = SlicesOf(params, cut(part), cut(part + 1), piece_elements_max);
  }
  return dealt;
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
  if (params.empty() && options.tables.empty()) {
    return absl::InvalidArgumentError("the model has no parameter to lay out");
  }
  for (const TableSpec& table : options.tables) {
    if (table.dim == 0 || table.dim > kRowElementsMax) {
      return absl::InvalidArgumentError(absl::StrCat("table '", table.name, "' has rows of ",
                                                     table.dim, " elements, not 1 to ",
                                                     kRowElementsMax));
    }
  }
  if (options.shard_count == 0) return absl::InvalidArgumentError("there must be a shard");
  if (params.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError("too many parameters");
  }
  SOAP_ASSIGN_OR_RETURN(const uint64_t total, CountElements(params));
  if (options.shard_count > total && !params.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.shard_count, " shards, but only ", total,
                     " parameter elements: use fewer servers, or fewer shards a server"));
  }
  if (options.transfer_stages == 0 || options.shard_count % options.transfer_stages != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.transfer_stages, " stages do not divide ", options.shard_count, " shards"));
  }
  if (options.transfer_stages > 1 && params.empty()) {
    return absl::InvalidArgumentError("stages are of parameters, and the model has none");
  }
  // With pieces of at most total / shards elements there are as many pieces as shards, so that
  // none is empty.
  const uint64_t fair = total / options.shard_count;
  // A piece above a bucket's size would travel, and be applied, as one large message.
  const uint64_t bucket_elements = options.bucket_bytes / sizeof(float);
  const uint64_t piece_wanted = std::max<uint64_t>(1024, std::min(fair / 4, bucket_elements));
  const uint64_t piece_elements_max = std::max<uint64_t>(1, std::min(piece_wanted, fair));

  Layout layout;
  layout.transfer_stages_ = options.transfer_stages;
  layout.slices_ = options.transfer_stages > 1
                       ? DealByTransferStages(params, options)
                       : Deal(Cut(params, piece_elements_max), options.shard_count);
  for (std::vector<Slice>& slices : layout.slices_) {
    layout.buckets_.push_back(Group(&slices, options.bucket_bytes));
  }
  layout.params_ = std::move(params);
  layout.tables_ = std::move(options.tables);
  return layout;
}

absl::StatusOr<Layout> Layout::BuildOfPieces(std::vector<ParamSpec> params,
                                             const PieceHolders& holders,
                                             const LayoutOptions& options) {
  SOAP_RETURN_IF_ERROR(CountElements(params).status());
  if (holders.sets == 0 || options.shard_count % holders.sets != 0) {
    return absl::InvalidArgumentError(absl::StrCat(options.shard_count, " shards, but ",
                                                   holders.sets, " sets of holders a server"));
  }
  const uint32_t servers = options.shard_count / holders.sets;
  std::vector<uint32_t> all(servers);
  std::iota(all.begin(), all.end(), 0);
  const uint64_t bucket_elements = std::max<uint64_t>(1, options.bucket_bytes / sizeof(float));
  Layout layout;
  layout.slices_.resize(options.shard_count);
  for (uint32_t p = 0; p < params.size(); ++p) {
    const std::vector<uint32_t>& keepers =
        holders.servers.empty() || holders.servers[p].empty() ? all : holders.servers[p];
    const uint64_t elements = params[p].elements();
    for (uint64_t i = 0; i < keepers.size(); ++i) {
      if (keepers[i] >= servers) {
        return absl::InvalidArgumentError(absl::StrCat("parameter '", params[p].name,
                                                       "' is kept by server ", keepers[i],
                                                       ", and there are ", servers));
      }
      std::vector<Slice>& slices = layout.slices_[keepers[i] * holders.sets + holders.set_of[p]];
      const uint64_t end = elements * (i + 1) / keepers.size();
      for (uint64_t at = elements * i / keepers.size(); at < end; at += bucket_elements) {
        slices.push_back({ParamId{p}, at, std::min(at + bucket_elements, end)});
      }
    }
  }
  for (std::vector<Slice>& slices : layout.slices_) {
    layout.buckets_.push_back(Group(&slices, options.bucket_bytes));
  }
  layout.params_ = std::move(params);
  return layout;
}

Layout Layout::Only(const std::vector<ShardId>& shards) const {
  std::vector<std::optional<ParamId>> renumbered(params_.size());
  for (const ShardId shard : shards) {
    for (const Slice& slice : slices(shard)) renumbered[Index(slice.param)] = ParamId{0};
  }
  Layout layout;
  for (size_t p = 0; p < params_.size(); ++p) {
    if (!renumbered[p].has_value()) continue;
    renumbered[p] = ParamId{static_cast<uint32_t>(layout.params_.size())};
    layout.params_.push_back(params_[p]);
  }
  const auto renumber = [&](std::vector<Slice>* own) {
    for (Slice& slice : *own) slice.param = *renumbered[Index(slice.param)];
  };
  for (const ShardId shard : shards) {
    layout.buckets_.push_back(buckets(shard));
    for (Bucket& bucket : layout.buckets_.back()) renumber(&bucket.slices);
    layout.slices_.push_back(slices(shard));
    renumber(&layout.slices_.back());
  }
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
