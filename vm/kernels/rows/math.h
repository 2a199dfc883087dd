/* Elementary functions and last passes over a piece of a row, in vm/kernels/rows/math_f32.c and
 * vm/kernels/rows/math_f64.c: the definitions of lib/elem with loads and stores around them. y == x
 * is allowed. With `past` y goes past the caches; a fence is due after the last one.
 *
 *   exp    y = exp(x - c), c the largest x, touching the n elements at `prefetch` if not null
 *   exp_any  the same for any c
 *   pow    y = |x|^p
 *   log, logv
 *   logadd y[i] = log(exp(a[i]) + exp(x[i])) as max + log1p(exp(min - max))
 *   max    the maximum; NaN may be lost
 *   scale  y = x r
 *   shift  y = (x - m) - l
 *   affine y = ((x - mean) rstd) w[i] + b[i], w and b may be null; touches `prefetch` if past
 *
 * The last pass of a row, past the caches, with passes of the rows behind it; y is aligned, n
 * whole vectors, of a leaf at most; they touch `prefetch`:
 *   scale_exp  y = e r, then e = exp(x - c), and its sum; *max as soon as `next` has more
 *   shift_exp  y = (z - m) - l, e = exp(x - c), and so on
 *   affine_sum, affine_squares  y by affine, and the sum of a leaf of `next`, or of its squares
 *          (then without mean and b); n a multiple of the leaf's lanes; AVX-512 only
 *
 * A panel is w columns of a matrix of m rows, copied to dense rows in e:
 *   panel_max    e = x, and the maxima of the columns
 *   panel_exp    e = exp(e - c[j]), c[j] the largest of its column
 *   panel_scale  y = e r[j]
 *   panel_shift  y = (e - c[j]) - l[j] */
#ifndef TS_VM_KERNELS_ROWS_MATH_H
#define TS_VM_KERNELS_ROWS_MATH_H

#include "vm/kernels/simd/isa.h"

#include <stdint.h>

void TS_ISA(ts_rows_math_exp_f32)(float *y, const float *x, int64_t n, float c,
                                  const float *prefetch);
float TS_ISA(ts_rows_math_scale_exp_f32)(float *y, float *e, const float *x, int64_t n, float r,
                                         float c, const float *next, const float *prefetch,
                                         float *max);
float TS_ISA(ts_rows_math_shift_exp_f32)(float *y, const float *z, float *e, const float *x,
                                         int64_t n, float m, float l, float c,
                                         const float *next, const float *prefetch, float *max);
float TS_ISA(ts_rows_math_affine_sum_f32)(float *y, const float *x, int64_t n, float mean,
                                          float rstd, const float *w, const float *b,
                                          const float *next, const float *prefetch);
float TS_ISA(ts_rows_math_affine_squares_f32)(float *y, const float *x, int64_t n, float rstd,
                                              const float *w, const float *next,
                                              const float *prefetch);
void TS_ISA(ts_rows_math_exp_any_f32)(float *y, const float *x, int64_t n, float c);
void TS_ISA(ts_rows_math_pow_f32)(float *y, const float *x, int64_t n, float p);
float TS_ISA(ts_rows_math_log_f32)(float x);
void TS_ISA(ts_rows_math_logv_f32)(float *y, const float *x, int64_t n);
void TS_ISA(ts_rows_math_logadd_f32)(float *y, const float *a, const float *x, int64_t n);
float TS_ISA(ts_rows_math_max_f32)(const float *x, int64_t n);
void TS_ISA(ts_rows_math_scale_f32)(float *y, const float *x, int64_t n, float r, int past);
void TS_ISA(ts_rows_math_shift_f32)(float *y, const float *x, int64_t n, float m, float l,
                                    int past);
void TS_ISA(ts_rows_math_affine_f32)(float *y, const float *x, int64_t n, float mean,
                                     float rstd, const float *w, const float *b, int past,
                                     const float *prefetch);
void TS_ISA(ts_rows_math_panel_max_f32)(float *e, const float *x, int64_t ldx, int64_t m,
                                        int64_t w, float *max);
void TS_ISA(ts_rows_math_panel_exp_f32)(float *e, int64_t m, int64_t w, const float *c);
void TS_ISA(ts_rows_math_panel_scale_f32)(float *to, int64_t ldy, const float *e, int64_t m,
                                          int64_t w, const float *r, int past);
void TS_ISA(ts_rows_math_panel_shift_f32)(float *to, int64_t ldy, const float *e, int64_t m,
                                          int64_t w, const float *c, const float *l, int past);

void TS_ISA(ts_rows_math_exp_f64)(double *y, const double *x, int64_t n, double c,
                                  const double *prefetch);
double TS_ISA(ts_rows_math_scale_exp_f64)(double *y, double *e, const double *x, int64_t n,
                                          double r, double c, const double *next,
                                          const double *prefetch, double *max);
double TS_ISA(ts_rows_math_shift_exp_f64)(double *y, const double *z, double *e,
                                          const double *x, int64_t n, double m, double l,
                                          double c, const double *next, const double *prefetch,
                                          double *max);
double TS_ISA(ts_rows_math_affine_sum_f64)(double *y, const double *x, int64_t n, double mean,
                                           double rstd, const double *w, const double *b,
                                           const double *next, const double *prefetch);
double TS_ISA(ts_rows_math_affine_squares_f64)(double *y, const double *x, int64_t n,
                                               double rstd, const double *w, const double *next,
                                               const double *prefetch);
void TS_ISA(ts_rows_math_exp_any_f64)(double *y, const double *x, int64_t n, double c);
void TS_ISA(ts_rows_math_pow_f64)(double *y, const double *x, int64_t n, double p);
double TS_ISA(ts_rows_math_log_f64)(double x);
void TS_ISA(ts_rows_math_logv_f64)(double *y, const double *x, int64_t n);
void TS_ISA(ts_rows_math_logadd_f64)(double *y, const double *a, const double *x, int64_t n);
double TS_ISA(ts_rows_math_max_f64)(const double *x, int64_t n);
void TS_ISA(ts_rows_math_scale_f64)(double *y, const double *x, int64_t n, double r, int past);
void TS_ISA(ts_rows_math_shift_f64)(double *y, const double *x, int64_t n, double m, double l,
                                    int past);
void TS_ISA(ts_rows_math_affine_f64)(double *y, const double *x, int64_t n, double mean,
                                     double rstd, const double *w, const double *b, int past,
                                     const double *prefetch);
void TS_ISA(ts_rows_math_panel_max_f64)(double *e, const double *x, int64_t ldx, int64_t m,
                                        int64_t w, double *max);
void TS_ISA(ts_rows_math_panel_exp_f64)(double *e, int64_t m, int64_t w, const double *c);
void TS_ISA(ts_rows_math_panel_scale_f64)(double *to, int64_t ldy, const double *e, int64_t m,
                                          int64_t w, const double *r, int past);
void TS_ISA(ts_rows_math_panel_shift_f64)(double *to, int64_t ldy, const double *e, int64_t m,
                                          int64_t w, const double *c, const double *l,
                                          int past);

#endif
