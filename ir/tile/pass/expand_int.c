/* Pointwise rows of bool and the integers as primitive rows: what vm/kernels/pointwise/int.inc
 * does, in straight lines. */
#include "ir/tile/pass/expand.h"

/* One row at hand: its operands' type and what builds. */
typedef struct Row {
  TsTileExpand *x;
  TsTileBuild *b;
  TsDtype d;
  int width;
  bool has_sign;
} Row;

static TsTileVal number(const Row *r, int64_t i, TsDtype d) {
  return ts_tile_expand_constant(r->x, TS_TILE_bits, (uint64_t)i, d);
}
static TsTileVal whole(const Row *r, int64_t i) {
  uint64_t mask = r->width == 64 ? UINT64_MAX : ((uint64_t)1 << r->width) - 1;
  return number(r, (int64_t)((uint64_t)i & mask), r->d);
}
static TsTileVal op1(const Row *r, int op, TsTileVal a) { return ts_tile_op1(r->b, op, a); }
static TsTileVal op2(const Row *r, int op, TsTileVal a, TsTileVal b) {
  return ts_tile_op2(r->b, op, a, b);
}
static TsTileVal where(const Row *r, TsTileVal m, TsTileVal a, TsTileVal b) {
  return ts_tile_op3(r->b, TS_OP_where, m, a, b);
}
static TsTileVal negative(const Row *r, TsTileVal a) {
  return op2(r, TS_OP_lt, a, whole(r, 0));
}
static TsTileVal nonzero(const Row *r, TsTileVal a) {
  return r->d == TS_DT_bool ? a : op2(r, TS_OP_ne, a, whole(r, 0));
}

static TsTileVal sign(const Row *r, TsTileVal a) {
  TsTileVal zero = whole(r, 0), one = whole(r, 1);
  TsTileVal up = where(r, op2(r, TS_OP_lt, zero, a), one, zero);
  return r->has_sign ? where(r, negative(r, a), whole(r, -1), up) : up;
}

/* Counts outside [0, width) shift everything out; as unsigned numbers they are large. */
static TsTileVal shift(const Row *r, bool left, TsTileVal a, TsTileVal n) {
  TsTileVal inside = op2(r, TS_TILE_ult, n, whole(r, r->width));
  TsTileVal count = op2(r, TS_OP_bitwise_and, n, whole(r, r->width - 1));
  int op = left ? TS_TILE_shl : r->has_sign ? TS_TILE_sar : TS_TILE_shr;
  TsTileVal past =
      !left && r->has_sign ? op2(r, TS_TILE_sar, a, whole(r, r->width - 1)) : whole(r, 0);
  return where(r, inside, op2(r, op, a, count), past);
}

/* Square and multiply, one step for each bit of the exponent; a negative power is 0 but of 1
 * and -1. */
static TsTileVal power(const Row *r, TsTileVal a, TsTileVal n) {
  TsTileVal one = whole(r, 1), zero = whole(r, 0), y = one, base = a;
  int nbit = r->width - r->has_sign;
  for (int i = 0; i < nbit; i++) {
    TsTileVal bit = op2(r, TS_OP_bitwise_and, n, whole(r, (int64_t)1 << i));
    y = where(r, nonzero(r, bit), op2(r, TS_OP_mul, y, base), y);
    if (i + 1 < nbit) base = op2(r, TS_OP_mul, base, base);
  }
  if (!r->has_sign) return y;
  TsTileVal minus = whole(r, -1);
  TsTileVal odd = nonzero(r, op2(r, TS_OP_bitwise_and, n, one));
  TsTileVal of_minus = where(r, odd, minus, one);
  TsTileVal small = where(r, op2(r, TS_OP_eq, a, minus), of_minus, zero);
  small = where(r, op2(r, TS_OP_eq, a, one), one, small);
  return where(r, negative(r, n), small, y);
}

