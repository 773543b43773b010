#include "server/peer/peer_vectors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/frame_sums.h"
#include "compute/init.h"
#include "server/peer/flat_vector.h"
#include "server/peer/peer_ledger.h"

namespace soapstone::server {
namespace {

// Blocks of vectors that are used again: the values to come, and a chunk that is added to or sent.
constexpr size_t kIdleMin = size_t{16} << 20;  // bytes
constexpr size_t kIdleVectors = 2;
constexpr size_t kInCache = size_t{1} << 20;  // elements

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
  bool Apply(Clock round, uint64_t samples, const FlatVector<float>& sum,
             absl::Span<const float> from, absl::Span<float> to, BufferPool* /*pool*/) {
    const Clock clock = std::min(round, total_clocks - 1);
    const compute::Update update = {
        .lr = compute::LearningRate(spec, schedule, clock, total_clocks),
        .scale = 1.0 / static_cast<double>(samples),
        .fraction = 1,
        .writing = to.size() < kInCache ? compute::Writing::kPlain : compute::Writing::kPast};
    compute::BeginStep(spec.kind, to.size(), &state);
    bool finite = true;
    const auto apply = [&](ElementRange part, const float* g) {
      const size_t n = part.size();
      finite &= compute::ApplyPart(spec, update,
                                   {.begin = part.begin,
                                    .gradient = {g, n},
                                    .from = from.subspan(part.begin, n),
                                    .param = to.subspan(part.begin, n)},
                                   &state);
    };
    const auto average = [&](ElementRange part, const float* g, double rate) {
      const size_t n = part.size();
      compute::SliceState none;
      finite &= compute::ApplyPart({}, {.lr = rate, .scale = update.scale},
                                   {.gradient = {g, n},
                                    .from = from.subspan(part.begin, n),
                                    .param = to.subspan(part.begin, n)},
                                   &none);
    };
    sum.Walk(sum.all(), [&](ElementRange part, const float* g) {
      std::vector<float> zeros;
      if (g == nullptr) {
        zeros.resize(part.size());
        g = zeros.data();
      }
      uint64_t at = part.begin;
      for (const Average& a : averages) {
        const ElementRange here = {std::max(a.begin, at), std::min(a.end, part.end)};
        if (here.begin >= here.end) continue;
        if (at < here.begin) apply({at, here.begin}, g + (at - part.begin));
        average(here, g + (here.begin - part.begin), a.rate);
        at = here.end;
      }
      if (at < part.end) apply({at, part.end}, g + (at - part.begin));
    });
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

  bool Apply(Clock round, uint64_t samples, const FlatVector<double>& sum,
             absl::Span<const double> from, absl::Span<double> to, BufferPool* pool) const {
    std::copy(from.begin(), from.end(), to.begin());
    const Buffer whole = sum.Read(sum.all(), pool);
    apply(round, samples, {reinterpret_cast<const double*>(whole.data()), to.size()}, to);
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
  Vectors(absl::Span<const T> values, Step step)
      : elements_(values.size()),
        gradient_(elements_),
        contribution_(elements_),
        sum_(elements_),
        step_(std::move(step)),
        pool_(kIdleMin + kIdleVectors * elements_ * sizeof(T)) {
    values_ = Make([&](T* to) { std::copy(values.begin(), values.end(), to); });
  }

  std::unique_ptr<PeerVectors> Clone() const override { return std::make_unique<Vectors>(*this); }
  uint64_t elements() const override { return elements_; }
  size_t bytes(ElementRange range) const override { return range.size() * sizeof(T); }

  void AddGradient(uint64_t offset, const Buffer& frame) override {
    gradient_.Add({offset, offset + frame.size() / sizeof(T)}, frame, T{1}, &pool_);
  }
  void Stage(ElementRange range) override {
    for (const auto& part : gradient_.PartsIn(range)) {
      contribution_.Add(part.range, part.view, T{1}, &pool_);
    }
    gradient_.Clear(range);
    sum_.Clear(range);
    for (const auto& part : contribution_.PartsIn(range)) sum_.Set(part.range, part.view);
  }
  void Discard() override { contribution_.Clear(); }
  void ClearSum() override { sum_.Clear(); }
  void AddValues(double factor) override {
    sum_.Add(sum_.all(), values_, static_cast<T>(factor), &pool_);
  }
  void AddParcel(ElementRange range, const Buffers& parcel, double factor) override {
    if (!Takes(Kind::kAddParcel, range.begin)) return;
    EachFrame(range, parcel, [&](ElementRange part, const Buffer& frame) {
      sum_.Add(part, frame, static_cast<T>(factor), &pool_);
    });
  }
  void SetParcel(ElementRange range, const Buffers& parcel) override {
    if (!Takes(Kind::kSetParcel, range.begin)) return;
    EachFrame(range, parcel,
              [&](ElementRange part, const Buffer& frame) { sum_.Set(part, frame); });
  }
  void ValuesFromSum() override { values_ = sum_.Read(sum_.all(), &pool_); }
  void AddToValues(const Buffer& parcel, double factor) override {
    if (!Takes(Kind::kAddToValues)) return;
    const T* from = ElementsOf(parcel);
    const T by = static_cast<T>(factor);
    Remake([&](T value, size_t e) { return value + by * from[e]; });
  }
  void Merge(const Buffer& parcel, double factor) override {
    if (!Takes(Kind::kMerge)) return;
    const T* from = ElementsOf(parcel);
    const T by = static_cast<T>(factor);
    Remake([&](T value, size_t e) { return value + by * (from[e] - value); });
  }
  Buffer Meet(const Buffer& parcel) override {
    const T* from = Takes(Kind::kMeet) ? ElementsOf(parcel) : ElementsOf(values_);
    Buffer half = Make([&](T* to) {
      for (size_t e = 0; e < elements_; ++e) to[e] = (from[e] - values()[e]) / 2;
    });
    const T* add = ElementsOf(half);
    Remake([&](T value, size_t e) { return value + add[e]; });
    return half;
  }
  std::optional<uint64_t> ApplySum(Clock round, uint64_t samples) override {
    const std::optional<uint64_t> odd = TakeStep(round, samples, sum_);
    contribution_.Clear();
    sum_.Clear();
    return odd;
  }
  std::optional<uint64_t> ApplyGradient(Clock round, uint64_t samples) override {
    const std::optional<uint64_t> odd = TakeStep(round, samples, gradient_);
    gradient_.Clear();
    return odd;
  }

  uint64_t steps() const override { return steps_; }
  uint64_t order() const override { return order_; }
  uint64_t version() const override {
    return fault_ == StoreFault::kAnswersOlder && steps_ > 0 ? steps_ - 1 : steps_;
  }
  uint64_t SumOf(ElementRange range) const override {
    return ContentSum(values().data() + range.begin, bytes(range));
  }
  void SetFault(StoreFault fault) override { fault_ = fault; }

  Buffer Values() override {
    const bool older = fault_ == StoreFault::kAnswersOlder || fault_ == StoreFault::kOlderContent;
    return older && older_.size() > 0 ? older_ : values_;
  }
  Buffers Sum(ElementRange range) override { return sum_.Views(range, &pool_); }
  Buffers State() override {
    Buffers frames = {Values()};
    for (Buffer& frame : step_.State()) frames.push_back(std::move(frame));
    return frames;
  }
  bool Adopt(const Buffers& state) override {
    if (state.empty() || state[0].size() != elements_ * sizeof(T)) return false;
    if (!step_.Adopt(absl::MakeConstSpan(state).subspan(1), elements_)) return false;
    values_ = Make([&](T* to) { std::memcpy(to, state[0].data(), state[0].size()); });
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
    FlatVector<T> sum;
  };
  // One step, or what the fault makes of it. The result: an element that is not finite.
  std::optional<uint64_t> TakeStep(Clock round, uint64_t samples, const FlatVector<T>& sum) {
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
  std::optional<uint64_t> MakeStep(Clock round, uint64_t samples, const FlatVector<T>& sum) {
    bool finite = true;
    if (samples > 0) {
      values_ = Make([&](T* to) {
        finite = step_.Apply(round, samples, sum, values(), {to, elements_}, &pool_);
      });
    }
    ++steps_;
    order_ = PeerLedger::OrderWith(order_, Kind::kApplySum, static_cast<uint64_t>(round));
    if (finite) return std::nullopt;
    return step_.FirstOdd(values());
  }

  static const T* ElementsOf(const Buffer& buffer) {
    return reinterpret_cast<const T*>(buffer.data());
  }
  template <typename DoFrame>
  static void EachFrame(ElementRange range, const Buffers& parcel, DoFrame do_frame) {
    uint64_t at = range.begin;
    for (const Buffer& frame : parcel) {
      const uint64_t end = at + frame.size() / sizeof(T);
      do_frame(ElementRange{at, end}, frame);
      at = end;
    }
  }
  absl::Span<const T> values() const { return {ElementsOf(values_), elements_}; }
  // A vector that `fill` writes; others may then have views of it.
  template <typename Fill>
  Buffer Make(Fill fill) {
    const BufferPool::Block block = pool_.Take(elements_ * sizeof(T));
    fill(reinterpret_cast<T*>(block.data));
    return block.View(0, elements_ * sizeof(T));
  }
  // Each value anew: who has a view of those before keeps them.
  template <typename Change>
  void Remake(Change change) {
    values_ = Make([&](T* to) {
      for (size_t e = 0; e < elements_; ++e) to[e] = change(values()[e], e);
    });
  }

  size_t elements_;
  Buffer values_;
  FlatVector<T> gradient_, contribution_, sum_;
  Step step_;
  uint64_t steps_ = 0;
  uint64_t order_ = 0;
  StoreFault fault_ = StoreFault::kNone;
  Buffer older_;                      // a fault's
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
  auto vectors = std::make_unique<Vectors<FloatStep>>(absl::MakeConstSpan(values), std::move(step));
  vectors->SetFault(options.fault);
  return vectors;
}

std::unique_ptr<PeerVectors> MakeDoubleVectors(absl::Span<const double> values,
                                               DoubleStepFunction apply) {
  return std::make_unique<Vectors<DoubleStep>>(values, DoubleStep{std::move(apply)});
}

}  // namespace soapstone::server
