/* Kernels that sort rows, or find the first of them: one for each length of rows. */
#ifndef TS_IR_LOWER_SORT_SORT_H
#define TS_IR_LOWER_SORT_SORT_H

#include "ir/lower/sort/order.h"

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
TsTile *ts_sort_network(const TsSort *s);
TsTile *ts_sort_counted(const TsSort *s);
TsTile *ts_sort_chosen(const TsSort *s);

/* Steps that sort row-major rows x: values to y if they are wanted, places to `place`, by
 * whatever kernels suit their length. op, dtype, descending, value, count, n and k of s are
 * set. */
void ts_sort_steps(TsSteps *steps, TsSort *s, int x, int y, int place);
bool ts_sort_takes(const TsSort *s);

/* ---- of these: rows that a block has room for */
void ts_sort_rows(TsSteps *steps, TsSort *s, int x, int y, int place);
/* The first k of rows, by pieces of at most `most`, then of what these leave. */
void ts_sort_pieces(TsSteps *steps, TsSort *s, int x, int y, int place, int64_t most);
/* Rows of any length, in memory. */
void ts_sort_long(TsSteps *steps, TsSort *s, int x, int y, int place);

/* The network in shared memory [rows, m] of i64. */
void ts_sort_network_put(TsTileBuild *b, TsTileVal shared, int64_t rows, int64_t m);

#endif
