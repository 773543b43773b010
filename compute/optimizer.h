// Optimizers as values: how a gradient changes a slice of a parameter. Shards call ApplyGradient
// for each slice they own; configuration code parses the spec strings. Knows nothing of shards,
// policies or models: a slice is a span of floats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace soapstone::compute {

enum class OptimizerKind : uint8_t {
  kSgd,
  kMomentum,
  kNesterov,
  kAdagrad,
  kRmsprop,
  kAdam,
  kAdamw,
  kFtrl,
};

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kSgd;
  double lr = 0;     // before the schedule
  double mu = 0;     // momentum, nesterov
  double beta1 = 0;  // adam, adamw
  double beta2 = 0;
  double rho = 0;    // rmsprop
  double eps = 0;    // adagrad, rmsprop, adam, adamw
  double decay = 0;  // weight decay: coupled (L2) for all but adamw, decoupled there; not ftrl
  double beta = 0;   // ftrl
  double l1 = 0;
  double l2 = 0;

  std::string ToString() const;
  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// Parses "name:key=value,..." as in "momentum:lr=0.05,mu=0.9,decay=1e-4". Errors: unknown name
// (lists the known ones), unknown key, value out of range.
absl::StatusOr<OptimizerSpec> ParseOptimizer(std::string_view text);

// What an optimizer remembers of one slice. Created empty; ApplyGradient sizes what it needs.
// first: momentum's velocity, adam's m, ftrl's z. second: sums or means of squares. Each empty or
// [n] f32.
struct SliceState {
  std::vector<float> first;
  std::vector<float> second;
  int64_t steps = 0;  // gradients applied

  friend bool operator==(const SliceState&, const SliceState&) = default;
};

// Which of them an optimizer has.
struct Moments {
  bool first = false;
  bool second = false;
};
Moments MomentsOf(OptimizerKind kind);
// State by element of a parameter: 0 sgd, 1 momentum, 2 adam.
uint64_t FloatsOf(OptimizerKind kind);

// How new values are written. Bits do not depend on it.
enum class Writing {
  kPlain,
  kAsked,  // others have read what is there: its lines are asked for ahead
  kPast,   // past the caches (base/memory/past_cache.h). REQUIRES: elsewhere than the values before
};

struct Update {
  double lr = 0;        // after the schedule
  double scale = 1;     // multiplies the gradient: 1/samples for a mean, a policy's weight
  double fraction = 1;  // share of the global batch this gradient stands for; multiplies decay
  // > 0: the parameter is an average, not trained (ParamSpec::average_rate): x ← x − rate·scale·g,
  // whatever the optimizer.
  double average_rate = 0;
  Writing writing = Writing::kAsked;
};

// Applies one gradient to one slice. Element by element in float32, so that the result has the
// same bits however a tensor is sliced. False: a new value, or what the optimizer remembers of it,
// is not finite; nothing that comes after mends that.
// gradient, from, param: [n] f32; `from` is the parameter before, which may lie elsewhere: then it
// stays as it is. REQUIRES: equal sizes; `state` has only been used with this n and spec.
bool ApplyGradient(const OptimizerSpec& spec, const Update& update,
                   absl::Span<const float> gradient, absl::Span<const float> from,
                   absl::Span<float> param, SliceState* state);
// The same part by part: a step begins, then each part of the slice takes it, in whatever order.
// n: elements of the slice. REQUIRES: of Update, average_rate 0.
struct StepPart {
  size_t begin = 0;                  // where in the slice it is
  absl::Span<const float> gradient;  // as ApplyGradient's
  absl::Span<const float> from;
  absl::Span<float> param;
};
void BeginStep(OptimizerKind kind, size_t n, SliceState* state);
bool ApplyPart(const OptimizerSpec& spec, const Update& update, const StepPart& part,
               SliceState* state);
// In place.
inline bool ApplyGradient(const OptimizerSpec& spec, const Update& update,
                          absl::Span<const float> gradient, absl::Span<float> param,
                          SliceState* state) {
  return ApplyGradient(spec, update, gradient, param, param, state);
}

}  // namespace soapstone::compute
