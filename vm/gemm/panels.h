/* A matrix that is packed once, for many products with a few rows each, such as those of a
 * recurrence's steps. The chains are those of vm/gemm/gemm.h. */
#ifndef TS_VM_GEMM_PANELS_H
#define TS_VM_GEMM_PANELS_H

#include <stdint.h>

#include "vm/gemm/gemm.h"

typedef struct TsPanels {
  const TsGemmAcc *acc;
  int64_t n, k;  /* columns, rows */
  int64_t count; /* panels, of acc->round_nr columns each but the last */
  int64_t step;  /* bytes of one */
  char *at;
} TsPanels;

/* Of b[k][n] in f32 or f64, strides in elements. -1: no memory. */
int ts_panels_open(TsPanels *p, TsGemmType type, const TsGemmKernels *k, int64_t rows,
                   int64_t columns, const void *b, int64_t b_rs, int64_t b_cs);
void ts_panels_close(TsPanels *p); /* one that is zero, too */

/* c[i * c_rs + j] of a b, for i < rows and the columns of panels lo .. hi - 1. a[i * a_rs + k].
 * By the calling thread alone. */
void ts_panels_multiply(const TsPanels *p, int64_t rows, const void *a, int64_t a_rs, void *c,
                        int64_t c_rs, int64_t lo, int64_t hi);

#endif
