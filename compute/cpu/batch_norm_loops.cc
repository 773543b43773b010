#include "compute/cpu/batch_norm_loops.h"

#include <algorithm>

#include "base/vectors.h"
#include "compute/cpu/vector_math.h"

namespace soapstone::compute {
namespace {

constexpr int64_t kTile = 16;              // channels at a time
constexpr int64_t kRun = 32;               // places that are summed in float32
constexpr int64_t kLongRun = 32 * kLanes;  // where 64 lanes are
constexpr int64_t kGrain = 4;              // tiles that are worth a thread

// kTile channels side by side. In memory it is aligned as a float.
using Wide = float __attribute__((vector_size(64)));
using WideAt = float __attribute__((vector_size(64), aligned(4), may_alias));
static_assert(sizeof(Wide) == kTile * sizeof(float));
// By reference: how vectors are returned depends on the processor.
SOAPSTONE_INTO_CALLER const WideAt& Load(const float* at) {
  return *reinterpret_cast<const WideAt*>(at);
}
SOAPSTONE_INTO_CALLER void Store(const Wide& from, float* at) {
  *reinterpret_cast<WideAt*>(at) = from;
}

// One sample's places of up to kTile channels side by side.
struct Tile {
  int64_t offset = 0;   // of the first element
  int64_t channel = 0;  // the first
  int64_t lanes = 0;
  int64_t sample = 0;
};

int64_t TilesOf(const NormLayout& layout) {
  return layout.samples * layout.blocks * ((layout.width + kTile - 1) / kTile);
}

Tile TileAt(const NormLayout& layout, int64_t index) {
  const int64_t per_block = (layout.width + kTile - 1) / kTile;
  const int64_t block = index / per_block;  // of all samples
  const int64_t lane = index % per_block * kTile;
  return {.offset = block * layout.places * layout.width + lane,
          .channel = block % layout.blocks * layout.width + lane,
          .lanes = std::min(kTile, layout.width - lane),
          .sample = block / layout.blocks};
}

// Chan et al. 1983, "Algorithms for computing the sample variance", eq. 2.1. share: of the others,
// other_count/(count + other_count).
SOAPSTONE_INTO_CALLER void Merge(double count, double share, double other_mean,
                                 double other_squares, double* mean, double* squares) {
  const double delta = other_mean - *mean;
  *mean += delta * share;
  *squares += other_squares + delta * delta * (count * share);
}

// What a run of n places adds, `before` of them having been. middle: its mean but for rounding;
// rest, squares: Σ (x − middle), Σ (x − middle)².
struct RunSums {
  float middle[kTile], rest[kTile], squares[kTile];
};
SOAPSTONE_INTO_CALLER void MergeRun(const RunSums& run, int64_t lanes, double before, double n,
                                    double* mean, double* squares) {
  const double share = n / (before + n);
  const double each = 1 / n;
  for (int64_t c = 0; c < lanes; ++c) {
    const double off = run.rest[c] * each;
    Merge(before, share, run.middle[c] + off, run.squares[c] - off * run.rest[c], &mean[c],
          &squares[c]);
  }
}

// Of kTile channels: in registers, several sums at a time.
SOAPSTONE_INTO_CALLER void SumRun(const float* x, int64_t stride, int64_t n, RunSums* sums) {
  Wide a = {}, b = {}, c = {}, d = {};
  int64_t p = 0;
  for (; p + 4 <= n; p += 4) {
    a += Load(x + p * stride);
    b += Load(x + (p + 1) * stride);
    c += Load(x + (p + 2) * stride);
    d += Load(x + (p + 3) * stride);
  }
  for (; p < n; ++p) a += Load(x + p * stride);
  const Wide middle = ((a + b) + (c + d)) / static_cast<float>(n);
  Wide rest = {}, other_rest = {}, squares = {}, other_squares = {};
  for (p = 0; p + 2 <= n; p += 2) {
    const Wide u = Load(x + p * stride) - middle;
    const Wide v = Load(x + (p + 1) * stride) - middle;
    rest += u;
    other_rest += v;
    squares += u * u;
    other_squares += v * v;
  }
  if (p < n) {
    const Wide u = Load(x + p * stride) - middle;
    rest += u;
    squares += u * u;
  }
  Store(middle, sums->middle);
  Store(rest + other_rest, sums->rest);
  Store(squares + other_squares, sums->squares);
}

// Of fewer.
SOAPSTONE_INTO_CALLER void SumRun(const float* x, int64_t stride, int64_t n, int64_t lanes,
                                  RunSums* sums) {
  *sums = {};
  for (int64_t p = 0; p < n; ++p) {
    for (int64_t c = 0; c < lanes; ++c) sums->middle[c] += x[p * stride + c];
  }
  for (int64_t c = 0; c < lanes; ++c) sums->middle[c] /= static_cast<float>(n);
  for (int64_t p = 0; p < n; ++p) {
    for (int64_t c = 0; c < lanes; ++c) {
      const float d = x[p * stride + c] - sums->middle[c];
      sums->rest[c] += d;
      sums->squares[c] += d * d;
    }
  }
}

SOAPSTONE_INTO_CALLER void LanesMoments(const NormLayout& layout, int64_t lanes, const float* x,
                                        NormMoments* moments) {
  double mean[kTile] = {}, squares[kTile] = {};
  for (int64_t begin = 0; begin < layout.places; begin += kRun) {
    const int64_t n = std::min(kRun, layout.places - begin);
    const float* from = x + begin * layout.width;
    RunSums run;
    if (lanes == kTile) {
      SumRun(from, layout.width, n, &run);
    } else {
      SumRun(from, layout.width, n, lanes, &run);
    }
    MergeRun(run, lanes, static_cast<double>(begin), static_cast<double>(n), mean, squares);
  }
  for (int64_t c = 0; c < lanes; ++c) moments[c] = {mean[c], squares[c]};
}

SOAPSTONE_INTO_CALLER void PlainMoments(int64_t places, const float* x, NormMoments* moments) {
  for (int64_t begin = 0; begin < places; begin += kLongRun) {
    const int64_t n = std::min(kLongRun, places - begin);
    const float* run = x + begin;
    const float middle = LaneSum(n, [&](int64_t i) { return run[i]; }) / static_cast<float>(n);
    const float rest = LaneSum(n, [&](int64_t i) { return run[i] - middle; });
    const float squares =
        LaneSum(n, [&](int64_t i) { return (run[i] - middle) * (run[i] - middle); });
    const RunSums sums = {{middle}, {rest}, {squares}};
    MergeRun(sums, 1, static_cast<double>(begin), static_cast<double>(n), &moments->mean,
             &moments->squares);
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void TilesMoments(const NormLayout& layout, const float* x,
                                              int64_t begin, int64_t end, NormMoments* parts) {
  for (int64_t i = begin; i < end; ++i) {
    const Tile tile = TileAt(layout, i);
    NormMoments* moments = parts + tile.sample * layout.channels() + tile.channel;
    for (int64_t c = 0; c < tile.lanes; ++c) moments[c] = {};
    if (layout.width == 1) {
      PlainMoments(layout.places, x + tile.offset, moments);
    } else if (tile.lanes == kTile) {
      LanesMoments(layout, kTile, x + tile.offset, moments);
    } else {
      LanesMoments(layout, tile.lanes, x + tile.offset, moments);
    }
  }
}

struct Lane {
  float mean, scale, shift;
  bool relu;
};

// What of dy comes through the relu; the same expression as in the forward pass, so the same bits.
SOAPSTONE_INTO_CALLER float Through(float x, float mean, float scale, float shift, bool relu,
                                    float dy) {
  const float y = (x - mean) * scale + shift;
  return relu && !(y > 0) ? 0.0f : dy;
}

// Of kTile channels.
SOAPSTONE_INTO_CALLER void WideSums(const NormLayout& layout, const NormChannels& k, bool relu,
                                    const float* x, const float* dy, NormGradientSums* sums) {
  const Wide mean = Load(k.mean), scale = Load(k.scale), shift = Load(k.shift), zero = {};
  double total[kTile] = {}, total_product[kTile] = {};
  for (int64_t begin = 0; begin < layout.places; begin += kRun) {
    const int64_t end = std::min(begin + kRun, layout.places);
    Wide sum = {}, product = {};
    for (int64_t p = begin; p < end; ++p) {
      const Wide d = Load(x + p * layout.width) - mean;
      Wide g = Load(dy + p * layout.width);
      if (relu) g = d * scale + shift > zero ? g : zero;
      sum += g;
      product += g * d;
    }
    float run[kTile], run_product[kTile];
    Store(sum, run);
    Store(product, run_product);
    for (int64_t c = 0; c < kTile; ++c) {
      total[c] += run[c];
      total_product[c] += run_product[c];
    }
  }
  for (int64_t c = 0; c < kTile; ++c) sums[c] = {total[c], total_product[c]};
}

// Of fewer.
// NOLINTNEXTLINE(readability-function-size): what a loop reads stays in registers
SOAPSTONE_INTO_CALLER void LanesSums(const NormLayout& layout, int64_t lanes, const NormChannels& k,
                                     bool relu, const float* x, const float* dy,
                                     NormGradientSums* sums) {
  for (int64_t begin = 0; begin < layout.places; begin += kRun) {
    const int64_t n = std::min(kRun, layout.places - begin);
    float sum[kTile] = {}, product[kTile] = {};
    for (int64_t p = begin; p < begin + n; ++p) {
      for (int64_t c = 0; c < lanes; ++c) {
        const int64_t i = p * layout.width + c;
        const float g = Through(x[i], k.mean[c], k.scale[c], k.shift[c], relu, dy[i]);
        sum[c] += g;
        product[c] += g * (x[i] - k.mean[c]);
      }
    }
    for (int64_t c = 0; c < lanes; ++c) {
      sums[c].dy += sum[c];
      sums[c].dyx += product[c];
    }
  }
}

SOAPSTONE_INTO_CALLER void PlainSums(int64_t places, const Lane& k, const float* x, const float* dy,
                                     NormGradientSums* sums) {
  for (int64_t begin = 0; begin < places; begin += kLongRun) {
    const int64_t n = std::min(kLongRun, places - begin);
    const float* run = x + begin;
    const float* grad = dy + begin;
    const auto through = [&](int64_t i) {
      return Through(run[i], k.mean, k.scale, k.shift, k.relu, grad[i]);
    };
    sums->dy += LaneSum(n, through);
    sums->dyx += LaneSum(n, [&](int64_t i) { return through(i) * (run[i] - k.mean); });
  }
}

NormChannels From(const NormChannels& k, int64_t channel) {
  return {k.mean + channel, k.scale + channel, k.shift + channel, k.relu};
}

SOAPSTONE_EACH_VECTOR_WIDTH void TilesSums(const NormLayout& layout, const NormChannels& channels,
                                           const NormGradient& t, int64_t begin, int64_t end,
                                           NormGradientSums* parts) {
  for (int64_t i = begin; i < end; ++i) {
    const Tile tile = TileAt(layout, i);
    const NormChannels k = From(channels, tile.channel);
    NormGradientSums* sums = parts + tile.sample * layout.channels() + tile.channel;
    for (int64_t c = 0; c < tile.lanes; ++c) sums[c] = {};
    const float* x = t.x + tile.offset;
    const float* dy = t.dy + tile.offset;
    if (layout.width == 1) {
      PlainSums(layout.places, {k.mean[0], k.scale[0], k.shift[0], k.relu}, x, dy, sums);
    } else if (tile.lanes == kTile && k.relu) {
      WideSums(layout, k, true, x, dy, sums);
    } else if (tile.lanes == kTile) {
      WideSums(layout, k, false, x, dy, sums);
    } else {
      LanesSums(layout, tile.lanes, k, k.relu, x, dy, sums);
    }
  }
}

SOAPSTONE_INTO_CALLER float Relu(float y, bool relu) { return relu && !(y > 0) ? 0.0f : y; }

SOAPSTONE_INTO_CALLER void WideNormalize(const NormLayout& layout, const NormChannels& k, bool relu,
                                         const float* x, float* y) {
  const Wide mean = Load(k.mean), scale = Load(k.scale), shift = Load(k.shift), zero = {};
  for (int64_t p = 0; p < layout.places; ++p) {
    Wide v = (Load(x + p * layout.width) - mean) * scale + shift;
    if (relu) v = v > zero ? v : zero;
    Store(v, y + p * layout.width);
  }
}

SOAPSTONE_INTO_CALLER void LanesNormalize(const NormLayout& layout, int64_t lanes,
                                          const NormChannels& k, bool relu, const float* x,
                                          float* y) {
  for (int64_t p = 0; p < layout.places; ++p) {
    const float* from = x + p * layout.width;
    float* to = y + p * layout.width;
    SOAPSTONE_ELEMENTWISE
    for (int64_t c = 0; c < lanes; ++c) {
      to[c] = Relu((from[c] - k.mean[c]) * k.scale[c] + k.shift[c], relu);
    }
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void TilesNormalize(const NormLayout& layout,
                                                const NormChannels& channels, const float* x,
                                                int64_t begin, int64_t end, float* y) {
  for (int64_t i = begin; i < end; ++i) {
    const Tile tile = TileAt(layout, i);
    const NormChannels k = From(channels, tile.channel);
    const float* from = x + tile.offset;
    float* to = y + tile.offset;
    if (layout.width == 1) {
      const Lane lane = {k.mean[0], k.scale[0], k.shift[0], k.relu};
      SOAPSTONE_ELEMENTWISE
      for (int64_t p = 0; p < layout.places; ++p) {
        to[p] = Relu((from[p] - lane.mean) * lane.scale + lane.shift, lane.relu);
      }
    } else if (tile.lanes == kTile && k.relu) {
      WideNormalize(layout, k, true, from, to);
    } else if (tile.lanes == kTile) {
      WideNormalize(layout, k, false, from, to);
    } else {
      LanesNormalize(layout, tile.lanes, k, k.relu, from, to);
    }
  }
}

SOAPSTONE_INTO_CALLER float GradientOf(float g, float x, const Lane& k, float mean_dy,
                                       float slope) {
  return k.scale * ((g - mean_dy) - (x - k.mean) * slope);
}

SOAPSTONE_INTO_CALLER void WideGradient(const NormLayout& layout, const NormChannels& k, bool relu,
                                        const NormSlopes& s, const NormGradient& t) {
  const Wide mean = Load(k.mean), scale = Load(k.scale), shift = Load(k.shift), zero = {};
  const Wide mean_dy = Load(s.mean_dy), slope = Load(s.slope);
  for (int64_t p = 0; p < layout.places; ++p) {
    const Wide d = Load(t.x + p * layout.width) - mean;
    Wide g = Load(t.dy + p * layout.width);
    if (relu) g = d * scale + shift > zero ? g : zero;
    Store(scale * ((g - mean_dy) - d * slope), t.dx + p * layout.width);
  }
}

SOAPSTONE_INTO_CALLER void LanesGradient(const NormLayout& layout, int64_t lanes,
                                         const NormChannels& k, bool relu, const NormSlopes& s,
                                         const NormGradient& t) {
  for (int64_t p = 0; p < layout.places; ++p) {
    const float* x = t.x + p * layout.width;
    const float* dy = t.dy + p * layout.width;
    float* dx = t.dx + p * layout.width;
    SOAPSTONE_ELEMENTWISE
    for (int64_t c = 0; c < lanes; ++c) {
      const float g = Through(x[c], k.mean[c], k.scale[c], k.shift[c], relu, dy[c]);
      dx[c] = k.scale[c] * ((g - s.mean_dy[c]) - (x[c] - k.mean[c]) * s.slope[c]);
    }
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void TilesGradient(const NormLayout& layout,
                                               const NormChannels& channels,
                                               const NormSlopes& slopes, const NormGradient& all,
                                               int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    const Tile tile = TileAt(layout, i);
    const NormChannels k = From(channels, tile.channel);
    const NormSlopes s = {slopes.mean_dy + tile.channel, slopes.slope + tile.channel};
    const NormGradient t = {all.x + tile.offset, all.dy + tile.offset, all.dx + tile.offset};
    if (layout.width == 1) {
      const Lane lane = {k.mean[0], k.scale[0], k.shift[0], k.relu};
      const float mean_dy = s.mean_dy[0];
      const float slope = s.slope[0];
      SOAPSTONE_ELEMENTWISE
      for (int64_t p = 0; p < layout.places; ++p) {
        const float g = Through(t.x[p], lane.mean, lane.scale, lane.shift, lane.relu, t.dy[p]);
        t.dx[p] = GradientOf(g, t.x[p], lane, mean_dy, slope);
      }
    } else if (tile.lanes == kTile && k.relu) {
      WideGradient(layout, k, true, s, t);
    } else if (tile.lanes == kTile) {
      WideGradient(layout, k, false, s, t);
    } else {
      LanesGradient(layout, tile.lanes, k, k.relu, s, t);
    }
  }
}

}  // namespace

void ChannelMoments(const CpuContext& context, const NormLayout& layout, const float* x,
                    NormMoments* parts, float* mean, float* variance) {
  ParallelFor(context, TilesOf(layout), kGrain,
              [&](int64_t begin, int64_t end) { TilesMoments(layout, x, begin, end, parts); });
  const auto places = static_cast<double>(layout.places);
  for (int64_t c = 0; c < layout.channels(); ++c) {
    NormMoments all;
    for (int64_t n = 0; n < layout.samples; ++n) {
      const NormMoments& part = parts[n * layout.channels() + c];
      Merge(static_cast<double>(n) * places, 1 / static_cast<double>(n + 1), part.mean,
            part.squares, &all.mean, &all.squares);
    }
    mean[c] = static_cast<float>(all.mean);
    const double count = static_cast<double>(layout.samples) * places;
    variance[c] = static_cast<float>(std::max(all.squares / count, 0.0));
  }
}

void Normalize(const CpuContext& context, const NormLayout& layout, const NormChannels& channels,
               const float* x, float* y) {
  ParallelFor(context, TilesOf(layout), kGrain, [&](int64_t begin, int64_t end) {
    TilesNormalize(layout, channels, x, begin, end, y);
  });
}

// NOLINTNEXTLINE(readability-function-size): what a loop reads stays in registers
void ChannelGradientSums(const CpuContext& context, const NormLayout& layout,
                         const NormChannels& channels, const float* x, const float* dy,
                         NormGradientSums* parts, NormGradientSums* sums) {
  const NormGradient tensors = {.x = x, .dy = dy};
  ParallelFor(context, TilesOf(layout), kGrain, [&](int64_t begin, int64_t end) {
    TilesSums(layout, channels, tensors, begin, end, parts);
  });
  for (int64_t c = 0; c < layout.channels(); ++c) {
    sums[c] = {};
    for (int64_t n = 0; n < layout.samples; ++n) {
      const NormGradientSums& part = parts[n * layout.channels() + c];
      sums[c].dy += part.dy;
      sums[c].dyx += part.dyx;
    }
  }
}

void NormalizeGradient(const CpuContext& context, const NormLayout& layout,
                       const NormChannels& channels, const NormSlopes& slopes,
                       const NormGradient& tensors) {
  ParallelFor(context, TilesOf(layout), kGrain, [&](int64_t begin, int64_t end) {
    TilesGradient(layout, channels, slopes, tensors, begin, end);
  });
}

}  // namespace soapstone::compute
