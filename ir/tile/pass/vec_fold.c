/* Reductions as partial results in vectors.
 *
 * Sums and products of floats have lanes of their own, which the canonical order names; the
 * others may be cut at will. Minima and maxima of floats are three of integers on the bits b:
 * the largest b, the smallest b and the largest b as an unsigned number (its sign turned, so
 * that signed comparison does). The largest float is the largest b if that is not negative,
 * else all are negative and it is the smallest b; the smallest float is the unsigned-largest b
 * if that is negative, else the smallest b. A NaN is the largest b of all or the
 * unsigned-largest. That is four operations, where a key per element takes six. */
#include "ir/tile/pass/vec.h"

static TsDtype bits_type(TsDtype d) {
  return d == TS_DT_f32 ? TS_DT_i32 : d == TS_DT_f64 ? TS_DT_i64 : d;
}

int ts_tile_vec_fold_lanes(TsDtype d) { return d == TS_DT_f64 ? 128 : 256; }

static bool is_arg(int op) { return op == TS_TILE_argmax || op == TS_TILE_argmin; }
static bool is_low(int op) { return op == TS_TILE_min || op == TS_TILE_argmin; }

void ts_tile_vec_fold_of(TsVec *v, VecFold *f, VecRoot *r) {
  *f = (VecFold){.root = r, .op = r->stmt->op, .dtype = (TsDtype)r->value->type.dtype};
  bool real = ts_dtype_is(f->dtype, TS_KIND_F);
  bool adds = f->op == TS_TILE_sum || f->op == TS_TILE_prod || f->op == TS_TILE_pairs;
  if (real && f->dtype != TS_DT_f32 && f->dtype != TS_DT_f64)
    ts_tile_vec_fail(v, r->stmt, "a reduction of this type");
  f->nregister = f->copies = 1;
  if (f->dtype == TS_DT_bool) f->dtype = TS_DT_u8;
  if (adds)
    f->dtype = (TsDtype)ts_dtypes[f->dtype].accum; /* of integers i64, which they may need */
  f->bits = bits_type(f->dtype);
  if (is_arg(f->op))
    f->kind = VEC_ARG, f->nregister = 2;
  else if (adds)
    f->kind = real ? VEC_TREE : VEC_FREE;
  else
    f->kind = real ? VEC_ORDER : VEC_FREE, f->nregister = real ? 3 : 1;
}

static TsTileType of_type(TsDtype d, const TsTileType *like) {
  TsTileType t = *like;
  t.dtype = (uint8_t)d;
  return t;
}

static TsTileVal integer(TsVec *v, TsDtype d, int64_t c, const TsTileType *like) {
  TsTileType t = of_type(d, like);
  int width = 8 * ts_dtypes[d].nbytes;
  uint64_t bits = (uint64_t)c;
  return ts_tile_bits(&v->b, width < 64 ? bits & (((uint64_t)1 << width) - 1) : bits, &t);
}

static int64_t low_of(TsDtype d) {
  int64_t lo, hi;
  ts_dtype_int_range(d, &lo, &hi);
  return lo;
}

static int64_t high_of(TsDtype d) {
  int64_t lo, hi;
  ts_dtype_int_range(d, &lo, &hi);
  return hi;
}

/* What changes nothing. */
TsTileVal ts_tile_vec_fold_start(TsVec *v, const VecFold *f, int part, const TsTileType *like) {
  TsTileType t = of_type(f->dtype, like);
  ts_tile_vec_line(v, f->root);
  switch (f->kind) {
  case VEC_TREE: return ts_tile_const(&v->b, f->op == TS_TILE_prod ? 1.0 : -0.0, &t);
  case VEC_ORDER:
    return integer(v, f->bits, part == 1 ? high_of(f->bits) : low_of(f->bits), like);
  case VEC_ARG:
    return part ? integer(v, TS_DT_i64, 0, like) : integer(v, f->bits, low_of(f->bits), like);
  case VEC_FREE: break;
  }
  if (f->op == TS_TILE_sum || f->op == TS_TILE_prod || f->op == TS_TILE_pairs)
    return integer(v, f->dtype, f->op == TS_TILE_prod, like);
  return integer(v, f->dtype, f->op == TS_TILE_max ? low_of(f->dtype) : high_of(f->dtype),
                 like);
}

static int row_of(const VecFold *f) {
  switch (f->op) {
  case TS_TILE_prod: return TS_OP_mul;
  case TS_TILE_max: return TS_OP_maximum;
  case TS_TILE_min: return TS_OP_minimum;
  default: return TS_OP_add;
  }
}

TsTileVal ts_tile_vec_fold_two(TsVec *v, const VecFold *f, TsTileVal a, TsTileVal b) {
  if (!a || !b) return a ? a : b;
  return ts_tile_op2(&v->b, row_of(f), a, b);
}

