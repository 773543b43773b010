#include "compute/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/memory/past_cache.h"
#include "base/nearest_name.h"
#include "base/spec.h"
#include "base/status_macros.h"
#include "base/vectors.h"
#include "compute/optimizer_pass.h"
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
      {OptimizerKind::kFtrl, "ftrl", 0.1, {"lr", "beta", "l1", "l2"}},
  };
  return rows;
}

bool Has(const KindRow& row, std::string_view key) {
  for (const std::string& k : row.keys) {
    if (k == key) return true;
  }
  return false;
}

void SizeMoment(size_t n, std::vector<float>* moment) {
  if (moment->empty()) moment->resize(n, 0.0f);
  CHECK_EQ(moment->size(), n);
}

void SizeMoments(OptimizerKind kind, size_t n, SliceState* state) {
  const Moments moments = MomentsOf(kind);
  if (moments.first) SizeMoment(n, &state->first);
  if (moments.second) SizeMoment(n, &state->second);
}

constexpr size_t kBlock = size_t{1} << 16;  // elements; shorter ones stop the prefetcher too often
constexpr size_t kPiece = 512;  // of a block: as many are asked for, or stored, at a time

// Elements [at, at + n) of the pass.
SOAPSTONE_INTO_CALLER OptimizerPass Part(const OptimizerPass& whole, size_t at, size_t n) {
  OptimizerPass part = whole;
  part.n = n;
  part.gradient += at;
  part.from += at;
  part.w += at;
  if (part.first != nullptr) part.first += at;
  if (part.second != nullptr) part.second += at;
  return part;
}

// The pass, with the values that a reader may have looked at since asked for a piece ahead.
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t RunAsking(const OptimizerSpec& spec, const OptimizerPass& pass) {
  int32_t bits = 0;
  AskToWrite(pass.w, std::min(kPiece, pass.n) * sizeof(float));
  for (size_t at = 0; at < pass.n; at += kPiece) {
    const size_t next = at + kPiece;
    if (next < pass.n) AskToWrite(pass.w + next, std::min(kPiece, pass.n - next) * sizeof(float));
    const OptimizerPass piece = Part(pass, at, std::min(kPiece, pass.n - at));
    bits = std::max(bits, RunPass<kDecays>(spec, piece));
  }
  return bits;
}

// The pass, whose values go past the caches.
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t RunPast(const OptimizerSpec& spec, const OptimizerPass& pass) {
  int32_t bits = 0;
  alignas(kCacheLine) float values[kPiece];
  for (size_t at = 0; at < pass.n; at += kPiece) {
    OptimizerPass piece = Part(pass, at, std::min(kPiece, pass.n - at));
    piece.w = values;
    bits = std::max(bits, RunPass<kDecays>(spec, piece));
    StorePast(pass.w + at, values, piece.n);
  }
  return bits;
}

// The whole pass, block by block, backwards in every other update: what a cache that is too small
// for all has kept is what the next update begins with. MagnitudeBits of all that it leaves.
template <bool kDecays>
SOAPSTONE_INTO_CALLER int32_t RunBlocks(const OptimizerSpec& spec, const OptimizerPass& whole,
                                        Writing writing, bool backwards) {
  int32_t bits = 0;
  const size_t blocks = (whole.n + kBlock - 1) / kBlock;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t begin = (backwards ? blocks - 1 - b : b) * kBlock;
    const OptimizerPass block = Part(whole, begin, std::min(kBlock, whole.n - begin));
    switch (writing) {
      case Writing::kPlain:
        bits = std::max(bits, RunPass<kDecays>(spec, block));
        break;
      case Writing::kAsked:
        bits = std::max(bits, RunAsking<kDecays>(spec, block));
        break;
      case Writing::kPast:
        bits = std::max(bits, RunPast<kDecays>(spec, block));
        break;
    }
  }
  if (writing == Writing::kPast) FencePast();
  return bits;
}

}  // namespace

