/* Products of a few rows with a matrix that is stored in blocks, row by row as it lies: a lane of a vector has a row of
 * the matrix. */
#ifndef TS_VM_KERNELS_BLOCKS_DOT_H
#define TS_VM_KERNELS_BLOCKS_DOT_H

#include "lib/dtype.h"

enum { TS_BLOCKS_DOT_ROWS = 4 }; /* of x, at most */

/* y[i][j] = the chain acc = fma(x[i][k], w[j][k], acc) in increasing k from 0, for i < m, j < n. Rows of w are
 * row_nbytes apart, those of x and y x_step and y_step elements; n vectors' lanes at most is fastest. */
typedef void TsBlocksDotFn(const void *w, int64_t row_nbytes, int64_t n, int64_t k, int m,
                           const float *x, int64_t x_step, float *y, int64_t y_step);

typedef struct TsBlocksDotKernels {
  int lanes;                       /* rows of w at a time */
  TsBlocksDotFn *dot[TS_DT_COUNT]; /* of types in blocks; NULL: none, on this processor */
} TsBlocksDotKernels;

void ts_kernels_blocks_dot_avx512(TsBlocksDotKernels *k);
void ts_kernels_blocks_dot_avx2(TsBlocksDotKernels *k);
void ts_kernels_blocks_dot_base(TsBlocksDotKernels *k);

#endif
