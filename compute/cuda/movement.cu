// Kernels of windows (pooling, response normalisation) and of movement: sections, transposition,
// reduction, embedding, slices. Gradients gather: each element is written by one thread.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

SOAP_DEVICE int64_t Larger(int64_t a, int64_t b) { return a > b ? a : b; }
SOAP_DEVICE int64_t Smaller(int64_t a, int64_t b) { return a < b ? a : b; }

struct Place {
  int64_t plane, row, col;
};
SOAP_DEVICE Place PlaceOf(int64_t i, int64_t height, int64_t width) {
  const int64_t line = Quotient(i, width);
  const int64_t plane = Quotient(line, height);
  return {plane, line - plane * height, i - line * width};
}

// Rows and columns [row, row_end) × [col, col_end): of the image, under a window; or of the output,
// whose windows cover a place.
struct Area {
  int64_t row, row_end, col, col_end;
};
SOAP_DEVICE Area Under(const PoolPass& p, const Place& out) {
  const int64_t row = out.row * p.stride_h - p.pad_h;
  const int64_t col = out.col * p.stride_w - p.pad_w;
  return {Larger(row, 0), Smaller(row + p.size_h, p.height), Larger(col, 0),
          Smaller(col + p.size_w, p.width)};
}
// o·stride − pad <= at < o·stride − pad + size
SOAP_DEVICE int64_t FirstWindow(int64_t at, int64_t pad, int64_t size, int64_t stride) {
  const int64_t before = at + pad - size;  // the last place that is before window o: o·stride
  return before < 0 ? 0 : Quotient(before, stride) + 1;
}
SOAP_DEVICE Area Covering(const PoolPass& p, const Place& in) {
  return {FirstWindow(in.row, p.pad_h, p.size_h, p.stride_h),
          Smaller(Quotient(in.row + p.pad_h, p.stride_h) + 1, p.out_height),
          FirstWindow(in.col, p.pad_w, p.size_w, p.stride_w),
          Smaller(Quotient(in.col + p.pad_w, p.stride_w) + 1, p.out_width)};
}

struct MaxPoolElement {
  PoolPass p;
  const float* x;
  float* y;
  int32_t* chosen;
  SOAP_DEVICE void operator()(int64_t i) const {
    const Place out = PlaceOf(i, p.out_height, p.out_width);
    const Area area = Under(p, out);
    const float* plane = x + out.plane * p.height * p.width;
    float largest = -INFINITY;
    int64_t at = area.row * p.width + area.col;
    for (int64_t r = area.row; r < area.row_end; ++r) {
      for (int64_t c = area.col; c < area.col_end; ++c) {
        if (!(plane[r * p.width + c] > largest)) continue;
        largest = plane[r * p.width + c];
        at = r * p.width + c;
      }
    }
    y[i] = largest;
    if (chosen != nullptr) chosen[i] = static_cast<int32_t>(at);
  }
};

struct MaxPoolGradientElement {
  PoolPass p;
  const int32_t* chosen;
  const float* dy;
  float* dx;
  SOAP_DEVICE void operator()(int64_t i) const {
    const Place in = PlaceOf(i, p.height, p.width);
    const Area windows = Covering(p, in);
    const int64_t me = in.row * p.width + in.col;
    float sum = 0;
    for (int64_t r = windows.row; r < windows.row_end; ++r) {
      for (int64_t c = windows.col; c < windows.col_end; ++c) {
        const int64_t o = (in.plane * p.out_height + r) * p.out_width + c;
        if (chosen[o] == me) sum += dy[o];
      }
    }
    dx[i] = sum;
  }
};

SOAP_DEVICE float AverageWeight(const PoolPass& p, const Area& area) {
  const int64_t inside = (area.row_end - area.row) * (area.col_end - area.col);
  return 1.0f / static_cast<float>(p.count_padding ? p.size_h * p.size_w : Larger(inside, 1));
}

struct AveragePoolElement {
  PoolPass p;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const Place out = PlaceOf(i, p.out_height, p.out_width);
    const Area area = Under(p, out);
    const float* plane = x + out.plane * p.height * p.width;
    float sum = 0;
    for (int64_t r = area.row; r < area.row_end; ++r) {
      for (int64_t c = area.col; c < area.col_end; ++c) sum += plane[r * p.width + c];
    }
    y[i] = sum * AverageWeight(p, area);
  }
};

struct AveragePoolGradientElement {
  PoolPass p;
  const float* dy;
  float* dx;
  SOAP_DEVICE void operator()(int64_t i) const {
    const Place in = PlaceOf(i, p.height, p.width);
    const Area windows = Covering(p, in);
    float sum = 0;
    for (int64_t r = windows.row; r < windows.row_end; ++r) {
      for (int64_t c = windows.col; c < windows.col_end; ++c) {
        const float weight = AverageWeight(p, Under(p, {in.plane, r, c}));
        sum += dy[(in.plane * p.out_height + r) * p.out_width + c] * weight;
      }
    }
    dx[i] = sum;
  }
};

