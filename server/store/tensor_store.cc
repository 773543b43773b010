#include "server/store/tensor_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "base/finite.h"
#include "base/leaf_tree.h"
#include "base/memory/past_cache.h"
#include "base/memory/recycling.h"
#include "base/status_macros.h"
#include "compute/init.h"

namespace soapstone::server {
namespace {

using consistency::AverageRule;
using consistency::BlockMomentumRule;
using consistency::CompensatedRule;
using consistency::ElasticRule;
using consistency::MeanRule;
using consistency::OptimizerRule;

constexpr size_t kIdleBytesMin = size_t{256} << 20;

// out[i] = T(lo, hi)[i] of base/leaf_tree.h, over the given contributions' slice `slice`.
// `parts` are ascending and each is a node of the tree; a part missing from the range counts as
// absent, not as zero, so that a lone contribution is returned bit for bit.
// Returns false where no part lies in [lo, hi).
class TreeSum {
 public:
  TreeSum(const std::vector<Contribution>& parts, size_t slice) : parts_(parts), slice_(slice) {}

  // Sum over [lo, hi) in `out`. REQUIRES out->size() = the slice's elements.
  bool Sum(MicroBatchRange range, absl::Span<float> out) {
    const auto first = std::lower_bound(
        parts_.begin(), parts_.end(), range.begin,
        [](const Contribution& c, uint32_t begin) { return c.micro_batches.begin < begin; });
    if (first == parts_.end() || first->micro_batches.begin >= range.end) return false;
    const bool alone =
        std::next(first) == parts_.end() || std::next(first)->micro_batches.begin >= range.end;
    if (alone || range.size() < 2) {
      const absl::Span<const float> values = first->payload[slice_].floats();
      std::copy(values.begin(), values.end(), out.begin());
      return true;
    }
    const uint32_t mid = LeafSplit(range.begin, range.end);
    std::vector<float> right(out.size());
    const bool has_left = Sum({range.begin, mid}, out);
    if (!has_left) return Sum({mid, range.end}, out);
    if (Sum({mid, range.end}, absl::MakeSpan(right))) {
      for (size_t i = 0; i < out.size(); ++i) out[i] += right[i];
    }
    return true;
  }

