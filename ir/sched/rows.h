/* Operators that work along rows, in terms of tiles: the definitions of vm/rows/rows.h and
 * vm/rows/reduce.h once more, so that kernels have the VM's bits. */
#ifndef TS_IR_SCHED_ROWS_H
#define TS_IR_SCHED_ROWS_H

#include "ir/graph/graph.h"
#include "ir/tile/tile.h"

/* One operator in a round of a row. Operands are tiles of the row's length n, or rank 0 for row
 * values, in the type in which the row computes; NULL where an optional one is absent. */
typedef struct TsRowCall {
  TsTileBuild *b;
  const TsNode *node;
  int64_t n;
  TsTileVal in[TS_MAX_IN];
  TsTileVal out[TS_MAX_OUT];
  TsTileVal at_target; /* the row's element at its target, where it lies in memory, or NULL */
} TsRowCall;

/* A row value for every element of the row. */
TsTileVal ts_row_spread(TsRowCall *c, TsTileVal x);
/* Of elements, or of row values; of one of each, the latter for every element. */
TsTileVal ts_row_op2(TsRowCall *c, int op, TsTileVal x, TsTileVal y);

typedef void TsRowFn(TsRowCall *c);

/* NULL where an operator has none, or not with these attributes. */
TsRowFn *ts_sched_row(const TsNode *n);
/* Elements of a row of its first input. */
int64_t ts_sched_row_length(const TsNode *n);

/* The reduction of a tile that n is along the leading axes of its input, 0: it is none. */
int ts_sched_column(const TsNode *n);

#endif
