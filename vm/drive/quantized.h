/* Rows times a matrix that is stored in blocks: y = x w^T + bias (vm/drive/quantized.c). */
#ifndef TS_VM_QUANTIZED_H
#define TS_VM_QUANTIZED_H

#include "vm/core/kernels.h"

typedef struct TsQuantized {
  TsDtype in, out, blocks; /* of x and y, of w */
  int64_t m, n, k;
  const void *x, *w;
  const void *scales; /* of mxfp4 whose codes w are, or NULL: [n, k / 32] */
  const void *bias;   /* f32 (f64 of such x) [n], or NULL */
  void *y;
} TsQuantized;

/* Not 0: out of memory. */
int ts_quantized(const TsQuantized *q, const TsKernels *k);

#endif
