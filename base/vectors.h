// Loops compiled for each width of vectors that a machine may have, chosen when the program starts.
// Bits do not depend on the choice: nothing is contracted (-ffp-contract=off), and element-wise
// loops have no order of sums.
#pragma once

#include <cstddef>

// A function with such loops, and one that is to become a part of it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SOAPSTONE_EACH_VECTOR_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#define SOAPSTONE_INTO_CALLER inline __attribute__((always_inline))
#else
#define SOAPSTONE_EACH_VECTOR_WIDTH
#define SOAPSTONE_INTO_CALLER inline
#endif

// Before a loop whose iteration i touches nothing but elements i.
#if defined(__GNUC__) && !defined(__clang__)
#define SOAPSTONE_ELEMENTWISE _Pragma("GCC ivdep")
#else
#define SOAPSTONE_ELEMENTWISE
#endif

namespace soapstone {

constexpr size_t kCacheLine = 64;

// Asks for `bytes` from `at` to be this processor's to write. A store to what another processor has
// read lately must first take it away there, and stores wait for that one after the other; asked
// for beforehand, many are on their way at a time. Changes nothing; a processor that does not know
// it skips it.
SOAPSTONE_INTO_CALLER void AskToWrite(const void* at, size_t bytes) {
#if defined(__x86_64__)
  // Not __builtin_prefetch: without -mprfchw that asks for a copy to read.
  const char* line = static_cast<const char*>(at);
  for (size_t i = 0; i < bytes; i += kCacheLine) asm volatile("prefetchw %0" : : "m"(line[i]));
#else
  const char* line = static_cast<const char*>(at);
  for (size_t i = 0; i < bytes; i += kCacheLine) __builtin_prefetch(line + i, 1);
#endif
}

}  // namespace soapstone
