/* Rows of pools and of resampling: plain loops that compilers vectorise. */
#include "vm/kernels/pool.h"
#include "vm/kernels/simd/isa.h"

#include <stdbool.h>
#include <string.h>

/* Steps of 1 and 2 are vectors. */
#define ROW(expr)                                                                              \
  if (step == 1) {                                                                             \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const int64_t at = i;                                                                    \
      expr;                                                                                    \
    }                                                                                          \
  } else if (step == 2) {                                                                      \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const int64_t at = 2 * i;                                                                \
      expr;                                                                                    \
    }                                                                                          \
  } else {                                                                                     \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const int64_t at = i * step;                                                             \
      expr;                                                                                    \
    }                                                                                          \
  }

/* Places of the largest: chosen by bits, as branches would be guessed. */
#define MAX(t, T, BITS)                                                                        \
  static void max_##t(void *ap, const void *xp, int64_t n, int64_t step) {                     \
    T *restrict a = ap;                                                                        \
    const T *restrict x = xp;                                                                  \
    ROW(a[i] = x[at] > a[i] || x[at] != x[at] ? x[at] : a[i])                                  \
  }                                                                                            \
  static void index_max_##t(void *ap, int32_t *tap, const void *xp, int64_t n,                 \
                            int32_t number) {                                                  \
    T *restrict a = ap;                                                                        \
    int32_t *restrict to = tap;                                                                \
    const T *restrict x = xp;                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const int larger = (!(x[i] <= a[i]) & (a[i] == a[i])) | (to[i] < 0);                     \
      const BITS wide = (BITS) - (BITS)larger;                                                 \
      const int32_t narrow = -larger;                                                          \
      BITS was, is;                                                                            \
      memcpy(&was, a + i, sizeof was);                                                         \
      memcpy(&is, x + i, sizeof is);                                                           \
      was = (BITS)((was & ~wide) | (is & wide));                                               \
      memcpy(a + i, &was, sizeof was);                                                         \
      to[i] = (to[i] & ~narrow) | (number & narrow);                                           \
    }                                                                                          \
  }

MAX(u8, uint8_t, uint8_t)
MAX(i8, int8_t, uint8_t)
MAX(i16, int16_t, uint16_t)
MAX(i32, int32_t, uint32_t)
MAX(i64, int64_t, uint64_t)
MAX(f32, float, uint32_t)
MAX(f64, double, uint64_t)

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
