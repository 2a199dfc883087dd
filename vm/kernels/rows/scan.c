/* Scans: chains side by side, one element of each at a time, so that the loops over the
 * chains vectorise. vm/drive/scan.c turns rows round to get there. */
#include "vm/kernels/rows/scan.h"
#include "vm/kernels/rows/math.h"

#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* Integers wrap: their arithmetic is that of the unsigned type U. */
#define SCAN(t, T, U)                                                                          \
  INLINE int above_##t(T x, T m) { return x > m || (x != x && m == m); }                       \
  static void one_sum_##t(T *acc, const T *x, T *y, int64_t m) {                               \
    T s = *acc;                                                                                \
    for (int64_t i = 0; i < m; i++) y[i] = s = (T)((U)s + (U)x[i]);                            \
    *acc = s;                                                                                  \
  }                                                                                            \
  static void row_sum_##t(T *acc, const T *x, T *y, int64_t n) {                               \
    for (int64_t j = 0; j < n; j++) y[j] = acc[j] = (T)((U)acc[j] + (U)x[j]);                  \
  }                                                                                            \
  static void row_prod_##t(T *acc, const T *x, T *y, int64_t n) {                              \
    for (int64_t j = 0; j < n; j++) y[j] = acc[j] = (T)((U)acc[j] * (U)x[j]);                  \
  }                                                                                            \
  static void row_max_##t(T *acc, int64_t *at, const T *x, T *y, int64_t *yi, int64_t i,       \
                          int64_t n) {                                                         \
    for (int64_t j = 0; j < n; j++) {                                                          \
      int up = above_##t(x[j], acc[j]);                                                        \
      at[j] = up ? i : at[j];                                                                  \
      y[j] = acc[j] = up ? x[j] : acc[j];                                                      \
    }                                                                                          \
    if (yi) memcpy(yi, at, (size_t)n * sizeof *at);                                            \
  }                                                                                            \
  void TS_ISA(ts_rows_scan_##t)(const TsScanArgs *a) {                                         \
    const T *x = a->x;                                                                         \
    T *y = a->y, *acc = a->acc;                                                                \
    int64_t *yi = a->yi, n = a->n, i = 0;                                                      \
    if (a->base == 0 && a->m > 0) {                                                            \
      memcpy(acc, x, (size_t)n * sizeof *x);                                                   \
      memcpy(y, x, (size_t)n * sizeof *x);                                                     \
      if (a->op == TS_SCAN_max) memset(a->index, 0, (size_t)n * sizeof *a->index);             \
      if (a->op == TS_SCAN_max && yi) memset(yi, 0, (size_t)n * sizeof *yi);                   \
      i = 1;                                                                                   \
    }                                                                                          \
    if (a->op == TS_SCAN_sum && n == 1 && a->ldx == 1 && a->ldy == 1) {                        \
      one_sum_##t(acc, x + i, y + i, a->m - i);                                                \
      return;                                                                                  \
    }                                                                                          \
    for (; i < a->m; i++) {                                                                    \
      const T *xi = x + i * a->ldx;                                                            \
      T *to = y + i * a->ldy;                                                                  \
      if (a->op == TS_SCAN_sum)                                                                \
        row_sum_##t(acc, xi, to, n);                                                           \
      else if (a->op == TS_SCAN_prod)                                                          \
        row_prod_##t(acc, xi, to, n);                                                          \
      else if (a->op == TS_SCAN_max)                                                           \
        row_max_##t(acc, a->index, xi, to, yi ? yi + i * a->ldy : 0, a->base + i, n);          \
      else {                                                                                   \
        LOGADD_##t(acc, acc, xi, n);                                                           \
        memcpy(to, acc, (size_t)n * sizeof *acc);                                              \
      }                                                                                        \
    }                                                                                          \
  }

/* The chains' last numbers stay in registers. */
#define CHAINS(t, T, U)                                                                        \
  INLINE void chains_##t(bool product, bool fresh, int n, int64_t m, const T *x, int64_t ldx,  \
                         T *y, int64_t ldy) {                                                  \
    T s[TS_SCAN_CHAINS];                                                                       \
    for (int c = 0; c < n; c++) s[c] = fresh ? x[c * ldx] : y[c * ldy - 1];                    \
    for (int c = 0; c < n && fresh; c++) y[c * ldy] = s[c];                                    \
    for (int64_t i = fresh; i < m; i++) _Pragma("GCC unroll 8") for (int c = 0; c < n; c++) {  \
        U v = (U)x[c * ldx + i];                                                               \
        y[c * ldy + i] = s[c] = (T)(product ? (U)s[c] * v : (U)s[c] + v);                      \
      }                                                                                        \
  }                                                                                            \
  void TS_ISA(ts_rows_chains_##t)(bool product, bool fresh, int n, int64_t m, const void *x,   \
                                  int64_t ldx, void *y, int64_t ldy) {                         \
    if (n == TS_SCAN_CHAINS && !product)                                                       \
      return chains_##t(false, fresh, TS_SCAN_CHAINS, m, x, ldx, y, ldy);                      \
    if (n == TS_SCAN_CHAINS)                                                                   \
      return chains_##t(true, fresh, TS_SCAN_CHAINS, m, x, ldx, y, ldy);                       \
    for (int c = 0; c < n; c++) {                                                              \
      const T *xc = (const T *)x + c * ldx;                                                    \
      T *yc = (T *)y + c * ldy;                                                                \
      if (product)                                                                             \
        chains_##t(true, fresh, 1, m, xc, 0, yc, 0);                                           \
      else                                                                                     \
        chains_##t(false, fresh, 1, m, xc, 0, yc, 0);                                          \
    }                                                                                          \
  }
CHAINS(f32, float, float)
CHAINS(f64, double, double)
CHAINS(i64, int64_t, uint64_t)

#define LOGADD_f32             TS_ISA(ts_rows_math_logadd_f32)
#define LOGADD_f64             TS_ISA(ts_rows_math_logadd_f64)
#define LOGADD_i64(y, a, x, n) ((void)0)

SCAN(f32, float, float)
SCAN(f64, double, double)
SCAN(i64, int64_t, uint64_t)
