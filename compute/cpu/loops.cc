#include "compute/cpu/loops.h"

#include <algorithm>
#include <cstring>

#include "base/vectors.h"

namespace soapstone::compute {
namespace {

// Below this many elements a second thread costs more than it gains.
constexpr int64_t kElementGrain = 1 << 14;
// Elements that stay in the first cache while several inputs are added.
constexpr int64_t kAddPiece = 2048;

SOAPSTONE_EACH_VECTOR_WIDTH void ReluPart(const float* x, float* y, int64_t n) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0.0f;
}

SOAPSTONE_EACH_VECTOR_WIDTH void MaskPart(const float* y, const float* dy, float* dx, int64_t n) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) {
    const float d = dy[i];  // read always: a masked load costs more
    dx[i] = y[i] > 0 ? d : 0.0f;
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void SumPart(const float* a, const float* b, float* y, int64_t n) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] + b[i];
}

SOAPSTONE_EACH_VECTOR_WIDTH void SumReluPart(const float* a, const float* b, float* y, int64_t n) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) {
    const float sum = a[i] + b[i];
    y[i] = sum > 0 ? sum : 0.0f;
  }
}

SOAPSTONE_EACH_VECTOR_WIDTH void ProductPart(const float* a, const float* b, float* y, int64_t n) {
  SOAPSTONE_ELEMENTWISE
  for (int64_t i = 0; i < n; ++i) y[i] = a[i] * b[i];
}

void AddPart(absl::Span<const float* const> x, bool relu, float* y, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kAddPiece) {
    const int64_t n = std::min(kAddPiece, end - i);
    if (x.size() == 1) {
      if (relu) {
        ReluPart(x[0] + i, y + i, n);
      } else if (x[0] != y) {
        std::memcpy(y + i, x[0] + i, static_cast<size_t>(n) * sizeof(float));
      }
    }
    for (size_t k = 1; k < x.size(); ++k) {
      const float* sum = k == 1 ? x[0] : y;
      if (relu && k + 1 == x.size()) {
        SumReluPart(sum + i, x[k] + i, y + i, n);
      } else {
        SumPart(sum + i, x[k] + i, y + i, n);
      }
    }
  }
}

}  // namespace

void ReluForward(const CpuContext& context, const float* x, float* y, int64_t n) {
  ParallelFor(context, n, kElementGrain,
              [=](int64_t begin, int64_t end) { ReluPart(x + begin, y + begin, end - begin); });
}

void ReluBackward(const CpuContext& context, const float* y, const float* dy, float* dx,
                  int64_t n) {
  ParallelFor(context, n, kElementGrain, [=](int64_t begin, int64_t end) {
    MaskPart(y + begin, dy + begin, dx + begin, end - begin);
  });
}

void AddForward(const CpuContext& context, absl::Span<const float* const> x, bool relu, float* y,
                int64_t n) {
  ParallelFor(context, n, kElementGrain,
              [=](int64_t begin, int64_t end) { AddPart(x, relu, y, begin, end); });
}

void MultiplyForward(const CpuContext& context, const float* a, const float* b, float* y,
                     int64_t n) {
  ParallelFor(context, n, kElementGrain, [=](int64_t begin, int64_t end) {
    ProductPart(a + begin, b + begin, y + begin, end - begin);
  });
}

void CopyPieces(const CpuContext& context, const StridedCopy& copy) {
  const int64_t grain = kElementGrain / std::max<int64_t>(copy.length, 1) + 1;
  ParallelFor(context, copy.pieces, grain, [&copy](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(copy.to + i * copy.to_stride, copy.from + i * copy.from_stride,
                  static_cast<size_t>(copy.length) * sizeof(float));
    }
  });
}

}  // namespace soapstone::compute
