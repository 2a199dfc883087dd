/* Arithmetic on positions while a kernel is made: what is known becomes a number. */
#ifndef TS_IR_TILE_POSITION_H
#define TS_IR_TILE_POSITION_H

#include "ir/tile/tile.h"

static inline int64_t ts_div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t ts_round_up(int64_t a, int64_t b) { return ts_div_up(a, b) * b; }

static inline bool ts_tile_is_number(const TsTileValue *x, int64_t *i) {
  if (!x || !x->stmt || x->stmt->op != TS_TILE_const) return false;
  *i = (int64_t)ts_tile_attr(x->stmt, "value")->f;
  return true;
}

static inline TsTileVal ts_tile_plus(TsTileBuild *b, TsTileVal x, TsTileVal y) {
  int64_t i, j;
  if (ts_tile_is_number(x, &i) && ts_tile_is_number(y, &j)) return ts_tile_index(b, i + j);
  return ts_tile_op2(b, TS_OP_add, x, y);
}

static inline TsTileVal ts_tile_times(TsTileBuild *b, TsTileVal x, int64_t n) {
  int64_t i;
  if (ts_tile_is_number(x, &i)) return ts_tile_index(b, i * n);
  return ts_tile_op2(b, TS_OP_mul, x, ts_tile_index(b, n));
}

#endif
