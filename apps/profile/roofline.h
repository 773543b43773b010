// The two limits of a machine that bound every operator (Williams, Waterman and Patterson,
// "Roofline: an insightful visual performance model", 2009), measured. Called by `soapstone
// profile` and soapstone-bench.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compute/kernel.h"

namespace soapstone::apps {

struct Roofline {
  double gflops = 0;  // of products in the backend's precision, 1e9 a second
  double gbps = 0;    // of main memory, 1e9 bytes a second

  // The shortest time in which so much can be done, in nanoseconds.
  double LeastNs(double flops, double bytes) const {
    const double arithmetic = flops / gflops;
    const double memory = bytes / gbps;
    return arithmetic > memory ? arithmetic : memory;
  }
};

// The best of several: a product of matrices of 1024 x 1024 by the backend's own Linear, in its
// precision; and triad, over arrays that no cache holds. Takes half a second. threads: the
// backend's. Of a device: a product of 8192 x 8192, and its sum of two arrays of 2^26 floats.
absl::StatusOr<Roofline> MeasureRoofline(compute::Backend* backend, int threads);

// a[i] = b[i] + s c[i] for all of `a`, once. REQUIRES three arrays of one size.
void TriadPass(absl::Span<const float> b, absl::Span<const float> c, absl::Span<float> a);

// Bytes read and written a second by STREAM's triad, a[i] = b[i] + s c[i] over floats, arrays of
// `bytes` divided among `threads`, in GB/s: 12 bytes an element. The mean over 0.2 s.
double TriadRate(size_t bytes, int threads = 1);

}  // namespace soapstone::apps
