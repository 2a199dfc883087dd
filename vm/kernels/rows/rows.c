/* The table of row kernels of one instruction set: thin wrappers that give the functions
 * of vm/kernels/rows/math.h one type, and the scans. */
#include "vm/kernels/rows/rows.h"

#include <stddef.h>

#include "vm/kernels/rows/math.h"
#include "vm/kernels/rows/scan.h"

#define MATH(name, t) TS_ISA(ts_rows_math_##name##_##t)

#if defined TS_ISA_avx512
#define WIDE(name, t) name##_##t
#define WRAP_WIDE(t, T)                                                                        \
  static double affine_sum_##t(void *y, const void *x, int64_t n, double mean, double rstd,    \
                               const void *w, const void *b, const void *next,                 \
                               const void *prefetch) {                                         \
    return MATH(affine_sum, t)(y, x, n, (T)mean, (T)rstd, w, b, next, prefetch);               \
  }                                                                                            \
  static double affine_squares_##t(void *y, const void *x, int64_t n, double rstd,             \
                                   const void *w, const void *next, const void *prefetch) {    \
    return MATH(affine_squares, t)(y, x, n, (T)rstd, w, next, prefetch);                       \
  }

WRAP_WIDE(f32, float)
WRAP_WIDE(f64, double)
#else
#define WIDE(name, t) NULL
#endif

#define WRAP(t, T)                                                                             \
  static double max_##t(const void *x, int64_t n) { return MATH(max, t)(x, n); }               \
  static double log_##t(double x) { return MATH(log, t)((T)x); }                               \
  static void logv_##t(void *y, const void *x, int64_t n) { MATH(logv, t)(y, x, n); }          \
  static void exp_##t(void *y, const void *x, int64_t n, double c, const void *prefetch) {     \
    MATH(exp, t)(y, x, n, (T)c, prefetch);                                                     \
  }                                                                                            \
  static double scale_exp_##t(void *y, void *e, const void *x, int64_t n, double r, double c,  \
                              const void *next, const void *prefetch, double *max) {           \
    T most = (T)*max, sum;                                                                     \
    sum = MATH(scale_exp, t)(y, e, x, n, (T)r, (T)c, next, prefetch, &most);                   \
    return *max = most, sum;                                                                   \
  }                                                                                            \
  static double shift_exp_##t(void *y, const void *z, void *e, const void *x, int64_t n,       \
                              double m, double l, double c, const void *next,                  \
                              const void *prefetch, double *max) {                             \
    T most = (T)*max, sum;                                                                     \
    sum = MATH(shift_exp, t)(y, z, e, x, n, (T)m, (T)l, (T)c, next, prefetch, &most);          \
    return *max = most, sum;                                                                   \
  }                                                                                            \
  static void scale_##t(void *y, const void *x, int64_t n, double r, int past) {               \
    MATH(scale, t)(y, x, n, (T)r, past);                                                       \
  }                                                                                            \
  static void shift_##t(void *y, const void *x, int64_t n, double m, double l, int past) {     \
    MATH(shift, t)(y, x, n, (T)m, (T)l, past);                                                 \
  }                                                                                            \
  static void affine_##t(void *y, const void *x, int64_t n, double mean, double rstd,          \
                         const void *w, const void *b, int past, const void *prefetch) {       \
    MATH(affine, t)(y, x, n, (T)mean, (T)rstd, w, b, past, prefetch);                          \
  }                                                                                            \
  static void panel_max_##t(void *e, const void *x, int64_t ldx, int64_t m, int64_t w,         \
                            void *max) {                                                       \
    MATH(panel_max, t)(e, x, ldx, m, w, max);                                                  \
  }                                                                                            \
  static void panel_exp_##t(void *e, int64_t m, int64_t w, const void *c) {                    \
    MATH(panel_exp, t)(e, m, w, c);                                                            \
  }                                                                                            \
  static void panel_scale_##t(void *y, int64_t ldy, const void *e, int64_t m, int64_t w,       \
                              const void *r, int past) {                                       \
    MATH(panel_scale, t)(y, ldy, e, m, w, r, past);                                            \
  }                                                                                            \
  static void panel_shift_##t(void *y, int64_t ldy, const void *e, int64_t m, int64_t w,       \
                              const void *c, const void *l, int past) {                        \
    MATH(panel_shift, t)(y, ldy, e, m, w, c, l, past);                                         \
  }                                                                                            \
  static void fill_##t(TsRowsKernels *k, int i) {                                              \
    k->max[i] = max_##t, k->log[i] = log_##t, k->logv[i] = logv_##t, k->exp[i] = exp_##t;      \
    k->scale[i] = scale_##t, k->scale_exp[i] = scale_exp_##t, k->shift_exp[i] = shift_exp_##t, \
    k->affine_sum[i] = WIDE(affine_sum, t), k->affine_squares[i] = WIDE(affine_squares, t);    \
    k->shift[i] = shift_##t, k->affine[i] = affine_##t;                                        \
    k->panel_max[i] = panel_max_##t, k->panel_exp[i] = panel_exp_##t;                          \
    k->panel_scale[i] = panel_scale_##t, k->panel_shift[i] = panel_shift_##t;                  \
    k->scan[i] = TS_ISA(ts_rows_scan_##t);                                                     \
    k->chains[i] = TS_ISA(ts_rows_chains_##t);                                                 \
  }

WRAP(f32, float)
WRAP(f64, double)

void TS_ISA(ts_kernels_rows)(TsRowsKernels *k) {
  fill_f32(k, 0);
  fill_f64(k, 1);
  k->scan[2] = TS_ISA(ts_rows_scan_i64);
  k->chains[2] = TS_ISA(ts_rows_chains_i64);
}