 private:
  const std::vector<Contribution>& parts_;
  size_t slice_;
};

}  // namespace

// Idle blocks are kept for a whole shard: each of its buckets may be read while it is written.
TensorStore::TensorStore(TensorStoreOptions options)
    : options_(std::move(options)),
      pool_(std::max(kIdleBytesMin, options_.layout->elements(options_.shard) * sizeof(float))),
      buckets_(options_.layout->buckets(options_.shard).size()),
      slices_(options_.layout->slices(options_.shard).size()) {
  bool wanted = true;
  for (uint32_t b = 0; b < buckets_.size() && wanted; ++b) {
    const wire::Bucket& bucket = options_.layout->buckets(options_.shard)[b];
    Place(BucketId{b});
    for (size_t i = 0; i < bucket.slices.size() && wanted; ++i) {
      const wire::Slice& slice = bucket.slices[i];
      compute::InitSlice(options_.layout->params()[Index(slice.param)], options_.seed,
                         options_.given.get(), slice.param, slice.begin,
                         slices_[bucket.first_slice + i].values);
      if (options_.initialised) wanted = options_.initialised(slice.elements() * sizeof(float));
    }
    if (options_.checks) Sum(BucketId{b});
  }
  options_.initialised = nullptr;
}

// Keeps a bucket's values as they are, from a read to the death of its last view.
class TensorStore::Reader {
 public:
  explicit Reader(std::shared_ptr<Values> values) : values_(std::move(values)) {
    values_->readers.fetch_add(1, std::memory_order_relaxed);
    values_->read.store(true, std::memory_order_relaxed);
  }
  // What was read has been: Own sees it done.
  ~Reader() { values_->readers.fetch_sub(1, std::memory_order_release); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

 private:
  const std::shared_ptr<Values> values_;
};

// Gives the bucket a block of its own, contents unspecified.
void TensorStore::Place(BucketId bucket) {
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  std::shared_ptr<Values>& now = buckets_[Index(bucket)].now;
  now = std::allocate_shared<Values>(RecyclingAllocator<Values>());
  now->block = pool_.Take(layout.elements() * sizeof(float));
  size_t offset = 0;
  for (size_t i = 0; i < layout.slices.size(); ++i) {
    slices_[layout.first_slice + i].values =
        now->block.floats().subspan(offset, layout.slices[i].elements());
    offset += layout.slices[i].elements();
  }
}

std::shared_ptr<TensorStore::Values> TensorStore::Own(BucketId bucket) {
  read_.clear();
  std::shared_ptr<Values> now = buckets_[Index(bucket)].now;
  if (now->readers.load(std::memory_order_acquire) == 0) return nullptr;
  Place(bucket);
  return now;
}

// Nobody else has the lines of values that nobody has read. A block elsewhere is one that others
// have read before; of a large shard it is in no cache by now.
compute::Writing TensorStore::WritingTo(BucketId bucket, bool elsewhere) {
  const bool large = options_.layout->elements(options_.shard) * sizeof(float) >= kPastCacheMin;
  if (elsewhere) return large ? compute::Writing::kPast : compute::Writing::kAsked;
  const bool read = buckets_[Index(bucket)].now->read.exchange(false, std::memory_order_relaxed);
  return read && !large ? compute::Writing::kAsked : compute::Writing::kPlain;
}

double TensorStore::Rate(Clock clock) const {
  return compute::LearningRate(options_.optimizer, options_.schedule, clock, options_.total_clocks);
}

// Along the fixed tree; else sum_i weight_i part_i in the order given. [elements] f32, valid until
// the next call.
absl::Span<const float> TensorStore::SumOf(const std::vector<Contribution>& parts, size_t slice,
                                           uint32_t micro_batch_count, size_t elements) {
  if (parts.size() == 1 && parts[0].weight == 1) return parts[0].payload[slice].floats();
  sum_.resize(elements);
  if (options_.fixed_tree) {
    TreeSum(parts, slice).Sum({0, micro_batch_count}, absl::MakeSpan(sum_));
    return sum_;
  }
  std::fill(sum_.begin(), sum_.end(), 0.0f);
  for (const Contribution& part : parts) {
    const absl::Span<const float> values = part.payload[slice].floats();
    for (size_t e = 0; e < elements; ++e) sum_[e] += part.weight * values[e];
  }
  return sum_;
}

// The sum over samples of a delayed gradient, corrected for the parameters' change since its worker
// read them (Zheng et al., "Asynchronous SGD with delay compensation", ICML 2017, eqs. 10 and 14):
//   g' = g + lambda_t g * g * (x - x_read),    g the mean over its n samples
//   lambda_t = lambda                                  m = 0
//            = lambda / sqrt(MS + 1e-7), MS <- m MS + (1 - m) g * g
// In sums s = n g: s' = s + (lambda_t / n) s * s * (x - x_read).
absl::Span<const float> TensorStore::Compensate(const CompensatedRule& rule,
                                                const Contribution& part, size_t slice,
                                                SliceValues* values, size_t first_slice) {
  const absl::Span<const float> s = part.payload[slice].floats();
  if (rule.lambda == 0 || part.samples == 0 || Index(part.worker) >= read_by_.size() ||
      read_by_[Index(part.worker)].empty()) {
    return s;
  }
  const absl::Span<const float> read = read_by_[Index(part.worker)][first_slice + slice].floats();
  const float n = static_cast<float>(part.samples);
  const float lambda = static_cast<float>(rule.lambda);
  const float m = static_cast<float>(rule.mean_decay);
  if (m > 0) values->block.resize(s.size());
  sum_.resize(s.size());
  for (size_t e = 0; e < s.size(); ++e) {
    float lambda_t = lambda;
    if (m > 0) {
      const float g = s[e] / n;
      values->block[e] = m * values->block[e] + (1 - m) * g * g;
      lambda_t = lambda / std::sqrt(values->block[e] + 1e-7f);
    }
    sum_[e] = s[e] + lambda_t / n * s[e] * s[e] * (values->values[e] - read[e]);
  }
  return sum_;
}

// x = x_1 + sum_i (n_i / n) (x_i - x_1), in rank order: replicas that are equal give their own
// bits.
void TensorStore::Mean(const std::vector<Contribution>& parts, size_t slice, SliceValues* values) {
  uint64_t samples = 0;
  for (const Contribution& part : parts) samples += part.samples;
  const absl::Span<const float> first = parts[0].payload[slice].floats();
  std::copy(first.begin(), first.end(), values->values.begin());
  for (const Contribution& part : parts) {
    const float share =
        static_cast<float>(static_cast<double>(part.samples) / static_cast<double>(samples));
    const absl::Span<const float> x = part.payload[slice].floats();
    for (size_t e = 0; e < x.size(); ++e) values->values[e] += share * (x[e] - first[e]);
  }
}

// x_i is where replica i came to from x, d_i = x_i - x, n_i its samples, n their sum:
//   G = sum_i (n_i / n) d_i, in rank order
//   averaging (Stich, "Local SGD converges fast", ICLR 2019):  x <- x + G
//   block momentum (Chen and Huo, ICASSP 2016):  D' = eta D + zeta G
//     classical  x <- x + D'
//     Nesterov   x <- x - eta D + D' + eta D'       x is the look-ahead point W + eta D
//
// After it `sum_` is G. False: there are no samples, and no G.
bool TensorStore::SumDeltas(const std::vector<Contribution>& parts, size_t slice, size_t elements) {
  uint64_t samples = 0;
  for (const Contribution& part : parts) samples += part.samples;
  if (samples == 0) return false;
  sum_.assign(elements, 0.0f);
  for (const Contribution& part : parts) {
    const float share =
        static_cast<float>(static_cast<double>(part.samples) / static_cast<double>(samples));
    const absl::Span<const float> d = part.payload[slice].floats();
    for (size_t e = 0; e < sum_.size(); ++e) sum_[e] += share * d[e];
  }
  return true;
}

void TensorStore::MoveBlock(const BlockMomentumRule& rule, size_t replicas, SliceValues* values) {
  const double p = static_cast<double>(std::max<size_t>(replicas, 1));
  const float eta = static_cast<float>(rule.momentum >= 0 ? rule.momentum : 1 - 1 / p);
  const float zeta = static_cast<float>(rule.rate);
  values->block.resize(sum_.size());
  for (size_t e = 0; e < sum_.size(); ++e) {
    const float before = values->block[e];
    const float now = eta * before + zeta * sum_[e];
    values->block[e] = now;
    values->values[e] += rule.nesterov ? now - eta * before + eta * now : now;
  }
}

bool TensorStore::Combine(const std::vector<Contribution>& parts, size_t slice,
                          uint32_t micro_batch_count, size_t replicas, SliceValues* values) {
  struct Combiner {
    bool operator()(const OptimizerRule&) const { return false; }
    bool operator()(const CompensatedRule&) const { return false; }
    // centre <- centre + sum_i alpha (x_i - centre)       (Zhang et al., NIPS 2015, eq. 4)
    bool operator()(const ElasticRule&) const {
      Add(store->SumOf(parts, slice, micro_batch_count, values->values.size()));
      return true;
    }
    bool operator()(const AverageRule&) const {
      if (store->SumDeltas(parts, slice, values->values.size())) Add(store->sum_);
      return true;
    }
    bool operator()(const BlockMomentumRule& rule) const {
      if (store->SumDeltas(parts, slice, values->values.size())) {
        store->MoveBlock(rule, replicas, values);
      }
      return true;
    }
    bool operator()(const MeanRule&) const {
      Mean(parts, slice, values);
      return true;
    }
    void Add(absl::Span<const float> sum) const {
      for (size_t e = 0; e < sum.size(); ++e) values->values[e] += sum[e];
    }
    TensorStore* store;
    const std::vector<Contribution>& parts;
    size_t slice;
    uint32_t micro_batch_count;
    size_t replicas;
    SliceValues* values;
  };
  return std::visit(Combiner{this, parts, slice, micro_batch_count, replicas, values},
                    options_.rule);
}

std::optional<ParamId> TensorStore::Apply(BucketId bucket, Clock clock,
                                          const std::vector<Contribution>& parts,
                                          uint32_t micro_batch_count, size_t replicas) {
  const bool elastic = std::holds_alternative<ElasticRule>(options_.rule);
  const bool passes = std::holds_alternative<OptimizerRule>(options_.rule);
  const auto* compensated = std::get_if<CompensatedRule>(&options_.rule);
  if (!elastic && SamplesOf(parts) == 0) return std::nullopt;
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  const std::shared_ptr<Values> former = Own(bucket);
  absl::Span<const float> before;
  if (former != nullptr) before = former->block.floats();
  const compute::Writing writing = WritingTo(bucket, former != nullptr);
  buckets_[Index(bucket)].samples += SamplesOf(parts);
  std::optional<ParamId> odd;
  const size_t count = layout.slices.size();
  // As within a slice (compute/optimizer.cc): what the last update ended with is in the cache.
  const bool backwards = count > 0 && slices_[layout.first_slice].state.steps % 2 == 1;
  for (size_t k = 0; k < count; ++k) {
    const size_t i = backwards ? count - 1 - k : k;
    const ParamId param = layout.slices[i].param;
    SliceValues& slice = slices_[layout.first_slice + i];
    absl::Span<const float> from = slice.values;
    if (former != nullptr) {
      const auto at = slice.values.data() - slices_[layout.first_slice].values.data();
      from = before.subspan(static_cast<size_t>(at), from.size());
      // Others than gradients change the values where they are.
      if (!passes) std::copy(from.begin(), from.end(), slice.values.begin());
    }
    if (Combine(parts, i, micro_batch_count, replicas, &slice)) {
      if (!AllFinite(slice.values)) odd = param;
      continue;
    }
    const double average_rate = options_.layout->params()[Index(param)].average_rate;
    const absl::Span<const float> sum =
        compensated != nullptr && average_rate == 0
            ? Compensate(*compensated, parts[0], i, &slice, layout.first_slice)
            : SumOf(parts, i, micro_batch_count, slice.values.size());
    compute::Update update = UpdateOf(options_, clock, parts);
    update.average_rate = average_rate;
    update.writing = passes || former == nullptr ? writing : compute::Writing::kPlain;
    const bool finite = compute::ApplyGradient(
        options_.optimizer, update, sum, passes ? from : slice.values, slice.values, &slice.state);
    if (!finite) odd = param;
  }
  if (options_.checks) Sum(bucket);
  return odd;
}

void TensorStore::Sum(BucketId bucket) {
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  sums_.resize(slices_.size());
  for (size_t i = 0; i < layout.slices.size(); ++i) {
    const absl::Span<const float> values = slices_[layout.first_slice + i].values;
    sums_[layout.first_slice + i] = ContentSum(values.data(), values.size() * sizeof(float));
  }
}

void TensorStore::AddSums(FrameSums* sums) const {
  for (const uint64_t sum : sums_) sums->Add(sum);
}

void TensorStore::Load(Buffers values) {
  read_ = std::move(values);
  if (!options_.checks) return;
  sums_.clear();
  for (const Buffer& frame : read_) sums_.push_back(ContentSum(frame.data(), frame.size()));
}

void TensorStore::AddSums(BucketId bucket, FrameSums* sums) const {
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  for (size_t i = 0; i < layout.slices.size(); ++i) sums->Add(sums_[layout.first_slice + i]);
}

Buffers TensorStore::SumOf(BucketId bucket, const std::vector<Contribution>& parts,
                           uint32_t micro_batch_count) {
  if (parts.size() == 1) return parts[0].payload;
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  const BufferPool::Block block = pool_.Take(layout.elements() * sizeof(float));
  Buffers sums;
  size_t offset = 0;
  for (size_t i = 0; i < layout.slices.size(); ++i) {
    const absl::Span<const float> sum =
        SumOf(parts, i, micro_batch_count, layout.slices[i].elements());
    const size_t size = sum.size() * sizeof(float);
    std::memcpy(block.data + offset, sum.data(), size);
    sums.push_back(block.View(offset, size));
    offset += size;
  }
  return sums;
}

double TensorStore::MassOf(Clock clock, const Contribution& part) const {
  const double most = GreatestMagnitude(part, /*of_table=*/false);
  if (std::isinf(most)) return most;  // whatever the rate
  return Rate(clock) * most / static_cast<double>(std::max<uint64_t>(part.batch_samples, 1));
}

uint64_t TensorStore::samples() const {
  const auto fewest = std::min_element(
      buckets_.begin(), buckets_.end(),
      [](const BucketValues& a, const BucketValues& b) { return a.samples < b.samples; });
  return fewest == buckets_.end() ? 0 : fewest->samples;
}

Buffers TensorStore::ReadFor(WorkerId worker) {
  Buffers values = Read();
  const auto* compensated = std::get_if<CompensatedRule>(&options_.rule);
  if (compensated != nullptr && compensated->lambda > 0) {
    if (read_by_.size() <= Index(worker)) read_by_.resize(Index(worker) + 1);
    read_by_[Index(worker)] = values;  // shared with the reply, not copied
  }
  return values;
}

// Nothing is copied: whoever holds what is read keeps it as it is (Own).
Buffers TensorStore::Read() const {
  if (!read_.empty()) return read_;
  read_.reserve(slices_.size());
  for (uint32_t b = 0; b < buckets_.size(); ++b) {
    const std::shared_ptr<Values>& now = buckets_[b].now;
    const auto reader = std::allocate_shared<const Reader>(RecyclingAllocator<Reader>(), now);
    size_t offset = 0;
    for (const wire::Slice& slice : options_.layout->buckets(options_.shard)[b].slices) {
      const size_t size = slice.elements() * sizeof(float);
      read_.emplace_back(reader, now->block.data + offset, size);
      offset += size;
    }
  }
  return read_;
}

std::vector<SliceImage> TensorStore::Capture() const {
  const Buffers values = Read();
  std::vector<SliceImage> images(slices_.size());
  for (uint32_t b = 0; b < buckets_.size(); ++b) {
    const wire::Bucket& layout = options_.layout->buckets(options_.shard)[b];
    for (size_t i = layout.first_slice; i < layout.first_slice + layout.slices.size(); ++i) {
      images[i] = {values[i], slices_[i].state};
    }
  }
  return images;
}

absl::Status TensorStore::Restore(const SliceSource& source) {
  read_.clear();
  for (uint32_t b = 0; b < buckets_.size(); ++b) {
    const wire::Bucket& layout = options_.layout->buckets(options_.shard)[b];
    for (size_t i = layout.first_slice; i < layout.first_slice + layout.slices.size(); ++i) {
      SOAP_RETURN_IF_ERROR(source(i, slices_[i].values, &slices_[i].state));
    }
    if (options_.checks) Sum(BucketId{b});
  }
  return absl::OkStatus();
}

Buffers TensorStore::ReadBucket(BucketId bucket) const { return PartOf(bucket, Read()); }

Buffers TensorStore::PartOf(BucketId bucket, const Buffers& all) const {
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  const auto first = all.begin() + static_cast<ptrdiff_t>(layout.first_slice);
  return {first, first + static_cast<ptrdiff_t>(layout.slices.size())};
}

}  // namespace soapstone::server