// The window around channel c: size/2 before it, (size − 1)/2 behind it.
struct ResponseElement {
  ResponsePass p;
  const float* x;
  float* s;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t inner = p.shape.inner, channels = p.shape.channels;
    const int64_t c = Remainder(Quotient(i, inner), channels);
    const int64_t first = Larger(c - p.size / 2, 0);
    const int64_t end = Smaller(c + (p.size - 1) / 2 + 1, channels);
    float sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const float v = x[i + (k - c) * inner];
      sum += v * v;
    }
    const float scale = p.k + p.alpha / static_cast<float>(p.size) * sum;
    if (s != nullptr) s[i] = scale;
    y[i] = x[i] * powf(scale, -p.beta);
  }
};

// dx_c = dy_c s_c^−β − (2αβ/size) x_c Σ_{c': c in its window} dy_c' x_c' s_c'^(−β−1)
struct ResponseGradientElement {
  ResponsePass p;
  ResponseGradient g;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t inner = p.shape.inner, channels = p.shape.channels;
    const int64_t c = Remainder(Quotient(i, inner), channels);
    const int64_t first = Larger(c - (p.size - 1) / 2, 0);
    const int64_t end = Smaller(c + p.size / 2 + 1, channels);
    float sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const int64_t at = i + (k - c) * inner;
      sum += g.dy[at] * g.x[at] * powf(g.s[at], -p.beta - 1.0f);
    }
    const float factor = 2.0f * p.alpha * p.beta / static_cast<float>(p.size);
    g.dx[i] = g.dy[i] * powf(g.s[i], -p.beta) - factor * g.x[i] * sum;
  }
};

struct SectionElement {
  int64_t width;
  const uint32_t* from;
  int64_t from_stride;
  uint32_t* to;
  int64_t to_stride;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t row = Quotient(i, width);
    const int64_t col = i - row * width;
    to[row * to_stride + col] = from[row * from_stride + col];
  }
};

SOAP_DEVICE int64_t PlaceAt(const StridedIndex& index, int64_t i) {
  int64_t at = 0;
  for (int d = index.dims - 1; d >= 0; --d) {
    const int64_t outer = Quotient(i, index.size[d]);
    at += (i - outer * index.size[d]) * index.stride[d];
    i = outer;
  }
  return at;
}

struct GatherElement {
  StridedIndex at;
  const uint32_t* x;
  uint32_t* y;
  SOAP_DEVICE void operator()(int64_t i) const { y[i] = x[PlaceAt(at, i)]; }
};

struct BroadcastElement {
  StridedIndex at;
  float scale;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const { y[i] = scale * x[PlaceAt(at, i)]; }
};

struct ReduceElement {
  StridedSum sum;
  int64_t count;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const float* from = x + PlaceAt(sum.kept, i);
    float total = 0;
    for (int64_t j = 0; j < count; ++j) total += from[PlaceAt(sum.reduced, j)];
    y[i] = sum.scale * total;
  }
};

// The same by a block of threads.
struct ReduceRow {
  StridedSum sum;
  int64_t count;
  const float* x;
  float* y;
  SOAP_DEVICE void operator()(int64_t r) const {
    const float* from = x + PlaceAt(sum.kept, r);
    float total = 0;
    for (int64_t j = Thread(); j < count; j += kBlockThreads)
      total += from[PlaceAt(sum.reduced, j)];
    total = BlockReduce(total, SumOf());
    if (Thread() == 0) y[r] = sum.scale * total;
  }
};

struct EmbeddingElement {
  EmbeddingPass p;
  const float* weight;
  float* y;
  SOAP_DEVICE void operator()(int64_t i) const {
    const int64_t place = Quotient(i, p.dim);
    const int64_t id = p.ids[place];
    y[i] = id >= 0 && id < p.rows ? weight[id * p.dim + (i - place * p.dim)] : 0.0f;
  }
};

constexpr int kIdsAtOnce = 1024;

// Place r, if it is the first of its id: the sum over all places of that id, in their order. Ids
// are compared kIdsAtOnce at a time by the block's threads, which mark the places of equal ones.
struct EmbeddingGradientRow {
  EmbeddingPass p;
  const float* dy;
  float* dweight;
  SOAP_DEVICE void operator()(int64_t r) const {
    SOAP_SHARED uint32_t equal[kIdsAtOnce / 32];
    const int64_t id = p.ids[r];
    if (id < 0 || id >= p.rows) return;
    for (int64_t begin = 0; begin < p.places; begin += kIdsAtOnce) {
      Barrier();  // the marks before have been read
      for (int w = Thread(); w < kIdsAtOnce / 32; w += kBlockThreads) equal[w] = 0;
      Barrier();
      for (int k = Thread(); k < kIdsAtOnce && begin + k < p.places; k += kBlockThreads) {
        if (p.ids[begin + k] == id) SetBits(&equal[k / 32], 1u << (k % 32));
      }
      Barrier();
      for (int w = 0; w < kIdsAtOnce / 32; ++w) {
        for (uint32_t bits = equal[w]; bits != 0; bits &= bits - 1) {
          const int64_t place = begin + 32 * w + FirstBit(bits);
          if (place < r) return;  // all threads: the sum is another block's
          for (int64_t i = Thread(); i < p.dim; i += kBlockThreads) {
            const float before = place == r ? 0.0f : dweight[id * p.dim + i];
            dweight[id * p.dim + i] = before + dy[place * p.dim + i];
          }
        }
      }
    }
  }
};

