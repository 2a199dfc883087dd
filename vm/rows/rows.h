/* Softmax and the norms along one axis, threaded: plain pointers in and out. f32
 * statistics for f32 and narrower floats, f64 for f64; sums in the canonical order. */
#ifndef TS_VM_ROWS_H
#define TS_VM_ROWS_H

#include "lib/dtype.h"
#include "vm/kernels/convert.h"
#include "vm/kernels/copy.h"
#include "vm/kernels/rows/reduce.h"
#include "vm/kernels/rows/rows.h"

/* The definitions; every operation is rounded once, sum is the canonical order:
 *   softmax      m = max x; e = exp(x - m); s = sum e; y = e * (1 / s)
 *   log_softmax  y = (x - m) - log(s)
 *   layernorm    u = sum(x) / N; d = x - u; v = sum(d * d) / N; r = 1 / sqrt(v + eps);
 *                y = ((d * r) * w) + b
 *   rmsnorm      q = sum(x * x) / N; r = 1 / sqrt(q + eps); y = (x * r) * w
 * A missing w or b is a missing operation. m may lose a NaN, for the sum then is NaN. */
typedef enum TsRowsOp {
  TS_ROWS_softmax,
  TS_ROWS_log_softmax,
  TS_ROWS_layernorm,
  TS_ROWS_rmsnorm,
} TsRowsOp;

typedef struct TsRows {
  TsRowsOp op;
  TsDtype dtype; /* of x and y: a float, not in blocks */
  int nouter;
  const int64_t *outer_dim, *x_stride, *y_stride; /* in elements */
  int64_t n, x_step, y_step;                      /* the axis */
  const void *x;
  void *y;           /* may be x with x's strides */
  const void *w, *b; /* n values of the statistics' type, or NULL */
  double eps;
} TsRows;

typedef struct TsRowsTables {
  const TsReduceKernels *reduce;
  const TsRowsKernels *rows;
  const TsConvertKernels *convert;
  const TsCopyKernels *copy;
} TsRowsTables;

/* 0, or -1 when there is no memory for scratch. */
int ts_rows(const TsRows *r, const TsRowsTables *t);

#endif
