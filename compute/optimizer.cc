#include "compute/optimizer.h"

#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "base/vectors.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

struct KindRow {
  OptimizerKind kind;
  const char* name;
  double lr;  // default
  std::vector<std::string> keys;
};

const std::vector<KindRow>& Kinds() {
  static const auto& rows = *new std::vector<KindRow>{
      {OptimizerKind::kSgd, "sgd", 0.1, {"lr", "decay"}},
      {OptimizerKind::kMomentum, "momentum", 0.05, {"lr", "mu", "decay"}},
      {OptimizerKind::kNesterov, "nesterov", 0.05, {"lr", "mu", "decay"}},
      {OptimizerKind::kAdagrad, "adagrad", 0.01, {"lr", "eps", "decay"}},
      {OptimizerKind::kRmsprop, "rmsprop", 0.001, {"lr", "rho", "eps", "decay"}},
      {OptimizerKind::kAdam, "adam", 0.001, {"lr", "beta1", "beta2", "eps", "decay"}},
      {OptimizerKind::kAdamw, "adamw", 0.001, {"lr", "beta1", "beta2", "eps", "decay"}},
  };
  return rows;
}

bool Has(const KindRow& row, std::string_view key) {
  for (const std::string& k : row.keys) {
    if (k == key) return true;
  }
  return false;
}

// The arguments of one element-wise pass, rounded once to float32.
struct Pass {
  size_t n;
  const float* gradient;  // [n]
  const float* from;      // [n], w before
  float* w;               // [n], may be `from`
  float lr, scale;
  float l2;  // coupled decay: fraction · decay
};

// g = scale·gradient + fraction·decay·w. Without decay the second half is left out: with it a pass
// over values in the cache is bound by arithmetic.
template <bool kDecays>
SOAPSTONE_INTO_CALLER float Gradient(const Pass& p, size_t i) {
  const float g = p.scale * p.gradient[i];
  return kDecays ? g + p.l2 * p.from[i] : g;
}

// w ← w − lr·g
template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplySgd(const Pass& p) {
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) p.w[i] = p.from[i] - p.lr * Gradient<kDecays>(p, i);
}

// Heavy ball (Polyak 1964) in the form of Sutskever et al. 2013 without their lr inside v:
// v ← mu·v + g;  w ← w − lr·v
template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplyMomentum(const Pass& p, float mu, float* v) {
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    v[i] = mu * v[i] + Gradient<kDecays>(p, i);
    p.w[i] = p.from[i] - p.lr * v[i];
  }
}

// v ← mu·v + g;  w ← w − lr·(g + mu·v)
template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplyNesterov(const Pass& p, float mu, float* v) {
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = Gradient<kDecays>(p, i);
    v[i] = mu * v[i] + g;
    p.w[i] = p.from[i] - p.lr * (g + mu * v[i]);
  }
}

// Duchi et al. 2011, diagonal:  s ← s + g²;  w ← w − lr·g / (√s + eps)
template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplyAdagrad(const Pass& p, float eps, float* s) {
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = Gradient<kDecays>(p, i);
    s[i] += g * g;
    p.w[i] = p.from[i] - p.lr * (g / (std::sqrt(s[i]) + eps));
  }
}

// Tieleman and Hinton 2012:  s ← rho·s + (1 − rho)·g²;  w ← w − lr·g / (√s + eps)
template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplyRmsprop(const Pass& p, const OptimizerSpec& spec, float* s) {
  const float rho = static_cast<float>(spec.rho);
  const float rest = static_cast<float>(1 - spec.rho);
  const float eps = static_cast<float>(spec.eps);
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = Gradient<kDecays>(p, i);
    s[i] = rho * s[i] + rest * (g * g);
    p.w[i] = p.from[i] - p.lr * (g / (std::sqrt(s[i]) + eps));
  }
}

// Kingma and Ba 2015, algorithm 1; with keep < 1 AdamW (Loshchilov and Hutter 2019, algorithm 2):
// m ← β1·m + (1 − β1)·g;  s ← β2·s + (1 − β2)·g²
// w ← keep·w − lr/(1 − β1^t) · m / (√(s / (1 − β2^t)) + eps),  keep = 1 − lr·fraction·decay
template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplyAdam(const Pass& p, const OptimizerSpec& spec, float keep,
                                     SliceState* state) {
  const double t = static_cast<double>(state->steps);
  const float beta1 = static_cast<float>(spec.beta1);
  const float rest1 = static_cast<float>(1 - spec.beta1);
  const float beta2 = static_cast<float>(spec.beta2);
  const float rest2 = static_cast<float>(1 - spec.beta2);
  const float rate = static_cast<float>(p.lr / (1 - std::pow(spec.beta1, t)));
  const float unbias = static_cast<float>(1 / (1 - std::pow(spec.beta2, t)));
  const float eps = static_cast<float>(spec.eps);
  float* m = state->first.data();
  float* s = state->second.data();
  SOAPSTONE_ELEMENTWISE
  for (size_t i = 0; i < p.n; ++i) {
    const float g = Gradient<kDecays>(p, i);
    m[i] = beta1 * m[i] + rest1 * g;
    s[i] = beta2 * s[i] + rest2 * (g * g);
    p.w[i] = keep * p.from[i] - rate * (m[i] / (std::sqrt(s[i] * unbias) + eps));
  }
}

