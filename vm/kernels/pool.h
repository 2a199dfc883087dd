/* Rows of pools and of resampling. */
#ifndef TS_VM_KERNELS_POOL_H
#define TS_VM_KERNELS_POOL_H

#include <stdint.h>

#include "lib/dtype.h"

typedef struct TsPoolKernels {
  /* acc[i] = the larger of acc[i] and x[i*step]; a NaN is larger than all. Integers,
   * f32, f64; NULL for the other types. */
  void (*max[TS_DT_COUNT])(void *acc, const void *x, int64_t n, int64_t step);
  /* The same of x[i], with tap[i], which becomes number where x[i] is larger; -1: none yet. */
  void (*index_max[TS_DT_COUNT])(void *acc, int32_t *tap, const void *x, int64_t n,
                                 int32_t number);
  /* acc[i] += x[i*step]; f32, f64. */
  void (*add[2])(void *acc, const void *x, int64_t n, int64_t step);
  /* y[i] = w[i] x[at[i]], then fma(w[t*n + i], x[at[t*n + i]], y[i]) for t in 1..taps-1;
   * x[at[i]] itself for one tap. */
  void (*resample[2])(void *y, const void *x, int64_t n, int taps, const int64_t *at,
                      const void *w);
  /* The transpose, sorted by element of x: x[i] = the chain of fma(w[e], g[at[e]], x) from
   * +0 for e in first[i]..first[i + 1]-1. */
  void (*collect[2])(void *x, const void *g, int64_t n, const int64_t *first, const int64_t *at,
                     const void *w);
} TsPoolKernels;

void ts_kernels_pool_avx512(TsPoolKernels *k);
void ts_kernels_pool_avx2(TsPoolKernels *k);
void ts_kernels_pool_base(TsPoolKernels *k);

#endif
