#include "compute/init.h"

#include <algorithm>
#include <cstddef>

#include "base/random.h"
#include "glog/logging.h"

namespace soapstone::compute {

void InitSlice(const ParamSpec& spec, uint64_t seed, ParamId param, uint64_t begin,
               absl::Span<float> out) {
  CHECK_LE(begin, spec.elements());
  CHECK_LE(out.size(), spec.elements() - begin);
  const CounterRandom random(seed, RandomUse::kInit, Index(param));
  switch (spec.init) {
    case InitKind::kZero:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case InitKind::kOne:
      std::fill(out.begin(), out.end(), 1.0f);
      return;
    case InitKind::kUniform:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(spec.scale * (2 * random.Uniform(begin + i) - 1));
      }
      return;
    case InitKind::kNormal:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(spec.scale * random.Normal(begin + i));
      }
      return;
  }
}

}  // namespace soapstone::compute
