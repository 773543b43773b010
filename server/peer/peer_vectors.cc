#include "server/peer/peer_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/frame_sums.h"
#include "compute/init.h"
#include "server/peer/peer_ledger.h"

namespace soapstone::server {
namespace {

// An optimizer over a flat vector of T, with its state.
struct FloatStep {
  using Element = float;
  compute::OptimizerSpec spec;
  compute::ScheduleSpec schedule;
  Clock total_clocks = 0;
  // Elements that are averaged, not trained, in order (ParamSpec::average_rate).
  struct Average {
    uint64_t begin = 0, end = 0;
    double rate = 0;
  };
  std::vector<Average> averages;
  compute::SliceState state;

  //   x <- x - lr (1/n) sum g, as TensorStore::Apply of a whole batch does. False: not all is
  //   finite.
  bool Apply(Clock round, uint64_t samples, absl::Span<const float> sum, absl::Span<float> values) {
    const Clock clock = std::min(round, total_clocks - 1);
    const compute::Update update = {
        .lr = compute::LearningRate(spec, schedule, clock, total_clocks),
        .scale = 1.0 / static_cast<double>(samples),
        .fraction = 1};
    std::vector<std::vector<float>> averaged;
    for (const Average& a : averages) {
      averaged.emplace_back(values.begin() + a.begin, values.begin() + a.end);
      compute::SliceState none;
      compute::ApplyGradient({}, {.scale = update.scale, .average_rate = a.rate},
                             sum.subspan(a.begin, a.end - a.begin), absl::MakeSpan(averaged.back()),
                             &none);
    }
    const bool finite = compute::ApplyGradient(spec, update, sum, values, &state);
    for (size_t i = 0; i < averages.size(); ++i) {
      std::copy(averaged[i].begin(), averaged[i].end(), values.begin() + averages[i].begin);
    }
    return finite;
  }
  // REQUIRES: Apply has found one.
  uint64_t FirstOdd(absl::Span<const float> values) const {
    for (const absl::Span<const float> part :
         {values, absl::MakeConstSpan(state.first), absl::MakeConstSpan(state.second)}) {
      const auto* odd =
          std::find_if(part.begin(), part.end(), [](float x) { return !std::isfinite(x); });
      if (odd != part.end()) return static_cast<uint64_t>(odd - part.begin());
    }
    return 0;
  }
  Buffers State() const {
    return {Buffer::CopyOf(absl::MakeConstSpan(state.first)),
            Buffer::CopyOf(absl::MakeConstSpan(state.second)),
            Buffer::CopyOf(&state.steps, sizeof(state.steps))};
  }
  bool Adopt(absl::Span<const Buffer> frames, size_t elements) {
    if (frames.size() != 3 || frames[2].size() != sizeof(state.steps)) return false;
    for (const Buffer& frame : frames.first(2)) {
      if (frame.size() != 0 && frame.size() != elements * sizeof(float)) return false;
    }
    const auto copy = [](const Buffer& frame, std::vector<float>* to) {
      to->resize(frame.size() / sizeof(float));
      if (!to->empty()) std::memcpy(to->data(), frame.data(), frame.size());
    };
    copy(frames[0], &state.first);
    copy(frames[1], &state.second);
    std::memcpy(&state.steps, frames[2].data(), sizeof(state.steps));
    return true;
  }
};

struct DoubleStep {
  using Element = double;
  DoubleStepFunction apply;

  bool Apply(Clock round, uint64_t samples, absl::Span<const double> sum,
             absl::Span<double> values) const {
    apply(round, samples, sum, values);
    return true;  // a checker of sums writes NaN where it finds one wrong
  }
  static uint64_t FirstOdd(absl::Span<const double>) { return 0; }
  static Buffers State() { return {}; }
  static bool Adopt(absl::Span<const Buffer> frames, size_t) { return frames.empty(); }
};

template <typename Step>
class Vectors final : public PeerVectors {
 public:
  using T = typename Step::Element;
  Vectors(std::vector<T> values, Step step)
      : values_(std::move(values)),
        gradient_(values_.size()),
        contribution_(values_.size()),
        sum_(values_.size()),
        step_(std::move(step)) {}

  std::unique_ptr<PeerVectors> Clone() const override { return std::make_unique<Vectors>(*this); }
  uint64_t elements() const override { return values_.size(); }
  size_t bytes(ElementRange range) const override { return range.size() * sizeof(T); }

