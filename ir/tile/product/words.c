/* Operands of a product in units of what is packed for a step: elements of the type of its
 * sums, or words of two bf16 (ir/tile/pairs.h). Positions along k count these. Behind an odd
 * k stands a zero, whatever a prologue would make of it. */
#include "ir/tile/product/state.h"

TsTileVal ts_tile_product_bitcast(TsProduct *p, TsTileVal x, TsDtype d) {
  if (!x) return NULL;
  TsTileType t = x->type;
  int64_t bytes = t.dim[t.rank - 1] * ts_dtypes[t.dtype].nbytes;
  t.dtype = (uint8_t)d;
  t.dim[t.rank - 1] = bytes / ts_dtypes[d].nbytes;
  return ts_tile_emit1(p->b, TS_TILE_bitcast, 1, &x, NULL, &t);
}

TsTileVal ts_tile_product_transposed(TsProduct *p, TsTileVal square) {
  static const int64_t perm[2] = {1, 0};
  TsAttr axes = {.type = TS_ATTR_ints, .n = 2, .ints = perm};
  if (!square) return NULL;
  return ts_tile_emit1(p->b, TS_TILE_transpose, 1, &square, &axes, &square->type);
}

static TsTileVal half(TsProduct *p, TsTileVal x, bool high) {
  TsTileVal word = ts_tile_cast(p->b, ts_tile_product_bitcast(p, x, TS_DT_i16), TS_DT_i32);
  if (!word) return NULL;
  TsTileVal by = ts_tile_const(p->b, high ? 16 : 0xffff, &word->type);
  return ts_tile_op2(p->b, high ? TS_TILE_shl : TS_OP_bitwise_and, word, by);
}

/* Words of two vectors of bf16. */
static TsTileVal pair(TsProduct *p, TsTileVal even, TsTileVal odd) {
  return ts_tile_op2(p->b, TS_OP_bitwise_or, half(p, even, false), half(p, odd, true));
}

/* Zeros in place of the elements of a vector of bf16 that are not below `left`. */
static TsTileVal cut(TsProduct *p, TsTileVal x, TsTileVal left) {
  if (!x) return NULL;
  TsAttr axis = {.type = TS_ATTR_int};
  TsTileType t = ts_tile_vector(TS_DT_i64, x->type.dim[0]);
  TsTileVal i = ts_tile_emit1(p->b, TS_TILE_iota, 0, NULL, &axis, &t);
  TsTileVal inside = ts_tile_op2(p->b, TS_OP_lt, i, ts_tile_broadcast(p->b, left, &t, NULL));
  TsTileVal bits = ts_tile_product_bitcast(p, x, TS_DT_i16);
  TsTileVal zero = bits ? ts_tile_const(p->b, 0, &bits->type) : NULL;
  return ts_tile_product_bitcast(p, ts_tile_op3(p->b, TS_OP_where, inside, bits, zero),
                                 TS_DT_bf16);
}

/* ---- pieces of the part of k at hand, from k on */
static TsTileVal step_of(TsProduct *p, TsTileVal k) {
  TsTileVal at_k = plus(p, p->pc, k);
  return p->words ? times(p, at_k, 2) : at_k;
}

static bool is_odd(const TsProduct *p) { return p->words && p->x.k % 2; }

/* Steps of k from this one on. */
static TsTileVal left_of(TsProduct *p, TsTileVal step) {
  return ts_tile_op2(p->b, TS_OP_sub, at(p, p->x.k), step);
}

/* A vector of an operand across k, of one step or of two; axes as of ts_tile_product_operand. */
static TsTileVal across(TsProduct *p, TsProductOf of, TsTileVal at_line, TsTileVal k, int64_t n,
                        const int64_t *axes, bool edge) {
  TsTileType t = ts_tile_vector(p->factor, n);
  TsTileVal part[2] = {NULL, NULL}, step = step_of(p, k);
  for (int i = 0; i < 1 + p->words; i++) {
    TsTileVal at_k = plus_int(p, step, i);
    bool a = of == TS_PRODUCT_a;
    part[i] = ts_tile_product_operand(p, of, a ? at_line : at_k, a ? at_k : at_line, &t, axes,
                                      edge || (i && is_odd(p)));
    if (i && is_odd(p) && p->x.prologue[of])
      part[i] = cut(p, part[i],
                    times(p, ts_tile_op2(p->b, TS_OP_minimum, left_of(p, at_k), at(p, 1)), n));
  }
  return p->words ? pair(p, part[0], part[1]) : part[0];
}

TsTileVal ts_tile_product_columns(TsProduct *p, TsTileVal k, TsTileVal col, int64_t n,
                                  bool edge) {
  return across(p, TS_PRODUCT_b, col, k, n, NULL, edge);
}

TsTileVal ts_tile_product_rows(TsProduct *p, TsTileVal row, TsTileVal k, int64_t n, bool edge) {
  static const int64_t axes[1] = {0};
  return across(p, TS_PRODUCT_a, row, k, n, axes, edge);
}

TsTileVal ts_tile_product_row(TsProduct *p, TsTileVal row, TsTileVal k, int64_t n, bool edge) {
  TsTileType t = ts_tile_vector(p->factor, n << p->words);
  TsTileVal step = step_of(p, k);
  TsTileVal x =
      ts_tile_product_operand(p, TS_PRODUCT_a, row, step, &t, NULL, edge || is_odd(p));
  if (!p->words) return x;
  if ((edge || is_odd(p)) && p->x.prologue[TS_PRODUCT_a]) x = cut(p, x, left_of(p, step));
  return ts_tile_product_bitcast(p, x, TS_DT_i32);
}

TsTileVal ts_tile_product_square(TsProduct *p, TsTileVal k, TsTileVal col, bool edge) {
  static const int64_t axes[2] = {1, 0};
  TsTileType t = ts_tile_type(p->factor, 2, (int64_t[]){p->lanes, p->lanes << p->words});
  TsTileVal x =
      ts_tile_product_operand(p, TS_PRODUCT_b, step_of(p, k), col, &t, axes, edge || is_odd(p));
  return p->words ? ts_tile_product_bitcast(p, x, TS_DT_i32) : x;
}
