// Writing past the caches. A store usually fetches the line that it writes to, and takes it away
// from every processor that has read it; where so much is written that no cache keeps it until it
// is read, both are for nothing: a third of the traffic of a copy. Bits do not depend on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/vectors.h"

namespace soapstone {

// Bytes that a pass writes in all, from which on the next reader finds them in memory, not in a
// cache: with what it reads beside them they are more than a last-level cache of 32 MiB.
constexpr size_t kPastCacheMin = size_t{16} << 20;

// to[0, n) = from[0, n), past the caches except for incomplete lines at both ends. Other
// processors may see it only after FencePast().
SOAPSTONE_INTO_CALLER void StorePast(float* to, const float* from, size_t n) {
  size_t i = 0;
#if defined(__SSE2__)
  constexpr size_t kVector = 4, kLine = kCacheLine / sizeof(float);
  const size_t over = reinterpret_cast<uintptr_t>(to) / sizeof(float) % kLine;
  const size_t head = over == 0 ? 0 : std::min(n, kLine - over);
  for (; i < head; ++i) to[i] = from[i];
  for (; i + kLine <= n; i += kLine) {
    for (size_t k = i; k < i + kLine; k += kVector) _mm_stream_ps(to + k, _mm_loadu_ps(from + k));
  }
#endif
  for (; i < n; ++i) to[i] = from[i];
}

// What was stored past the caches comes before whatever is stored from now on.
SOAPSTONE_INTO_CALLER void FencePast() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// to[0, n) = from[0, n), one part of a copy of `whole_bytes`. REQUIRES: no overlap.
inline void CopyPart(float* to, const float* from, size_t n, size_t whole_bytes) {
  if (whole_bytes < kPastCacheMin) {
    if (n > 0) std::memcpy(to, from, n * sizeof(float));
    return;
  }
  StorePast(to, from, n);
  FencePast();
}

}  // namespace soapstone