Moments MomentsOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return {.first = true};
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kRmsprop:
      return {.second = true};
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
    case OptimizerKind::kFtrl:
      return {.first = true, .second = true};
  }
  LOG(FATAL) << "optimizer kind " << static_cast<int>(kind);
}

uint64_t FloatsOf(OptimizerKind kind) {
  const Moments moments = MomentsOf(kind);
  return (moments.first ? 1 : 0) + (moments.second ? 1 : 0);
}

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
    SOAP_ASSIGN_OR_RETURN(out.beta, spec.Real("beta", Has(row, "beta") ? 1 : 0, 0, 1e6));
    SOAP_ASSIGN_OR_RETURN(out.l1, spec.Real("l1", 0, 0, 1e6));
    SOAP_ASSIGN_OR_RETURN(out.l2, spec.Real("l2", 0, 0, 1e6));
    return out;
  }
  std::vector<std::string> known;
  for (const KindRow& row : Kinds()) known.emplace_back(row.name);
  return absl::InvalidArgumentError(absl::StrCat("unknown optimizer '", spec.name, "'",
                                                 DidYouMean(spec.name, known),
                                                 "; known: ", absl::StrJoin(known, ", ")));
}

std::string OptimizerSpec::ToString() const {
  for (const KindRow& row : Kinds()) {
    if (row.kind != kind) continue;
    std::string text = absl::StrCat(row.name, ":lr=", lr);
    if (Has(row, "mu")) absl::StrAppend(&text, ",mu=", mu);
    if (Has(row, "beta1")) absl::StrAppend(&text, ",beta1=", beta1, ",beta2=", beta2);
    if (Has(row, "rho")) absl::StrAppend(&text, ",rho=", rho);
    if (Has(row, "eps")) absl::StrAppend(&text, ",eps=", eps);
    if (Has(row, "l1")) absl::StrAppend(&text, ",beta=", beta, ",l1=", l1, ",l2=", l2);
    if (decay != 0) absl::StrAppend(&text, ",decay=", decay);
    return text;
  }
  LOG(FATAL) << "optimizer kind " << static_cast<int>(kind);
}

void BeginStep(OptimizerKind kind, size_t n, SliceState* state) {
  SizeMoments(kind, n, state);
  state->steps += 1;
}

SOAPSTONE_EACH_VECTOR_WIDTH
bool ApplyPart(const OptimizerSpec& spec, const Update& update, const StepPart& part,
               SliceState* state) {
  const size_t n = part.param.size();
  CHECK_EQ(part.gradient.size(), n);
  CHECK_EQ(part.from.size(), n);
  const Moments moments = MomentsOf(spec.kind);
  CHECK(!moments.first || part.begin + n <= state->first.size());
  CHECK(!moments.second || part.begin + n <= state->second.size());
  OptimizerPass pass = PassOf(spec, update, n);
  pass.gradient = part.gradient.data();
  pass.from = part.from.data();
  pass.w = part.param.data();
  if (moments.first) pass.first = state->first.data() + part.begin;
  if (moments.second) pass.second = state->second.data() + part.begin;
  if (IsAdam(spec.kind)) {
    const double t = static_cast<double>(state->steps);
    Unbias(1 - std::pow(spec.beta1, t), 1 - std::pow(spec.beta2, t), &pass);
  }
  const bool backwards = state->steps % 2 == 0;
  return AreFinite(pass.l2 != 0 ? RunBlocks<true>(spec, pass, update.writing, backwards)
                                : RunBlocks<false>(spec, pass, update.writing, backwards));
}

bool ApplyGradient(const OptimizerSpec& spec, const Update& update,
                   absl::Span<const float> gradient, absl::Span<const float> from,
                   absl::Span<float> param, SliceState* state) {
  BeginStep(spec.kind, param.size(), state);
  if (update.average_rate > 0) {
    SliceState none;
    return ApplyPart({},
                     {.lr = update.average_rate, .scale = update.scale, .writing = update.writing},
                     {.gradient = gradient, .from = from, .param = param}, &none);
  }
  return ApplyPart(spec, update, {.gradient = gradient, .from = from, .param = param}, state);
}

}  // namespace soapstone::compute
