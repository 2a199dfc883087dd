/* Short forms over a builder, for the kernels of attention and of its gradients: positions,
 * tiles of two axes, and numbers that each of their rows has. What is given NULL, out of
 * memory, gives NULL. */
#ifndef TS_IR_SCHED_ATTENTION_FORMS_H
#define TS_IR_SCHED_ATTENTION_FORMS_H

#include <math.h>

#include "ir/tile/tile.h"

static inline TsTileVal num(TsTileBuild *b, int64_t i) { return ts_tile_index(b, i); }
static inline TsTileVal op2(TsTileBuild *b, int op, TsTileVal x, TsTileVal y) {
  return ts_tile_op2(b, op, x, y);
}
static inline TsTileVal times(TsTileBuild *b, TsTileVal x, int64_t i) {
  return op2(b, TS_OP_mul, x, num(b, i));
}
static inline TsTileVal plus(TsTileBuild *b, TsTileVal x, int64_t i) {
  return i ? op2(b, TS_OP_add, x, num(b, i)) : x;
}
static inline TsTileVal by(TsTileBuild *b, TsTileVal x, int64_t i) {
  return op2(b, TS_OP_floordiv, x, num(b, i));
}

static inline TsTileType tile2(TsDtype d, int64_t m, int64_t n) {
  return ts_tile_type(d, 2, (int64_t[]){m, n});
}
static inline TsTileVal full(TsTileBuild *b, double value, TsTileType t) {
  return ts_tile_const(b, value, &t);
}
static inline TsTileVal choose(TsTileBuild *b, TsTileVal cond, TsTileVal x, TsTileVal y) {
  return ts_tile_op3(b, TS_OP_where, cond, x, y);
}

/* A number, or one for each row (axis 0) or column, over the shape of `like`. */
static inline TsTileVal over_like(TsTileBuild *b, TsTileVal x, const TsTileType *like,
                                  int64_t axis) {
  TsTileType t = *like;
  if (!x) return NULL;
  t.dtype = x->type.dtype;
  return ts_tile_broadcast(b, x, &t, &axis);
}
/* A number for each row over a tile of n columns. */
static inline TsTileVal over(TsTileBuild *b, TsTileVal x, int64_t n) {
  if (!x) return NULL;
  TsTileType t = tile2((TsDtype)x->type.dtype, x->type.dim[0], n);
  return over_like(b, x, &t, 0);
}
/* TS_TILE_sum or TS_TILE_max of each row. */
static inline TsTileVal reduced(TsTileBuild *b, int op, TsTileVal x) {
  if (!x) return NULL;
  TsTileType t = ts_tile_vector((TsDtype)x->type.dtype, x->type.dim[0]);
  TsAttr axis = {.type = TS_ATTR_int, .i = 1};
  return ts_tile_emit1(b, op, 1, &x, &axis, &t);
}
/* acc + x y by a unit of squares, or NULL: by chains of sums. */
static inline TsTileVal product(TsTileBuild *b, const char *unit, TsTileVal x, TsTileVal y,
                                TsTileVal acc) {
  TsTileVal in[3] = {x, y, acc};
  TsAttr by_unit = {.type = unit ? TS_ATTR_str : TS_ATTR_none, .str = unit};
  return x && y && acc ? ts_tile_emit1(b, TS_TILE_mma, 3, in, &by_unit, &acc->type) : NULL;
}

/* What is subtracted before exp: the maximum, or nothing while no key was seen. */
static inline TsTileVal base_of(TsTileBuild *b, TsTileVal m) {
  if (!m) return NULL;
  TsTileVal none = op2(b, TS_OP_eq, m, full(b, -INFINITY, m->type));
  return choose(b, none, full(b, 0, m->type), m);
}
static inline TsTileVal exp_of(TsTileBuild *b, TsTileVal x, TsTileVal base) {
  return ts_tile_op1(b, TS_OP_exp, op2(b, TS_OP_sub, x, base));
}
/* x scale + 0, as results have it. */
static inline TsTileVal ended(TsTileBuild *b, TsTileVal x, double scale) {
  if (!x) return NULL;
  if (scale != 1) x = op2(b, TS_OP_mul, x, full(b, scale, x->type));
  return op2(b, TS_OP_add, x, full(b, 0, x->type));
}

#endif
