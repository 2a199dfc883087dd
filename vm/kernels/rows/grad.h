/* What the gradients of softmax, norms and losses do with rows. Index [0] is f32, [1] is
 * f64, and numbers are of that type. Every operation is rounded once, sums are in the
 * canonical order of a leaf. */
#ifndef TS_VM_KERNELS_ROWS_GRAD_H
#define TS_VM_KERNELS_ROWS_GRAD_H

#include <stdint.h>

enum { TS_GRAD_ROWS = 16 };

/* One sum of n <= 4096 terms for each of some rows, at most TS_GRAD_ROWS, to out[row].
 * Rows are independent, so that the processor overlaps them. The terms are
 *   sum x; square x^2; sqdev (x - mean[row])^2; dot x g;
 *   norm (g w) (x - mean[row]), without w g, without mean x
 *   norms norm; to squares sqdev, or square without mean; with mean, to gw g w */
typedef struct TsRowSums {
  int rows;
  int64_t n;
  const void *const *x;
  const void *const *g;
  const void *const *prefetch; /* of sum, dot, norms: rows to fetch; of norms some NULL */
  const void *w, *mean;
  void *out, *gw, *squares;
} TsRowSums;

typedef void TsRowSumFn(const TsRowSums *a);

/* The end of a row of layernorm or rmsnorm, with xc = x - mean, or x without mean, and
 * gw = g w, or g:
 *   dx = fma(-xc, c2, gw - c1) rstd              (without mean: no c1)
 *   dw = fma(g xc, rstd, dw), db = db + g        (the first row of a chain: from -0)
 * dx may be x or g. */
typedef struct TsNormEnd {
  void *dx;
  const void *x, *g, *w;
  int64_t n;
  const void *mean, *rstd, *c1, *c2; /* one number each */
  void *dw, *db;                     /* or NULL */
  const void *prefetch[3];           /* rows to fetch meanwhile: of g, dx, x; or NULL */
  int first;
  int past; /* dx goes past the caches: whole lines; ts_copy_fence() follows the last one */
} TsNormEnd;

/* Rows of a norm on their way, in one walk over them: the end of the oldest, what `norms` gives of
 * the one behind it, and where a mean is taken the sum of the newest. n elements are whole
 * vectors, and a leaf at most; dx goes past the caches. dw is there where w is, db only with a
 * mean. */
typedef struct TsNormWalk {
  TsNormEnd end;       /* its `prefetch` does not count */
  const void *nothing; /* n numbers -0 where dw and db are the first of a chain */
  const void *x, *g, *mean;
  const void *newest; /* NULL: no mean is taken, and x is the newest */
  void *norm, *gw, *square, *sum;
  /* rows of x and g: what comes behind the newest of each, and what does some rows later */
  const void *next[2], *far[2];
} TsNormWalk;

/* All of a norm's gradient, of rows that lie `step` elements apart and add to the same dw and db,
 * one by one: rows are whole vectors, more than 8 registers of them and a leaf at most; dx goes
 * past the caches. dw is there where w is, db only with a mean. */
typedef struct TsNormLane {
  const void *x, *g, *w;
  void *dx, *dw, *db;
  int64_t n, rows, step;
  double eps;
  const void *nothing;         /* n numbers -0: what the sums start from */
  const void *then_x, *then_g; /* what is read behind them, then_rows rows at the same step */
  int64_t then_rows;
  int far; /* rows on, the last one that is asked for; 1: rows are long */
  int centered;
} TsNormLane;

/* The end of a row of a gradient of softmax or log_softmax, s the row's sum, past the caches:
 * whole lines, dx is neither y nor g, ts_copy_fence() follows the last one. */
typedef struct TsSoftPast {
  void *dx;
  const void *y, *g;
  int64_t n;
  double s;
  const void *prefetch[2]; /* n elements to fetch meanwhile, of y and of g or NULL */
} TsSoftPast;

typedef struct TsRowsGradKernels {
  int vector_bytes;
  TsRowSumFn *sum[2], *square[2], *sqdev[2], *dot[2], *norm[2], *norms[2];
  void (*softmax[2])(void *dx, const void *y, const void *g, int64_t n, double s);
  void (*log_softmax[2])(void *dx, const void *y, const void *g, int64_t n, double s);
  void (*softmax_past[2])(const TsSoftPast *a), (*log_softmax_past[2])(const TsSoftPast *a);
  void (*norm_end[2])(const TsNormEnd *a);
  void (*norm_walk[2])(const TsNormWalk *a);
  void (*norm_lane[2])(const TsNormLane *a);
  /* exp(x - c), c the largest x; y may be x */
  void (*exp[2])(void *y, const void *x, int64_t n, double c);
  /* dx = ((e r) t - p[i]) g, or ((e r) - p) g where the list is NULL; dx may be e */
  void (*cross_entropy[2])(void *dx, const void *e, int64_t n, double r, double p,
                           const void *list, double t, double g);
  void (*add[2])(void *y, const void *x, int64_t n); /* y = y + x */
} TsRowsGradKernels;

void ts_kernels_rows_grad_avx512(TsRowsGradKernels *k);
void ts_kernels_rows_grad_avx2(TsRowsGradKernels *k);
void ts_kernels_rows_grad_base(TsRowsGradKernels *k);

/* The halves of the table, each in a file of its own. */
void ts_rows_grad_fill_f32_avx512(TsRowsGradKernels *k);
void ts_rows_grad_fill_f32_avx2(TsRowsGradKernels *k);
void ts_rows_grad_fill_f32_base(TsRowsGradKernels *k);
void ts_rows_grad_fill_f64_avx512(TsRowsGradKernels *k);
void ts_rows_grad_fill_f64_avx2(TsRowsGradKernels *k);
void ts_rows_grad_fill_f64_base(TsRowsGradKernels *k);

#endif