template <bool kDecays>
SOAPSTONE_INTO_CALLER void ApplyPass(const OptimizerSpec& spec, const Update& update,
                                     const Pass& pass, SliceState* state) {
  switch (spec.kind) {
    case OptimizerKind::kSgd:
      return ApplySgd<kDecays>(pass);
    case OptimizerKind::kMomentum:
      return ApplyMomentum<kDecays>(pass, static_cast<float>(spec.mu), state->first.data());
    case OptimizerKind::kNesterov:
      return ApplyNesterov<kDecays>(pass, static_cast<float>(spec.mu), state->first.data());
    case OptimizerKind::kAdagrad:
      return ApplyAdagrad<kDecays>(pass, static_cast<float>(spec.eps), state->second.data());
    case OptimizerKind::kRmsprop:
      return ApplyRmsprop<kDecays>(pass, spec, state->second.data());
    case OptimizerKind::kAdam:
      return ApplyAdam<kDecays>(pass, spec, 1.0f, state);
    case OptimizerKind::kAdamw:
      return ApplyAdam<kDecays>(
          pass, spec, static_cast<float>(1 - update.lr * update.fraction * spec.decay), state);
  }
}

void SizeMoment(size_t n, std::vector<float>* moment) {
  if (moment->empty()) moment->resize(n, 0.0f);
  CHECK_EQ(moment->size(), n);
}

void SizeMoments(OptimizerKind kind, size_t n, SliceState* state) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return SizeMoment(n, &state->first);
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kRmsprop:
      return SizeMoment(n, &state->second);
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
      SizeMoment(n, &state->first);
      return SizeMoment(n, &state->second);
  }
}

}  // namespace

absl::StatusOr<OptimizerSpec> ParseOptimizer(std::string_view text) {
  SOAP_ASSIGN_OR_RETURN(const Spec spec, Spec::Parse(text));
  for (const KindRow& row : Kinds()) {
    if (spec.name != row.name) continue;
    SOAP_RETURN_IF_ERROR(spec.AllowOnly(row.keys));
    OptimizerSpec out;
    out.kind = row.kind;
    const double eps = row.kind == OptimizerKind::kAdagrad ? 1e-10 : 1e-8;
    SOAP_ASSIGN_OR_RETURN(out.lr, spec.Real("lr", row.lr, 0, 1e6));
    SOAP_ASSIGN_OR_RETURN(out.mu, spec.Real("mu", Has(row, "mu") ? 0.9 : 0, 0, 0.999999));
    SOAP_ASSIGN_OR_RETURN(out.beta1, spec.Real("beta1", Has(row, "beta1") ? 0.9 : 0, 0, 0.999999));
    SOAP_ASSIGN_OR_RETURN(out.beta2,
                          spec.Real("beta2", Has(row, "beta2") ? 0.999 : 0, 0, 0.9999999));
    SOAP_ASSIGN_OR_RETURN(out.rho, spec.Real("rho", Has(row, "rho") ? 0.99 : 0, 0, 0.999999));
    SOAP_ASSIGN_OR_RETURN(out.eps, spec.Real("eps", Has(row, "eps") ? eps : 0, 1e-30, 1));
    SOAP_ASSIGN_OR_RETURN(out.decay, spec.Real("decay", 0, 0, 1));
    return out;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown optimizer '", spec.name,
      "'; known: ", absl::StrJoin(Kinds(), ", ", [](std::string* out, const KindRow& row) {
        out->append(row.name);
      })));
}

std::string OptimizerSpec::ToString() const {
  for (const KindRow& row : Kinds()) {
    if (row.kind != kind) continue;
    std::string text = absl::StrCat(row.name, ":lr=", lr);
    if (Has(row, "mu")) absl::StrAppend(&text, ",mu=", mu);
    if (Has(row, "beta1")) absl::StrAppend(&text, ",beta1=", beta1, ",beta2=", beta2);
    if (Has(row, "rho")) absl::StrAppend(&text, ",rho=", rho);
    if (Has(row, "eps")) absl::StrAppend(&text, ",eps=", eps);
    if (decay != 0) absl::StrAppend(&text, ",decay=", decay);
    return text;
  }
  LOG(FATAL) << "optimizer kind " << static_cast<int>(kind);
}

SOAPSTONE_EACH_VECTOR_WIDTH
void ApplyGradient(const OptimizerSpec& spec, const Update& update,
                   absl::Span<const float> gradient, absl::Span<const float> from,
                   absl::Span<float> param, SliceState* state) {
  CHECK_EQ(gradient.size(), param.size());
  CHECK_EQ(from.size(), param.size());
  SizeMoments(spec.kind, param.size(), state);
  state->steps += 1;
  const bool decoupled = spec.kind == OptimizerKind::kAdamw;
  const Pass pass = {.n = param.size(),
                     .gradient = gradient.data(),
                     .from = from.data(),
                     .w = param.data(),
                     .lr = static_cast<float>(update.lr),
                     .scale = static_cast<float>(update.scale),
                     .l2 = static_cast<float>(decoupled ? 0 : update.fraction * spec.decay)};
  if (pass.l2 != 0) {
    ApplyPass<true>(spec, update, pass, state);
  } else {
    ApplyPass<false>(spec, update, pass, state);
  }
}

}  // namespace soapstone::compute
