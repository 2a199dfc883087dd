/* Rows of pools and of resampling: plain loops that compilers vectorise. */
#include "vm/kernels/pool.h"
#include "vm/kernels/simd/isa.h"

#include <stdbool.h>
#include <string.h>

#define ROW(expr)                                                                              \
  if (step == 1) {                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const int64_t at = i;                                                                    \
      expr;                                                                                    \
    }                                                                                          \
  } else {                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const int64_t at = i * step;                                                             \
      expr;                                                                                    \
    }                                                                                          \
  }

#define MAX(t, T)                                                                              \
  static void max_##t(void *ap, const void *xp, int64_t n, int64_t step) {                     \
    T *restrict a = ap;                                                                        \
    const T *restrict x = xp;                                                                  \
    ROW(a[i] = x[at] > a[i] || x[at] != x[at] ? x[at] : a[i])                                  \
  }                                                                                            \
  static void index_max_##t(void *ap, int64_t *place, const void *xp, int64_t n, int64_t step, \
                            int64_t first, int64_t next) {                                     \
    T *restrict a = ap;                                                                        \
    int64_t *restrict to = place;                                                              \
    const T *restrict x = xp;                                                                  \
    ROW(bool larger = (x[at] > a[i]) | (to[i] < 0) | ((x[at] != x[at]) & (a[i] == a[i]));      \
        a[i] = larger ? x[at] : a[i]; to[i] = larger ? first + i * next : to[i])               \
  }

MAX(u8, uint8_t)
MAX(i8, int8_t)
MAX(i16, int16_t)
MAX(i32, int32_t)
MAX(i64, int64_t)
MAX(f32, float)
MAX(f64, double)

#define SUMS(t, T, FMA)                                                                        \
  static void add_##t(void *ap, const void *xp, int64_t n, int64_t step) {                     \
    T *restrict a = ap;                                                                        \
    const T *restrict x = xp;                                                                  \
    ROW(a[i] += x[at])                                                                         \
  }                                                                                            \
  static void resample_##t(void *yp, const void *xp, int64_t n, int taps, const int64_t *at,   \
                           const void *wp) {                                                   \
    T *restrict y = yp;                                                                        \
    const T *restrict x = xp, *restrict w = wp;                                                \
    if (taps == 1) {                                                                           \
      for (int64_t i = 0; i < n; i++) y[i] = x[at[i]];                                         \
      return;                                                                                  \
    }                                                                                          \
    for (int64_t i = 0; i < n; i++) y[i] = w[i] * x[at[i]];                                    \
    for (int t = 1; t < taps; t++) {                                                           \
      at += n, w += n;                                                                         \
      for (int64_t i = 0; i < n; i++) y[i] = FMA(w[i], x[at[i]], y[i]);                        \
    }                                                                                          \
  }                                                                                            \
  static void collect_##t(void *xp, const void *gp, int64_t n, const int64_t *first,           \
                          const int64_t *at, const void *wp) {                                 \
    T *restrict x = xp;                                                                        \
    const T *restrict g = gp, *restrict w = wp;                                                \
    for (int64_t i = 0; i < n; i++) {                                                          \
      T sum = 0;                                                                               \
      for (int64_t e = first[i]; e < first[i + 1]; e++) sum = FMA(w[e], g[at[e]], sum);        \
      x[i] = sum;                                                                              \
    }                                                                                          \
  }

SUMS(f32, float, __builtin_fmaf)
SUMS(f64, double, __builtin_fma)

void TS_ISA(ts_kernels_pool)(TsPoolKernels *k) {
  memset(k, 0, sizeof *k);
  k->max[TS_DT_u8] = max_u8, k->max[TS_DT_i8] = max_i8, k->max[TS_DT_i16] = max_i16;
  k->max[TS_DT_i32] = max_i32, k->max[TS_DT_i64] = max_i64;
  k->max[TS_DT_f32] = max_f32, k->max[TS_DT_f64] = max_f64;
  k->index_max[TS_DT_u8] = index_max_u8, k->index_max[TS_DT_i8] = index_max_i8;
  k->index_max[TS_DT_i16] = index_max_i16, k->index_max[TS_DT_i32] = index_max_i32;
  k->index_max[TS_DT_i64] = index_max_i64;
  k->index_max[TS_DT_f32] = index_max_f32, k->index_max[TS_DT_f64] = index_max_f64;
  k->add[0] = add_f32, k->add[1] = add_f64;
  k->resample[0] = resample_f32, k->resample[1] = resample_f64;
  k->collect[0] = collect_f32, k->collect[1] = collect_f64;
}
