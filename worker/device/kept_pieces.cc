#include "worker/device/kept_pieces.h"

#include <algorithm>

namespace soapstone::worker {

KeptPieces::KeptPieces(std::shared_ptr<const wire::Layout> layout, LocalSteps steps,
                       Clock total_clocks)
    : layout_(std::move(layout)),
      steps_(steps),
      total_clocks_(total_clocks),
      pieces_(layout_->params().size()) {
  if (steps_.momentum > 0) {
    steps_.optimizer.kind = compute::OptimizerKind::kNesterov;
    steps_.optimizer.mu = steps_.momentum;
  }
  for (size_t p = 0; p < pieces_.size(); ++p) {
    pieces_[p].values.resize(layout_->params()[p].elements());
  }
}

// What was handed over last may be on its way while the next is made.
uint64_t KeptPieces::memory_bytes() const {
  const uint64_t floats =
      1 + compute::FloatsOf(steps_.optimizer.kind) + 2 + (steps_.keeps_start ? 1 : 0);
  return layout_->elements() * sizeof(float) * floats;
}

template <typename DoSlice>
void KeptPieces::Walk(const std::vector<Buffers>& frames, DoSlice do_slice) {
  for (uint32_t k = 0; k < frames.size(); ++k) {
    if (frames[k].empty()) continue;
    const std::vector<wire::Slice>& slices = layout_->slices(ShardId{k});
    for (size_t i = 0; i < slices.size(); ++i) {
      do_slice(&pieces_[Index(slices[i].param)], slices[i], frames[k][i].floats());
    }
  }
}

void KeptPieces::Load(const LoadCommand& load) {
  Walk(load.frames, [](Piece* piece, const wire::Slice& slice, absl::Span<const float> from) {
    std::copy(from.begin(), from.end(),
              piece->values.begin() + static_cast<ptrdiff_t>(slice.begin));
  });
  if (load.fresh_momentum) {
    for (Piece& piece : pieces_) piece.state = {};
  }
  if (!load.starts_round) return;
  start_ = load.frames;
  samples_ = 0;
}

std::optional<uint32_t> KeptPieces::Step(Clock clock, uint64_t samples,
                                         const std::vector<absl::Span<const float>>& gradients) {
  samples_ += samples;
  compute::Update update = {
      .lr = compute::LearningRate(steps_.optimizer, steps_.schedule, clock, total_clocks_),
      .scale = 1.0 / static_cast<double>(samples),
      .fraction = 1.0};
  std::optional<uint32_t> odd;
  for (uint32_t p = 0; p < pieces_.size(); ++p) {
    if (gradients[p].empty()) continue;
    update.average_rate = layout_->params()[p].average_rate;
    const bool finite =
        compute::ApplyGradient(steps_.optimizer, update, gradients[p],
                               absl::MakeSpan(pieces_[p].values), &pieces_[p].state);
    if (!finite && !odd.has_value()) odd = p;
  }
  return odd;
}

void KeptPieces::BeginExchange() {
  handed_samples_ = std::exchange(samples_, 0);
  for (Piece& piece : pieces_) {
    piece.handed = {};  // where all of it has been read, it is used again
    piece.handed = pool_.Take(piece.values.size() * sizeof(float));
  }
}

void KeptPieces::Move(const ElasticCommand& elastic) {
  BeginExchange();
  const auto alpha = static_cast<float>(elastic.alpha);
  Walk(elastic.frames,
       [alpha](Piece* piece, const wire::Slice& slice, absl::Span<const float> centre) {
         float* const x = piece->values.data() + slice.begin;
         float* const d = piece->handed.floats().data() + slice.begin;
         for (size_t e = 0; e < centre.size(); ++e) {
           d[e] = alpha * (x[e] - centre[e]);
           x[e] -= d[e];
         }
       });
}

void KeptPieces::TakeDelta() {
  BeginExchange();
  Walk(start_, [](Piece* piece, const wire::Slice& slice, absl::Span<const float> start) {
    const float* const x = piece->values.data() + slice.begin;
    float* const d = piece->handed.floats().data() + slice.begin;
    for (size_t e = 0; e < start.size(); ++e) d[e] = x[e] - start[e];
  });
}

Buffers KeptPieces::HandOver(ShardId shard, BucketId bucket) const {
  Buffers frames;
  for (const wire::Slice& slice : layout_->buckets(shard)[Index(bucket)].slices) {
    frames.push_back(pieces_[Index(slice.param)].handed.View(slice.begin * sizeof(float),
                                                             slice.elements() * sizeof(float)));
  }
  return frames;
}

}  // namespace soapstone::worker
