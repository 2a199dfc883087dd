/* What the two ways of products of bf16 in the profile "fast" share: the end of a block of sums.
 * Not for others; they use vm/gemm/pairs.h. */
#ifndef TS_VM_GEMM_PAIRS_JOB_H
#define TS_VM_GEMM_PAIRS_JOB_H

#include "vm/gemm/job.h"
#include "vm/core/kernels.h"

/* Where a round's part of C begins. */
typedef struct GemmPairsEnd {
  const TsGemm *g;
  const TsKernels *k;
  int64_t batch, m0, n0;
} GemmPairsEnd;

static inline int64_t gemm_offset(const int64_t *of_batch, int64_t batch) {
  return of_batch ? of_batch[batch] : 0;
}

/* Where a tile's sums may go as they are, rounded to bf16, without ts_gemm_pairs_end; or NULL. */
void *ts_gemm_pairs_place(const GemmPairsEnd *e, int64_t row, int64_t col, int64_t cols);

/* The sums of the round's rows [row, row + rows) and columns [col, col + cols) are done: callback,
 * rounding and store; ld numbers between rows of sums. */
void ts_gemm_pairs_end(const GemmPairsEnd *e, int64_t row, int64_t rows, int64_t col,
                       int64_t cols, float *sums, int64_t ld);

/* Asks the caches for the lines of C where these end, which are few and far apart. */
void ts_gemm_pairs_ask(const GemmPairsEnd *e, int64_t row, int64_t rows, int64_t col,
                       int64_t cols);

/* As ts_gemm_pairs, on a processor that has the unit. */
int ts_gemm_amx(const TsGemm *g, const TsKernels *k);

#endif
