/* Kernels of sparse products, for ir/lower/index/sparse.c. */
#ifndef TS_IR_LOWER_SPARSE_H
#define TS_IR_LOWER_SPARSE_H

#include "ir/tile/tile.h"

/* Products of blocks [p, q] with x [size, q, n]. */
typedef struct TsSparseBlocks {
  TsDtype d, acc, column; /* of the result; in which it is computed; of places */
  int64_t size, p, q, n;
  bool sorted; /* entries stand by rows */
} TsSparseBlocks;

/* Parameters start (i32[rows + 1]), place (i32[N], unless sorted), values, column, x, y [rows,
 * p, n]. Sizes: rows + 1, N, rows. NULL: out of memory. */
TsTile *ts_sparse_blocks(const TsSparseBlocks *s);

#endif
