/* Kernels that sort rows, or find the first of them: one for each length of rows. */
#ifndef TS_JIT_OFFLOAD_SORT_H
#define TS_JIT_OFFLOAD_SORT_H

#include "jit/eager/family/order.h"

typedef struct TsSort {
  TsOp op;
  TsDtype dtype;
  bool descending, value; /* value: not only places are wanted */
  int64_t count, n;       /* rows, and elements of one */
  int64_t pieces, whole;  /* of the first of a row: a row may be a piece of one of `whole` */
  int64_t m, rows, k; /* n or more, as the kernel has it; rows of a block; results of a row */
  TsOrderTile tile;   /* of a row, where it has one */
} TsSort;

/* Parameters x [N], y [M] if values are wanted, place [M]; sizes rows, N and, but for the
 * network, M. */
TsTile *ts_sort_network(const void *sort);
TsTile *ts_sort_counted(const void *sort);
TsTile *ts_sort_chosen(const void *sort);

/* As families. The kernel for rows that a block has room for. */
int ts_sort_rows(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s, TsTensor *y,
                 TsTensor *place);
/* The first k of rows, by pieces of at most `most`, then of what these leave. */
int ts_sort_pieces(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s,
                   TsTensor *y, TsTensor *place, int64_t most);
/* Rows of any length, in memory. */
int ts_sort_long(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s, TsTensor *y,
                 TsTensor *place);

/* The network in shared memory [rows, m] of i64. */
void ts_sort_network_put(TsTileBuild *b, TsTileVal shared, int64_t rows, int64_t m);

#endif
