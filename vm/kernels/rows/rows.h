/* Passes over one row (or over one piece of a row of columns) for vm/rows/rows.c, and the
 * scans of vm/drive/scan.c. Index [0] is f32, [1] is f64; scalars travel as double, which
 * holds both. What each pass computes: vm/kernels/rows/math.h. */
#ifndef TS_VM_KERNELS_ROWS_H
#define TS_VM_KERNELS_ROWS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum TsScanOp {
  TS_SCAN_sum,       /* acc = acc + x[i], i ascending, from acc = x[0] */
  TS_SCAN_prod,      /* acc = acc * x[i] */
  TS_SCAN_max,       /* x[i] where it is larger than all before; NaN is largest, -0 == +0 */
  TS_SCAN_logsumexp, /* acc = max + log1p(exp(min - max)) of acc and x[i]; floats only */
} TsScanOp;

/* m rows of n chains: acc[j] takes x[i*ldx + j] and goes to y[i*ldy + j], and for max
 * index[j], the first index of the maximum, to yi[i*ldy + j]. Row 0 has index `base`;
 * if that is 0 acc and index begin there. f32, f64 or i64. */
typedef struct TsScanArgs {
  int op;
  void *acc;
  int64_t *index;
  const void *x;
  void *y;
  int64_t *yi;
  int64_t m, n, ldx, ldy, base;
} TsScanArgs;

enum { TS_SCAN_CHAINS = 8 };

typedef struct TsRowsKernels {
  double (*max[2])(const void *x, int64_t n);
  double (*log[2])(double x);
  void (*logv[2])(void *y, const void *x, int64_t n);
  void (*exp[2])(void *y, const void *x, int64_t n, double c, const void *prefetch);
  double (*scale_exp[2])(void *y, void *e, const void *x, int64_t n, double r, double c,
                         const void *next, const void *prefetch, double *max);
  double (*shift_exp[2])(void *y, const void *z, void *e, const void *x, int64_t n, double m,
                         double l, double c, const void *next, const void *prefetch,
                         double *max);
  void (*scale[2])(void *y, const void *x, int64_t n, double r, int past);
  void (*shift[2])(void *y, const void *x, int64_t n, double m, double l, int past);
  void (*affine[2])(void *y, const void *x, int64_t n, double mean, double rstd, const void *w,
                    const void *b, int past, const void *prefetch);
  /* NULL where the vectors are too narrow for them */
  double (*affine_sum[2])(void *y, const void *x, int64_t n, double mean, double rstd,
                          const void *w, const void *b, const void *next, const void *prefetch);
  double (*affine_squares[2])(void *y, const void *x, int64_t n, double rstd, const void *w,
                              const void *next, const void *prefetch);
  void (*panel_max[2])(void *e, const void *x, int64_t ldx, int64_t m, int64_t w, void *max);
  void (*panel_exp[2])(void *e, int64_t m, int64_t w, const void *c);
  void (*panel_scale[2])(void *y, int64_t ldy, const void *e, int64_t m, int64_t w,
                         const void *r, int past);
  void (*panel_shift[2])(void *y, int64_t ldy, const void *e, int64_t m, int64_t w,
                         const void *c, const void *l, int past);
  void (*scan[3])(const TsScanArgs *a); /* f32, f64, i64 */
  /* cumsum or cumprod of chains that lie along memory, x + i * ldx each: so many that the
   * processor works on one while it waits for another. fresh: they begin here, else they go
   * on from what lies before y. */
  void (*chains[3])(bool product, bool fresh, int n, int64_t m, const void *x, int64_t ldx,
                    void *y, int64_t ldy);
} TsRowsKernels;

void ts_kernels_rows_avx512(TsRowsKernels *k);
void ts_kernels_rows_avx2(TsRowsKernels *k);
void ts_kernels_rows_base(TsRowsKernels *k);

#endif
