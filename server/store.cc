#include "server/store.h"

#include <algorithm>
#include <cstring>

#include "absl/types/span.h"
#include "base/leaf_tree.h"
#include "compute/init.h"
#include "glog/logging.h"

namespace soapstone::server {
namespace {

// out[i] = T(lo, hi)[i] of base/leaf_tree.h, over the given contributions' slice `slice`.
// `parts` are ascending and each is a node of the tree; a part missing from the range counts as
// absent, not as zero, so that a lone contribution is returned bit for bit.
// Returns false where no part lies in [lo, hi).
class TreeSum {
 public:
  TreeSum(const std::vector<Contribution>& parts, size_t slice) : parts_(parts), slice_(slice) {}

  // Sum over [lo, hi) in `out`. REQUIRES out->size() = the slice's elements.
  bool Sum(LeafRange range, absl::Span<float> out) {
    const auto first = std::lower_bound(
        parts_.begin(), parts_.end(), range.begin,
        [](const Contribution& c, uint32_t begin) { return c.leaves.begin < begin; });
    if (first == parts_.end() || first->leaves.begin >= range.end) return false;
    const bool alone =
        std::next(first) == parts_.end() || std::next(first)->leaves.begin >= range.end;
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

TensorStore::TensorStore(TensorStoreOptions options) : options_(std::move(options)) {
  for (const wire::Slice& slice : options_.layout->slices(options_.shard)) {
    SliceValues values;
    values.values.resize(slice.elements());
    compute::InitSlice(options_.layout->params()[Index(slice.param)], options_.seed, slice.param,
                       slice.begin, absl::MakeSpan(values.values));
    slices_.push_back(std::move(values));
  }
}

// The gradient of one update, from sums over samples g_j of the contributions j:
//   g = (1 / B) sum_j g_j,    fraction = (1 / B) sum_j samples_j,    B = samples of the global
//   batch
// so P separate updates of a clock move the parameters, to first order, as far as one synchronous
// update, and decay them as much.
void TensorStore::Apply(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                        uint32_t leaf_count) {
  read_.clear();
  const wire::Bucket& layout = options_.layout->buckets(options_.shard)[Index(bucket)];
  uint64_t samples = 0;
  for (const Contribution& part : parts) samples += part.samples;
  for (size_t i = 0; i < layout.slices.size(); ++i) {
    SliceValues& slice = slices_[layout.first_slice + i];
    absl::Span<const float> sum;
    if (parts.size() == 1) {
      sum = parts[0].payload[i].floats();
    } else {
      sum_.resize(slice.values.size());
      TreeSum(parts, i).Sum({0, leaf_count}, absl::MakeSpan(sum_));
      sum = sum_;
    }
    if (options_.elastic) {
      // centre <- centre + sum_i alpha (x_i - centre)       (Zhang et al., NIPS 2015, eq. 4)
      for (size_t e = 0; e < sum.size(); ++e) slice.values[e] += sum[e];
      continue;
    }
    const double batch = static_cast<double>(parts[0].batch_samples);
    const compute::Update update = {
        .lr = compute::LearningRate(options_.optimizer, options_.schedule, clock,
                                    options_.total_clocks),
        .scale = 1.0 / batch,
        .fraction = static_cast<double>(samples) / batch};
    compute::ApplyGradient(options_.optimizer, update, sum, absl::MakeSpan(slice.values),
                           &slice.state);
  }
}

std::vector<Buffer> TensorStore::Read() const {
  if (!read_.empty()) return read_;
  size_t bytes = 0;
  for (const SliceValues& slice : slices_) bytes += slice.values.size() * sizeof(float);
  // One copy, for all who read the same values: these go on changing while replies are on their
  // way.
  const BufferPool::Block block = pool_.Take(bytes);
  std::vector<Buffer> buffers;
  buffers.reserve(slices_.size());
  size_t offset = 0;
  for (const SliceValues& slice : slices_) {
    const size_t size = slice.values.size() * sizeof(float);
    std::memcpy(block.data + offset, slice.values.data(), size);
    buffers.push_back(block.View(offset, size));
    offset += size;
  }
  read_ = buffers;
  return buffers;
}

void CountStore::Apply(BucketId bucket, const std::vector<Contribution>& parts) {
  Count& count = buckets_[Index(bucket)];
  for (const Contribution& part : parts) {
    ++count.applied;
    if (part.payload.empty() || part.payload[0].size() != sizeof(int64_t)) continue;
    int64_t delta = 0;
    std::memcpy(&delta, part.payload[0].data(), sizeof(delta));
    count.sum += delta;
  }
}

void Store::Apply(BucketId bucket, Clock clock, const std::vector<Contribution>& parts,
                  uint32_t leaf_count) {
  if (tensors_ == nullptr) return counts_->Apply(bucket, parts);
  tensors_->Apply(bucket, clock, parts, leaf_count);
  if (counts_.has_value()) counts_->Add(bucket, parts.size());
}

std::vector<Buffer> Store::Read() const {
  return tensors_ != nullptr ? tensors_->Read() : std::vector<Buffer>();
}

void Store::AddTo(Fingerprint* f) const {
  const CountStore* count_store = counts();
  if (count_store == nullptr) return;
  for (const CountStore::Count& count : count_store->buckets()) {
    f->Add(count.applied);
    f->Add(count.sum);
  }
}

}  // namespace soapstone::server
