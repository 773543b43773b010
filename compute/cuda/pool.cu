// Kernels of pooling. Gradients gather: each element is written by one thread.
#include "compute/cuda/kernels.h"
#include "compute/cuda/launch.h"
#include "compute/cuda/window_bounds.h"

namespace soapstone::compute {
namespace {

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

}  // namespace soapstone::compute