static TsTileVal heaviside(const Row *r, TsTileVal x, TsTileVal values) {
  TsTileVal zero = whole(r, 0), one = whole(r, 1);
  TsTileVal y = where(r, op2(r, TS_OP_lt, zero, x), one, zero);
  return where(r, op2(r, TS_OP_eq, x, zero), values, y);
}

/* The quotient rounded down is one too small where something is left and the signs differ. */
static TsTileVal quotient(const Row *r, TsTileVal x, TsTileVal y) {
  TsTileVal q = op2(r, TS_OP_floordiv, x, y);
  if (!r->has_sign) return q;
  TsTileVal exact = op2(r, TS_OP_eq, op2(r, TS_OP_mul, q, y), x);
  TsTileVal up = where(r, exact, whole(r, 0), whole(r, 1));
  TsTileVal differ = negative(r, op2(r, TS_OP_bitwise_xor, x, y));
  differ = op2(r, TS_OP_logical_and, differ, nonzero(r, y));
  return where(r, differ, op2(r, TS_OP_add, q, up), q);
}

static TsTileVal remainder_of(const Row *r, TsTileVal x, TsTileVal y) {
  TsTileVal left = op2(r, TS_OP_sub, x, op2(r, TS_OP_mul, quotient(r, x, y), y));
  return where(r, nonzero(r, y), left, whole(r, 0));
}

static TsTileVal expand_int(const Row *r, int op, const TsTileVal *in) {
  TsTileVal a = in[0];
  switch (op) {
  case TS_OP_abs: return r->has_sign ? where(r, negative(r, a), op1(r, TS_OP_neg, a), a) : a;
  case TS_OP_sign: return sign(r, a);
  case TS_OP_square: return op2(r, TS_OP_mul, a, a);
  case TS_OP_floor:
  case TS_OP_ceil:
  case TS_OP_round:
  case TS_OP_trunc:
  case TS_OP_real:
  case TS_OP_conj: return a;
  case TS_OP_imag: return whole(r, 0);
  case TS_OP_relu: return op2(r, TS_OP_maximum, a, whole(r, 0));
  case TS_OP_clamp: return op2(r, TS_OP_minimum, op2(r, TS_OP_maximum, a, in[1]), in[2]);
  case TS_OP_pow: return power(r, a, in[1]);
  case TS_OP_heaviside: return heaviside(r, a, in[1]);
  case TS_OP_truncdiv: return quotient(r, a, in[1]);
  case TS_OP_fmod: return remainder_of(r, a, in[1]);
  case TS_OP_shift_left: return shift(r, true, a, in[1]);
  case TS_OP_shift_right: return shift(r, false, a, in[1]);
  default: return NULL;
  }
}

/* Rows of bool and the integers alike. */
static TsTileVal expand_any(const Row *r, int op, const TsTileVal *in) {
  switch (op) {
  case TS_OP_isnan:
  case TS_OP_isinf: return number(r, 0, TS_DT_bool);
  case TS_OP_isfinite: return number(r, 1, TS_DT_bool);
  case TS_OP_logical_not: return op2(r, TS_OP_eq, in[0], whole(r, 0));
  case TS_OP_logical_and:
  case TS_OP_logical_or:
  case TS_OP_logical_xor: return op2(r, op, nonzero(r, in[0]), nonzero(r, in[1]));
  default: return NULL;
  }
}

TsTileVal ts_tile_expand_int(TsTileExpand *x, int op, const TsTileVal *in) {
  TsDtype d = (TsDtype)in[0]->type.dtype;
  Row r = {x, &x->c->b, d, ts_dtypes[d].nbytes * 8, ts_dtype_is(d, TS_KIND_I)};
  TsTileVal y = expand_any(&r, op, in);
  if (y) return y;
  if (d != TS_DT_bool) return expand_int(&r, op, in);
  if (op == TS_OP_minimum) return op2(&r, TS_OP_bitwise_and, in[0], in[1]);
  if (op == TS_OP_maximum) return op2(&r, TS_OP_bitwise_or, in[0], in[1]);
  return NULL;
}