struct SliceElement {
  SliceTable table;
  float* flat;
  bool to_flat;
  SOAP_DEVICE void operator()(int64_t i) const {
    int low = 0, high = table.count;  // table.begin[low] <= i < table.begin[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (table.begin[middle] <= i) {
        low = middle;
      } else {
        high = middle;
      }
    }
    float* const one = table.slice[low] + (i - table.begin[low]);
    if (to_flat) {
      flat[i] = *one;
    } else {
      *one = flat[i];
    }
  }
};

}  // namespace

void MaxPoolForward(cudaStream_t stream, const PoolPass& pass, const float* x, float* y,
                    int32_t* chosen) {
  ForEach(stream, pass.planes * pass.out_height * pass.out_width,
          MaxPoolElement{pass, x, y, chosen});
}
void MaxPoolBackward(cudaStream_t stream, const PoolPass& pass, const int32_t* chosen,
                     const float* dy, float* dx) {
  ForEach(stream, pass.planes * pass.height * pass.width,
          MaxPoolGradientElement{pass, chosen, dy, dx});
}
void AveragePoolForward(cudaStream_t stream, const PoolPass& pass, const float* x, float* y) {
  ForEach(stream, pass.planes * pass.out_height * pass.out_width, AveragePoolElement{pass, x, y});
}
void AveragePoolBackward(cudaStream_t stream, const PoolPass& pass, const float* dy, float* dx) {
  ForEach(stream, pass.planes * pass.height * pass.width, AveragePoolGradientElement{pass, dy, dx});
}

void ResponseForward(cudaStream_t stream, const ResponsePass& pass, const float* x, float* s,
                     float* y) {
  ForEach(stream, pass.shape.per_channel() * pass.shape.channels, ResponseElement{pass, x, s, y});
}
void ResponseBackward(cudaStream_t stream, const ResponsePass& pass, const ResponseGradient& g) {
  ForEach(stream, pass.shape.per_channel() * pass.shape.channels, ResponseGradientElement{pass, g});
}

void CopySection(cudaStream_t stream, const SectionCopy& copy) {
  ForEach(stream, copy.rows * copy.width,
          SectionElement{copy.width, static_cast<const uint32_t*>(copy.from), copy.from_stride,
                         static_cast<uint32_t*>(copy.to), copy.to_stride});
}

void GatherStrided(cudaStream_t stream, const StridedIndex& at, const void* x, void* y) {
  ForEach(stream, at.elements(),
          GatherElement{at, static_cast<const uint32_t*>(x), static_cast<uint32_t*>(y)});
}
void BroadcastStrided(cudaStream_t stream, const StridedIndex& at, float scale, const float* x,
                      float* y) {
  ForEach(stream, at.elements(), BroadcastElement{at, scale, x, y});
}
void ReduceStrided(cudaStream_t stream, const StridedSum& sum, const float* x, float* y) {
  const int64_t count = sum.reduced.elements();
  if (count < kBlockThreads / 2) {
    ForEach(stream, sum.kept.elements(), ReduceElement{sum, count, x, y});
  } else {
    ForEachRow(stream, sum.kept.elements(), ReduceRow{sum, count, x, y});
  }
}

void EmbeddingForward(cudaStream_t stream, const EmbeddingPass& pass, const float* weight,
                      float* y) {
  ForEach(stream, pass.places * pass.dim, EmbeddingElement{pass, weight, y});
}
void EmbeddingBackward(cudaStream_t stream, const EmbeddingPass& pass, const float* dy,
                       float* dweight) {
  // Rows without a place are 0; all bits 0 are the float 0.
  const size_t bytes = static_cast<size_t>(pass.rows * pass.dim) * sizeof(float);
  CheckLaunch("cudaMemsetAsync", cudaMemsetAsync(dweight, 0, bytes, stream));
  ForEachRow(stream, pass.places, EmbeddingGradientRow{pass, dy, dweight});
}

void CopySlices(cudaStream_t stream, const SliceTable& table, float* flat, bool to_flat) {
  ForEach(stream, table.begin[table.count], SliceElement{table, flat, to_flat});
}

}  // namespace soapstone::compute