  void AddGradient(uint64_t offset, const Buffer& frame) override {
    const T* from = ElementsOf(frame);
    const size_t count = frame.size() / sizeof(T);
    for (size_t e = 0; e < count; ++e) gradient_[offset + e] += from[e];
  }
  void Stage() override {
    for (size_t e = 0; e < sum_.size(); ++e) sum_[e] = contribution_[e] += gradient_[e];
    Clear(&gradient_);
  }
  void Discard() override { Clear(&contribution_); }
  void ClearSum() override { Clear(&sum_); }
  void AddValues(double factor) override {
    const T by = static_cast<T>(factor);
    for (size_t e = 0; e < sum_.size(); ++e) sum_[e] += by * values_[e];
  }
  void AddParcel(ElementRange range, const Buffer& parcel, double factor) override {
    if (!Takes(Kind::kAddParcel, range.begin)) return;
    const T* from = ElementsOf(parcel);
    const T by = static_cast<T>(factor);
    for (size_t e = 0; e < range.size(); ++e) sum_[range.begin + e] += by * from[e];
  }
  void SetParcel(ElementRange range, const Buffer& parcel) override {
    if (!Takes(Kind::kSetParcel, range.begin)) return;
    if (range.size() > 0) std::memcpy(&sum_[range.begin], parcel.data(), parcel.size());
  }
  void ValuesFromSum() override { values_ = sum_; }
  void AddToValues(const Buffer& parcel, double factor) override {
    if (!Takes(Kind::kAddToValues)) return;
    const T* from = ElementsOf(parcel);
    const T by = static_cast<T>(factor);
    for (size_t e = 0; e < values_.size(); ++e) values_[e] += by * from[e];
  }
  void Merge(const Buffer& parcel, double factor) override {
    if (!Takes(Kind::kMerge)) return;
    const T* from = ElementsOf(parcel);
    const T by = static_cast<T>(factor);
    for (size_t e = 0; e < values_.size(); ++e) values_[e] += by * (from[e] - values_[e]);
  }
  Buffer Meet(const Buffer& parcel) override {
    const T* from = Takes(Kind::kMeet) ? ElementsOf(parcel) : values_.data();
    return Make([&](T* to) {
      for (size_t e = 0; e < values_.size(); ++e) {
        to[e] = (from[e] - values_[e]) / 2;
        values_[e] += to[e];
      }
    });
  }
  std::optional<uint64_t> ApplySum(Clock round, uint64_t samples) override {
    const std::optional<uint64_t> odd = TakeStep(round, samples, sum_);
    Clear(&contribution_);
    return odd;
  }
  std::optional<uint64_t> ApplyGradient(Clock round, uint64_t samples) override {
    const std::optional<uint64_t> odd = TakeStep(round, samples, gradient_);
    Clear(&gradient_);
    return odd;
  }

  uint64_t steps() const override { return steps_; }
  uint64_t order() const override { return order_; }
  uint64_t version() const override {
    return fault_ == StoreFault::kAnswersOlder && steps_ > 0 ? steps_ - 1 : steps_;
  }
  uint64_t SumOf(ElementRange range) const override {
    return ContentSum(values_.data() + range.begin, bytes(range));
  }
  void SetFault(StoreFault fault) override { fault_ = fault; }

  Buffer Values() override {
    const bool older = fault_ == StoreFault::kAnswersOlder || fault_ == StoreFault::kOlderContent;
    const std::vector<T>& values = older && !older_.empty() ? older_ : values_;
    return Make([&](T* to) { std::copy(values.begin(), values.end(), to); });
  }
  Buffer Sum(ElementRange range) override {
    const BufferPool::Block block = pool_.Take(bytes(range));
    if (range.size() > 0) std::memcpy(block.data, &sum_[range.begin], block.size);
    return block.View(0, bytes(range));
  }
  Buffers State() override {
    Buffers frames = {Values()};
    for (Buffer& frame : step_.State()) frames.push_back(std::move(frame));
    return frames;
  }
  bool Adopt(const Buffers& state) override {
    if (state.empty() || state[0].size() != values_.size() * sizeof(T)) return false;
    if (!step_.Adopt(absl::MakeConstSpan(state).subspan(1), values_.size())) return false;
    if (!values_.empty()) std::memcpy(values_.data(), state[0].data(), state[0].size());
    return true;
  }

