/* Scans along one axis, threaded: plain pointers in and out. What each scan computes
 * stands at TsScanOp. */
#ifndef TS_VM_SCAN_H
#define TS_VM_SCAN_H

#include "lib/dtype.h"
#include "vm/kernels/convert.h"
#include "vm/kernels/copy.h"
#include "vm/kernels/rows/rows.h"

/* The chain runs in f32 for f32 and narrower floats, in f64, or in i64 for integers; y
 * has dtype_y: that type, or a narrower float that each value is rounded to. index, for
 * max only and optional, is laid out as y. */
typedef struct TsScan {
  TsScanOp op;
  TsDtype dtype, dtype_y;
  int nouter;
  const int64_t *outer_dim, *x_stride, *y_stride; /* in elements */
  int64_t n, x_step, y_step;                      /* the axis */
  const void *x;
  void *y;
  int64_t *index;
} TsScan;

void ts_scan(const TsScan *s, const TsRowsKernels *rows, const TsConvertKernels *convert,
             const TsCopyKernels *copy);

#endif
