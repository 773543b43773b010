// Kernels of movement: sections, transposition, reduction, slices. Gradients gather: each element
// is written by one thread.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"

namespace soapstone::compute {
namespace {

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

void CopySlices(cudaStream_t stream, const SliceTable& table, float* flat, bool to_flat) {
  ForEach(stream, table.begin[table.count], SliceElement{table, flat, to_flat});
}

}  // namespace soapstone::compute