static void put_part(TsVec *v, VecFold *f, int part, int slot, int row, TsTileVal x) {
  TsTileVal *p = &f->part[part][slot];
  *p = *p ? ts_tile_op2(&v->b, row, *p, x) : x;
}

/* The lanes that are not live change nothing. */
static TsTileVal guarded(TsVec *v, const VecFold *f, int part, TsTileVal x) {
  if (!x || v->at.vec < 0 || v->at.live == v->at.lanes) return x;
  return ts_tile_vec_live(v, x, ts_tile_vec_fold_start(v, f, part, &x->type));
}

static void step_order(TsVec *v, VecFold *f, int slot, TsTileVal x) {
  TsTileVal b = ts_tile_bitcast(&v->b, x, f->bits);
  TsTileVal sign = integer(v, f->bits, low_of(f->bits), &x->type);
  TsTileVal flipped = ts_tile_op2(&v->b, TS_OP_bitwise_xor, b, sign);
  put_part(v, f, 0, slot, TS_OP_maximum, guarded(v, f, 0, b));
  put_part(v, f, 1, slot, TS_OP_minimum, guarded(v, f, 1, b));
  put_part(v, f, 2, slot, TS_OP_maximum, guarded(v, f, 2, flipped));
}

/* Signed integers in the order of the elements: -0 is +0, NaN is above all. */
static TsTileVal arg_key(TsVec *v, const VecFold *f, TsTileVal x) {
  bool real = f->bits != f->dtype;
  TsTileVal k = ts_tile_bitcast(&v->b, x, f->bits);
  if (real) {
    TsTileVal shift = integer(v, f->bits, f->bits == TS_DT_i64 ? 63 : 31, &x->type);
    TsTileVal sign = ts_tile_op2(&v->b, TS_TILE_sar, k, shift);
    TsTileVal mask = integer(v, f->bits, high_of(f->bits), &x->type);
    TsTileVal flip = ts_tile_op2(&v->b, TS_OP_bitwise_and, sign, mask);
    k = ts_tile_op2(&v->b, TS_OP_bitwise_xor, k, flip);
    TsTileVal minus = ts_tile_op2(&v->b, TS_OP_eq, k, integer(v, f->bits, -1, &x->type));
    k = ts_tile_op3(&v->b, TS_OP_where, minus, integer(v, f->bits, 0, &x->type), k);
  }
  if (is_low(f->op)) {
    /* Of unsigned types the complement turns the order round as well. */
    k = ts_tile_op1(&v->b, TS_OP_bitwise_not, k);
  }
  if (!real) return k;
  TsTileVal nan = ts_tile_op2(&v->b, TS_OP_ne, x, x);
  return ts_tile_op3(&v->b, TS_OP_where, nan, integer(v, f->bits, high_of(f->bits), &x->type),
                     k);
}

static void take_arg(TsVec *v, VecFold *f, int slot, TsTileVal better, TsTileVal k,
                     TsTileVal i) {
  f->part[0][slot] = ts_tile_op3(&v->b, TS_OP_where, better, k, f->part[0][slot]);
  f->part[1][slot] = ts_tile_op3(&v->b, TS_OP_where, better, i, f->part[1][slot]);
}

static void step_arg(TsVec *v, VecFold *f, int slot, TsTileVal x, TsTileVal index) {
  TsTileVal k = guarded(v, f, 0, arg_key(v, f, x));
  if (!k || !index) return;
  for (int i = 0; i < 2; i++)
    if (!f->part[i][slot]) f->part[i][slot] = ts_tile_vec_fold_start(v, f, i, &k->type);
  take_arg(v, f, slot, ts_tile_op2(&v->b, TS_OP_gt, k, f->part[0][slot]), k, index);
}

void ts_tile_vec_fold_step(TsVec *v, VecFold *f, int slot, TsTileVal x, TsTileVal index) {
  if (!x) return;
  ts_tile_vec_line(v, f->root);
  if (x->type.dtype == TS_DT_bool || f->kind == VEC_FREE) x = ts_tile_cast(&v->b, x, f->dtype);
  if (f->kind == VEC_ORDER)
    step_order(v, f, slot, x);
  else if (f->kind == VEC_ARG)
    step_arg(v, f, slot, x, index);
  else
    put_part(v, f, 0, slot, row_of(f), guarded(v, f, 0, x));
}

