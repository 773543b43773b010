#include "compute/init.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/piece_runs.h"
#include "base/random.h"
#include "glog/logging.h"

namespace soapstone::compute {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// Values of four elements from four words.
std::array<float, 4> Uniforms(const std::array<uint32_t, 4>& words, double scale) {
  std::array<float, 4> out;
  for (size_t i = 0; i < 4; ++i) {
    out[i] = static_cast<float>(scale * (static_cast<double>(words[i]) * 0x1.0p-31 - 1));
  }
  return out;
}

// Box-Muller, both of each pair.
std::array<float, 4> Normals(const std::array<uint32_t, 4>& words, double scale) {
  std::array<float, 4> out;
  for (size_t i = 0; i < 4; i += 2) {
    const double u1 = (static_cast<double>(words[i]) + 1.0) * 0x1.0p-32;  // (0, 1]
    const double angle = kTwoPi * static_cast<double>(words[i + 1]) * 0x1.0p-32;
    const double radius = scale * std::sqrt(-2.0 * std::log(u1));
    out[i] = static_cast<float>(radius * std::cos(angle));
    out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return out;
}

// put(i, CounterRandom::Uniform(begin + i)) for all i < count. Many draws at once go through
// vectors.
template <typename Put>
void EachUniform(const CounterRandom& random, uint64_t begin, size_t count, const Put& put) {
  constexpr size_t kAtOnce = 256;
  std::array<uint32_t, 4 * kAtOnce> words;
  for (size_t done = 0; done < count; done += kAtOnce) {
    const size_t some = std::min(kAtOnce, count - done);
    random.Blocks(begin + done, some, words.data());
    for (size_t i = 0; i < some; ++i) {
      const uint64_t bits = (static_cast<uint64_t>(words[4 * i + 1]) << 32) | words[4 * i];
      put(done + i, static_cast<double>(bits >> 11) * 0x1.0p-53);
    }
  }
}

}  // namespace

void InitRow(const RowInit& init, uint64_t key, absl::Span<float> out) {
  if (init.kind == InitKind::kZero || init.kind == InitKind::kOne) {
    std::fill(out.begin(), out.end(), init.kind == InitKind::kZero ? 0.0f : 1.0f);
    return;
  }
  const CounterRandom random(init.seed, RandomUse::kRowInit, key);
  const uint64_t table = static_cast<uint64_t>(init.table) << 32;
  for (size_t i = 0; i < out.size(); i += 4) {
    const std::array<uint32_t, 4> words = random.Block(table | (i / 4));
    const std::array<float, 4> four =
        init.kind == InitKind::kUniform ? Uniforms(words, init.scale) : Normals(words, init.scale);
    std::copy_n(four.begin(), std::min<size_t>(4, out.size() - i), out.begin() + i);
  }
}

namespace {

// Elements [begin, begin + out.size()) of the whole parameter.
void InitWhole(const ParamSpec& spec, uint64_t seed, uint32_t param, uint64_t begin,
               absl::Span<float> out) {
  const CounterRandom random(seed, RandomUse::kInit, param);
  switch (spec.init) {
    case InitKind::kZero:
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    case InitKind::kOne:
      std::fill(out.begin(), out.end(), 1.0f);
      return;
    case InitKind::kUniform:
      EachUniform(random, begin, out.size(), [&](size_t i, double uniform) {
        out[i] = static_cast<float>(spec.scale * (2 * uniform - 1));
      });
      return;
    case InitKind::kNormal:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = static_cast<float>(spec.scale * random.Normal(begin + i));
      }
      return;
  }
}

// Calls each(element of the whole, its part of `out`).
template <typename Each>
void ForRuns(const ParamSpec& spec, uint64_t begin, absl::Span<float> out, const Each& each) {
  CHECK_LE(begin, spec.elements());
  CHECK_LE(out.size(), spec.elements() - begin);
  const PieceRuns runs(spec);
  for (size_t done = 0; done < out.size();) {
    const PieceRuns::Run run = runs.RunAt(begin + done);
    const size_t count = std::min<size_t>(run.count, out.size() - done);
    each(run.at, out.subspan(done, count));
    done += count;
  }
}

uint32_t NumberOf(const ParamSpec& spec, ParamId param) {
  return spec.piece.has_value() ? spec.piece->param : Index(param);
}

}  // namespace

void InitSlice(const ParamSpec& spec, uint64_t seed, ParamId param, uint64_t begin,
               absl::Span<float> out) {
  ForRuns(spec, begin, out, [&](uint64_t at, absl::Span<float> part) {
    InitWhole(spec, seed, NumberOf(spec, param), at, part);
  });
}

void InitSlice(const ParamSpec& spec, uint64_t seed, const GivenValues* given, ParamId param,
               uint64_t begin, absl::Span<float> out) {
  if (given == nullptr) return InitSlice(spec, seed, param, begin, out);
  const std::vector<float>& values = given->at(NumberOf(spec, param));
  ForRuns(spec, begin, out, [&](uint64_t at, absl::Span<float> part) {
    CHECK_LE(at + part.size(), values.size());
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(at), part.size(), part.begin());
  });
}

}  // namespace soapstone::compute
