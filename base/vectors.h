// Loops compiled for each width of vectors that a machine may have, chosen when the program starts.
// Bits do not depend on the choice: nothing is contracted (-ffp-contract=off), and element-wise
// loops have no order of sums.
#pragma once

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