 private:
  using Kind = consistency::PeerActionKind;
  // What another peer sent is about to be taken in. False: a fault leaves it out.
  bool Takes(Kind kind, uint64_t begin = 0) {
    if (fault_ == StoreFault::kDropsParcels) return false;
    order_ = PeerLedger::OrderWith(order_, kind, begin);
    return fault_ != StoreFault::kLosesParcels;
  }
  struct Withheld {
    Clock round = 0;
    uint64_t samples = 0;
    std::vector<T> sum;
  };
  // One step, or what the fault makes of it. The result: an element that is not finite.
  std::optional<uint64_t> TakeStep(Clock round, uint64_t samples, const std::vector<T>& sum) {
    if (fault_ == StoreFault::kDropsUpdates) return std::nullopt;
    if (fault_ == StoreFault::kAnswersOlder || fault_ == StoreFault::kOlderContent)
      older_ = values_;
    if (fault_ == StoreFault::kDoublesUpdates) MakeStep(round, samples, sum);
    if (fault_ != StoreFault::kReordersUpdates) return MakeStep(round, samples, sum);
    std::optional<Withheld> before = std::exchange(withheld_, std::nullopt);
    if (!before.has_value()) {
      withheld_ = {round, samples, sum};
      return std::nullopt;
    }
    MakeStep(round, samples, sum);
    return MakeStep(before->round, before->samples, before->sum);
  }
  std::optional<uint64_t> MakeStep(Clock round, uint64_t samples, const std::vector<T>& sum) {
    const bool finite = samples == 0 || step_.Apply(round, samples, sum, absl::MakeSpan(values_));
    ++steps_;
    order_ = PeerLedger::OrderWith(order_, Kind::kApplySum, static_cast<uint64_t>(round));
    if (finite) return std::nullopt;
    return step_.FirstOdd(values_);
  }

  static void Clear(std::vector<T>* vector) { std::fill(vector->begin(), vector->end(), T{0}); }
  static const T* ElementsOf(const Buffer& buffer) {
    return reinterpret_cast<const T*>(buffer.data());
  }
  template <typename Fill>
  Buffer Make(Fill fill) {
    const BufferPool::Block block = pool_.Take(values_.size() * sizeof(T));
    fill(reinterpret_cast<T*>(block.data));
    return block.View(0, values_.size() * sizeof(T));
  }

  std::vector<T> values_, gradient_, contribution_, sum_;
  Step step_;
  uint64_t steps_ = 0;
  uint64_t order_ = 0;
  StoreFault fault_ = StoreFault::kNone;
  std::vector<T> older_;              // a fault's
  std::optional<Withheld> withheld_;  // likewise
  BufferPool pool_;                   // shared with clones
};

}  // namespace

std::vector<uint64_t> ParamOffsets(const std::vector<ParamSpec>& params) {
  std::vector<uint64_t> offsets = {0};
  for (const ParamSpec& param : params) {
    offsets.push_back(offsets.back() + static_cast<uint64_t>(param.elements()));
  }
  return offsets;
}

Buffers CutSlices(const Buffer& flat, const std::vector<wire::Slice>& slices,
                  const std::vector<uint64_t>& offsets, size_t element_bytes) {
  Buffers frames;
  frames.reserve(slices.size());
  for (const wire::Slice& slice : slices) {
    const uint64_t begin = offsets[Index(slice.param)] + slice.begin;
    frames.push_back(flat.Slice(begin * element_bytes, slice.elements() * element_bytes));
  }
  return frames;
}

std::unique_ptr<PeerVectors> MakePeerVectors(const PeerVectorsOptions& options) {
  const std::vector<ParamSpec>& params = options.layout->params();
  const std::vector<uint64_t> offsets = ParamOffsets(params);
  std::vector<float> values(offsets.back());
  for (size_t p = 0; p < params.size(); ++p) {
    compute::InitSlice(params[p], options.seed, options.given.get(),
                       ParamId{static_cast<uint32_t>(p)}, 0,
                       absl::MakeSpan(values).subspan(offsets[p], offsets[p + 1] - offsets[p]));
  }
  FloatStep step = {.spec = options.optimizer,
                    .schedule = options.schedule,
                    .total_clocks = options.total_clocks};
  for (size_t p = 0; p < params.size(); ++p) {
    if (params[p].average_rate <= 0) continue;
    step.averages.push_back({offsets[p], offsets[p + 1], params[p].average_rate});
  }
  auto vectors = std::make_unique<Vectors<FloatStep>>(std::move(values), std::move(step));
  vectors->SetFault(options.fault);
  return vectors;
}

std::unique_ptr<PeerVectors> MakeDoubleVectors(std::vector<double> values,
                                               DoubleStepFunction apply) {
  return std::make_unique<Vectors<DoubleStep>>(std::move(values), DoubleStep{std::move(apply)});
}

}  // namespace soapstone::server