/* Slot b into slot a. */
static void merge(TsVec *v, VecFold *f, int a, int b) {
  if (!f->part[0][b]) return;
  if (f->kind == VEC_ARG && f->part[0][a]) {
    TsTileVal k = f->part[0][b], i = f->part[1][b];
    TsTileVal more = ts_tile_op2(&v->b, TS_OP_gt, k, f->part[0][a]);
    TsTileVal same = ts_tile_op2(&v->b, TS_OP_eq, k, f->part[0][a]);
    TsTileVal first = ts_tile_op2(&v->b, TS_OP_lt, i, f->part[1][a]);
    same = ts_tile_op2(&v->b, TS_OP_logical_and, same, first);
    take_arg(v, f, a, ts_tile_op2(&v->b, TS_OP_logical_or, more, same), k, i);
    return;
  }
  for (int p = 0; p < f->nregister; p++) {
    int row = f->kind != VEC_ORDER ? row_of(f) : p == 1 ? TS_OP_minimum : TS_OP_maximum;
    if (f->part[p][a])
      put_part(v, f, p, a, row, f->part[p][b]);
    else
      f->part[p][a] = f->part[p][b];
  }
}

/* By halves, as the lanes of a tree want it. */
void ts_tile_vec_fold_slots(TsVec *v, VecFold *f, int used) {
  int n = 1;
  ts_tile_vec_line(v, f->root);
  while (n < used) n *= 2;
  for (int h = n / 2; h > 0; h /= 2)
    for (int i = 0; i < h && i + h < used; i++) merge(v, f, i, i + h);
  for (int p = 0; p < f->nregister; p++)
    for (int i = 1; i < used; i++) f->part[p][i] = NULL;
}

/* ---- the end */
static TsTileVal across_lanes(TsVec *v, int op, TsTileVal x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  if (!x || x->type.rank == 0) return x;
  TsTileType t = ts_tile_scalar((TsDtype)x->type.dtype);
  return ts_tile_emit1(&v->b, op, 1, &x, &axis, &t);
}

static TsTileVal end_order(TsVec *v, VecFold *f, bool across) {
  TsTileVal big = f->part[0][0], small = f->part[1][0], far = f->part[2][0];
  if (across) {
    big = across_lanes(v, TS_TILE_max, big);
    small = across_lanes(v, TS_TILE_min, small);
    far = across_lanes(v, TS_TILE_max, far);
  }
  if (!big || !small || !far) return NULL;
  const TsTileType *t = &big->type;
  int64_t inf = f->bits == TS_DT_i64 ? 0x7ff0000000000000 : 0x7f800000;
  TsTileVal zero = integer(v, f->bits, 0, t), infinity = integer(v, f->bits, inf, t), r;
  if (f->op == TS_TILE_max) {
    r = ts_tile_op3(&v->b, TS_OP_where, ts_tile_op2(&v->b, TS_OP_ge, big, zero), big, small);
  } else {
    TsTileVal low = integer(v, f->bits, low_of(f->bits), t);
    TsTileVal b = ts_tile_op2(&v->b, TS_OP_bitwise_xor, far, low);
    r = ts_tile_op3(&v->b, TS_OP_where, ts_tile_op2(&v->b, TS_OP_lt, b, zero), b, small);
  }
  TsTileVal nan =
      ts_tile_op2(&v->b, TS_OP_logical_or, ts_tile_op2(&v->b, TS_OP_gt, big, infinity),
                  ts_tile_op2(&v->b, TS_OP_gt, far, infinity));
  r = ts_tile_op3(&v->b, TS_OP_where, nan, integer(v, f->bits, inf | inf >> 1, t), r);
  return ts_tile_bitcast(&v->b, r, f->dtype);
}

static TsTileVal end_arg(TsVec *v, VecFold *f, bool across) {
  TsTileVal k = f->part[0][0], i = f->part[1][0];
  if (!across || !k) return i;
  TsTileVal best = across_lanes(v, TS_TILE_max, k);
  TsTileVal has = ts_tile_op2(&v->b, TS_OP_eq, k, ts_tile_vec_spread(v, best));
  if (!has) return NULL;
  TsTileVal never = integer(v, TS_DT_i64, INT64_MAX, &i->type);
  return across_lanes(v, TS_TILE_min, ts_tile_op3(&v->b, TS_OP_where, has, i, never));
}

TsTileVal ts_tile_vec_fold_end(TsVec *v, VecFold *f, bool across) {
  TsTileVal x = f->part[0][0];
  ts_tile_vec_line(v, f->root);
  TsDtype out = (TsDtype)f->root->stmt->out[0]->type.dtype;
  if (f->kind == VEC_ORDER)
    x = end_order(v, f, across);
  else if (f->kind == VEC_ARG)
    x = end_arg(v, f, across);
  else if (across)
    x = across_lanes(v, f->op, x);
  if (!x) return NULL;
  if (out == TS_DT_bool && x->type.dtype != TS_DT_bool) {
    TsTileType t = x->type;
    return ts_tile_op2(&v->b, TS_OP_ne, x, ts_tile_const(&v->b, 0, &t));
  }
  return ts_tile_cast(&v->b, x, out);
}
