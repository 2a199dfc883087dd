/* Products of groups of rows, and the gradients of their matrices, by a unit that makes
 * squares of sums (ir/tile/square.h), in block form. Where groups are says `places`
 * (ir/tile/gpu/ragged.h). */
#ifndef TS_IR_LOWER_GROUPED_SQUARE_H
#define TS_IR_LOWER_GROUPED_SQUARE_H

#include "ir/tile/tile.h"

typedef struct TsGroupedSquare {
  const char *unit;
  TsDtype in, factor, out; /* of x and w, of what is multiplied, of the result */
  bool depth, transposed;  /* the gradient of the matrices; w lies as [G, N, K] */
  int64_t groups, m, n, k; /* depth: the result is [groups, m, n]; else w is [groups, k, n] */
  int lanes;
  int rows; /* of a block; set by _rows */
} TsGroupedSquare;

/* Rows of a block, for about so many of a group. */
int ts_grouped_square_rows(int64_t rows);
/* Sizes: rows of x, numbers of places. Parameters: x, w (depth: the other operand), places,
 * the result. NULL: out of memory. */
TsTile *ts_grouped_square(const TsGroupedSquare *x);

#endif
