/* A test that does not run something here says so by a line of its own, which scripts/check.lua
 * lists: "skipped: " and what is missing, or what is not run for want of it. */
#ifndef TESTS_SKIP_H
#define TESTS_SKIP_H

#include <stdio.h>

/* Gives what main returns if that was all. */
static inline int skip(const char *why) { return printf("skipped: %s\n", why), 0; }

/* Of the instruction sets that kernels of the CPU are built for, those that it lacks. */
static inline void skip_isas(void) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    skip("this CPU has no AVX2");
  if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl"))
    skip("this CPU has no AVX-512");
}

#endif
