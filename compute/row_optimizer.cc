#include "compute/row_optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/vectors.h"
#include "compute/optimizer_pass.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

constexpr size_t kRowsAtOnce = 32;
constexpr uint64_t kStepsKept = 1 << 14;

// A few rows and where their parts are.
struct RowBatch {
  absl::Span<float* const> rows;
  const float* gradients;  // [rows, dim]
  size_t dim, first_at, second_at;
  // [rows], where steps count
  std::array<float, kRowsAtOnce> rate, unbias;
};

// kDim: 0 for what is not worth a loop of its own.
template <size_t kDim, bool kDecays>
SOAPSTONE_INTO_CALLER int32_t RunRows(const OptimizerSpec& spec, const OptimizerPass& shared,
                                      const RowBatch& batch) {
  const bool counts = IsAdam(spec.kind);
  int32_t bits = 0;
  for (size_t i = 0; i < batch.rows.size(); ++i) {
    OptimizerPass pass = shared;
    pass.n = kDim == 0 ? batch.dim : kDim;
    pass.gradient = batch.gradients + i * pass.n;
    pass.w = batch.rows[i];
    pass.from = pass.w;
    pass.first = pass.w + batch.first_at;
    pass.second = pass.w + batch.second_at;
    if (counts) {
      pass.rate = batch.rate[i];
      pass.unbias = batch.unbias[i];
    }
    bits = std::max(bits, RunPass<kDecays>(spec, pass));
  }
  return bits;
}

SOAPSTONE_EACH_VECTOR_WIDTH
int32_t RunBatch(const OptimizerSpec& spec, const OptimizerPass& shared, const RowBatch& batch) {
  if (shared.l2 != 0) return RunRows<0, true>(spec, shared, batch);
  switch (batch.dim) {
    case 16:
      return RunRows<16, false>(spec, shared, batch);
    case 32:
      return RunRows<32, false>(spec, shared, batch);
    default:
      return RunRows<0, false>(spec, shared, batch);
  }
}

}  // namespace

RowOptimizer::RowOptimizer(const OptimizerSpec& spec, uint32_t dim)
    : spec_(spec), dim_(dim), row_floats_(dim), counts_steps_(IsAdam(spec.kind)) {
  CHECK_GT(dim, 0u);
  const Moments moments = MomentsOf(spec.kind);
  if (moments.first) {
    first_at_ = row_floats_;
    row_floats_ += dim;
  }
  if (moments.second) {
    second_at_ = row_floats_;
    row_floats_ += dim;
  }
}

// A power costs as much as a row. Those of the first steps are kept; β^t < 2⁻⁵⁴ leaves 1 as it is,
// and is reached after 38/(1 − β) steps, since β^t < exp(−(1 − β)·t).
RowOptimizer::Parts RowOptimizer::PartsOf(uint64_t step) {
  const auto part = [](double beta, uint64_t t) {
    const double exponent = static_cast<double>(t);
    return (1 - beta) * exponent > 38 ? 1.0 : 1 - std::pow(beta, exponent);
  };
  if (step >= kStepsKept) return {part(spec_.beta1, step), part(spec_.beta2, step)};
  while (parts_.size() <= step) {
    parts_.push_back({part(spec_.beta1, parts_.size()), part(spec_.beta2, parts_.size())});
  }
  return parts_[step];
}

bool RowOptimizer::Apply(const Update& update, absl::Span<float* const> rows,
                         absl::Span<const uint64_t> steps, const float* gradients) {
  int32_t bits = 0;
  OptimizerPass shared = PassOf(spec_, update, dim_);
  for (size_t begin = 0; begin < rows.size(); begin += kRowsAtOnce) {
    RowBatch batch = {.rows = rows.subspan(begin, kRowsAtOnce),
                      .gradients = gradients + begin * dim_,
                      .dim = dim_,
                      .first_at = first_at_,
                      .second_at = second_at_};
    for (size_t i = 0; counts_steps_ && i < batch.rows.size(); ++i) {
      const Parts parts = PartsOf(steps[begin + i]);
      Unbias(parts.first, parts.second, &shared);
      batch.rate[i] = shared.rate;
      batch.unbias[i] = shared.unbias;
    }
    bits = std::max(bits, RunBatch(spec_, shared, batch));
  }
  return AreFinite(bits);
}

}  // namespace soapstone::compute
