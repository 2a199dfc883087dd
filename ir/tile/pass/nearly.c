/* Ziv's test for what is rounded to bf16.
 *
 * Needs block form with unexpanded rows. Keeps every bit. Gives, for a cast to bf16 of a sum or
 * product in which one of gelu_tanh, silu or sigmoid takes part, a short value y with a bound E
 * of |y - what the long form gives|, and
 *
 *     rare (y is too near to the middle of two numbers of bf16), cast y, cast of the long form
 *
 * The bound. All three are x / (1 + 2^s) or 1 / (1 + 2^s), with s made of at most four rounded
 * operations: s is off by |s| 2^-22, so 2^s by |s| 2^-22.5 + 2^-22 (ex2), the sum by 2^-24, the
 * quotient by 2^-23, the product by 2^-24, the long form by one unit, 2^-23: in all less than
 * |s| 2^-22.5 + 1.25 2^-21, of the value. A product behind it adds 2^-23, that of the long
 * form and its own. Where 2^s is too large for the quotient, both are below 2^-100.
 *
 * The test. In the binade of y, 2^e <= |y|, numbers of bf16 are 2^(e-7) apart. If z is y
 * rounded, everything up to E from y rounds to z where |y - z| + E < 2^(e-8), unless y lies at
 * the lower end, below which they are nearer: then E < 2^(e-9) is enough. |y - z| + 2 E <
 * 2^(e-8) says both. It does not hold for NaN, infinities, zeros and denormals. What the last
 * operations round, up to 2^-20 |y| in all, is left out of E: the limit is lower instead.
 *
 * The gradients of gelu_tanh and silu are g times d, with d = y = p (1 - w r) below zero and 1
 * - y above, e = 2^s, r = 1 / (1 + e), p = e r. s and w have the bits of the long form but for
 * one product. In units of 2^-24, e is off by 1.25 |s| ln 2 + 6, r by 5 and half of that, p by
 * 7 and that, w r by one more than r; so y is off by |y| A + 0.6 |p w r| A, A = 1.25 |s| ln 2 +
 * 16, and what comes of it by 2 |d|. Beyond the limits of the long form e is 0, and no test
 * holds.
 *
 * No test is needed where the argument was bf16 and ir/tile/gpu/quick.h has the function. */
#include "ir/tile/pass/nearly.h"

#include <stdlib.h>

#include "ir/tile/copy.h"
#include "ir/tile/pass/expand.h"
#include "ir/tile/gpu/quick.h"

typedef TsTileVal V;

enum {
  DEEPEST = 6,
  QUICK = true, /* 0: quick forms are for products alone */
};

/* (|y - z| + 2 E) LIMIT < 2^e is the test: 2^8 and a little; bounds are kept as 2 E LIMIT. */
static const double LIMIT = 256.25, SCALE = 512.5;
static const double LIMIT_ONE = 256.03125; /* where one product is last, 2^-22 |y| in all */

/* What is known of a value near another one. */
typedef struct Near {
  V y;
  V relative; /* a bound of SCALE |y - it| / |y| */
  V error;    /* or of SCALE |y - it|; NULL: the other */
} Near;

typedef struct Nearly {
  TsTileCopy *c;
  TsTileBuild *b;
  const TsTileType *type; /* of all tiles, with any dtype */
  const int *uses;        /* of values of the original, by id */
  int depth;              /* sums and products behind the function */
} Nearly;

/* ---- which values */
/* Of x and g: the function's slope at x, times g. */
static bool is_slope(const TsTileStmt *s) {
  return s->op == TS_OP_gelu_tanh_grad || s->op == TS_OP_silu_grad;
}

static bool is_function(const TsTileStmt *s) {
  if (!s || s->out[0]->type.dtype != TS_DT_f32) return false;
  return s->op == TS_OP_gelu_tanh || s->op == TS_OP_silu || s->op == TS_OP_sigmoid ||
         is_slope(s);
}

static bool is_sum(const TsTileStmt *s) {
  return s && s->out[0]->type.dtype == TS_DT_f32 &&
         (s->op == TS_OP_mul || s->op == TS_OP_add || s->op == TS_OP_sub);
}

/* The functions in what v is made of. More than one, one too deep, or one whose long form
 * somebody else wants too, count as two. */
static int functions(const int *uses, V v, int depth) {
  const TsTileStmt *s = v->stmt;
  int n = 0;
  if (!s || !v->type.rank) return 0;
  if (is_function(s)) return depth < DEEPEST && uses[v->id] == 1 ? 1 : 2;
  if (!is_sum(s)) return 0;
  if (depth == DEEPEST) return 2;
  for (int i = 0; i < 2; i++) n += functions(uses, s->in[i], depth + 1);
  return n && uses[v->id] != 1 ? 2 : n;
}

static void count_uses(const TsTileRegion *r, int *uses) {
  for (const TsTileStmt *s = r->first; s; s = s->next) {
    for (int i = 0; i < s->nin; i++) uses[s->in[i]->id]++;
    for (int i = 0; i < s->nregion; i++) count_uses(s->region[i], uses);
  }
}

/* ---- statements */
static V number(Nearly *n, double v) {
  TsTileType t = *n->type;
  t.dtype = TS_DT_f32;
  return ts_tile_const(n->b, v, &t);
}

static V op1(Nearly *n, int op, V x) { return ts_tile_op1(n->b, op, x); }
static V op2(Nearly *n, int op, V x, V y) { return ts_tile_op2(n->b, op, x, y); }
static V mul(Nearly *n, V x, V y) { return op2(n, TS_OP_mul, x, y); }
static V fma3(Nearly *n, V x, V y, V z) { return ts_tile_op3(n->b, TS_OP_fma, x, y, z); }

static V unary(Nearly *n, int op, V x) {
  TsTileStmt *s = x ? ts_tile_emit(n->b, op, 1, &x, NULL, 1, &x->type) : NULL;
  return s ? s->out[0] : NULL;
}

/* ---- the short form */
static const double log2_e = 1.4426950408889634;

/* s, where the function is (x or 1) / (1 + 2^s). */
static V exponent(Nearly *n, int op, V x) {
  const double c1 = 1.5957691216057308, c3 = 0.07135481282553; /* of gelu_tanh */
  if (op != TS_OP_gelu_tanh) return mul(n, x, number(n, -log2_e));
  V square = mul(n, x, x);
  return mul(n, x, fma3(n, square, number(n, -c3 * log2_e), number(n, -c1 * log2_e)));
}

/* a (c1 + c a^2), with the roundings of the long form. */
static V cubic(Nearly *n, V a, V square, double c, double c1) {
  return mul(n, a, fma3(n, square, number(n, c), number(n, c1)));
}

static Near short_slope(Nearly *n, const TsTileStmt *f) {
  const double c1 = 0x1.988454p0, c3 = 0x1.2444f2p-4, unit = 0x1p-24 * SCALE;
  V x = ts_tile_copy_get(n->c, f->in[0]), g = ts_tile_copy_get(n->c, f->in[1]);
  V a = op1(n, TS_OP_abs, x), u = a, w = op1(n, TS_OP_neg, a), one = number(n, 1);
  if (f->op == TS_OP_gelu_tanh_grad) {
    V square = mul(n, a, a);
    u = cubic(n, a, square, c3, c1), w = cubic(n, a, square, -3 * c3, -c1);
  }
  V s = mul(n, u, number(n, -log2_e)), e = unary(n, TS_TILE_ex2, s);
  V r = unary(n, TS_TILE_inv, op2(n, TS_OP_add, one, e)), p = mul(n, e, r);
  V q = mul(n, w, r), y = fma3(n, p, q, p), below = op2(n, TS_OP_lt, x, number(n, 0));
  V d = ts_tile_op3(n->b, TS_OP_where, below, y, op2(n, TS_OP_sub, one, y));
  V much = fma3(n, op1(n, TS_OP_abs, mul(n, p, q)), number(n, 0.6), op1(n, TS_OP_abs, y));
  V off = fma3(n, op1(n, TS_OP_abs, s), number(n, 0.87 * unit), number(n, 16 * unit));
  V rest = number(n, 2 * unit + n->depth * 2 * unit);
  V error = fma3(n, op1(n, TS_OP_abs, d), rest, mul(n, much, off));
  return (Near){mul(n, g, d), NULL, mul(n, error, op1(n, TS_OP_abs, g))};
}

static Near short_form(Nearly *n, const TsTileStmt *f) {
  if (is_slope(f)) return short_slope(n, f);
  V x = ts_tile_copy_get(n->c, f->in[0]), s = exponent(n, f->op, x);
  V y = unary(n, TS_TILE_inv, op2(n, TS_OP_add, number(n, 1), unary(n, TS_TILE_ex2, s)));
  if (f->op != TS_OP_sigmoid) y = mul(n, x, y);
  double unit = 0x1.4p-21 + n->depth * 0x1p-23;
  V far = op1(n, TS_OP_abs, s);
  return (Near){y, fma3(n, far, number(n, 0x1.7p-23 * SCALE), number(n, unit * SCALE)), NULL};
}

/* ---- sums and products behind it */
static V absolute(Nearly *n, const Near *x) {
  if (x->error) return x->error;
  return fma3(n, op1(n, TS_OP_abs, x->y), x->relative, number(n, 0x1p-100 * SCALE));
}

static Near near(Nearly *n, V v, bool last);

/* last: behind it stand products at most, so that its rounding is one of the last. A product
 * makes the bound absolute too: what is less than 2^-100 may become more. */
static Near of_sum(Nearly *n, const TsTileStmt *s, bool last) {
  bool second = functions(n->uses, s->in[1], 1) > 0;
  n->depth++;
  Near x = near(n, s->in[second], last && s->op == TS_OP_mul);
  V other = ts_tile_copy_get(n->c, s->in[!second]), error = absolute(n, &x);
  if (s->op == TS_OP_mul) error = mul(n, error, op1(n, TS_OP_abs, other));
  x.y = op2(n, s->op, second ? other : x.y, second ? x.y : other);
  x.error = error;
  if (!last) x.error = fma3(n, op1(n, TS_OP_abs, x.y), number(n, 0x1p-23 * SCALE), error);
  return x;
}

static Near near(Nearly *n, V v, bool last) {
  return is_function(v->stmt) ? short_form(n, v->stmt) : of_sum(n, v->stmt, last);
}

/* ---- the test */
static V bitcast(Nearly *n, V x, TsDtype d) {
  if (!x) return NULL;
  TsTileType t = x->type;
  t.dtype = (uint8_t)d;
  TsTileStmt *s = ts_tile_emit(n->b, TS_TILE_bitcast, 1, &x, NULL, 1, &t);
  return s ? s->out[0] : NULL;
}

/* 2^e for a number of the binade, 0 for denormals. */
static V binade(Nearly *n, V y) {
  TsTileType t = *n->type;
  t.dtype = TS_DT_i32;
  V mask = ts_tile_const(n->b, 0x7f800000, &t);
  return bitcast(n, op2(n, TS_OP_bitwise_and, bitcast(n, y, TS_DT_i32), mask), TS_DT_f32);
}

/* Whether y may round to another number than what it is near to. */
static V doubtful(Nearly *n, const Near *x, V z, double limit) {
  V off = op2(n, TS_OP_sub, x->y, z ? ts_tile_cast(n->b, z, TS_DT_f32) : NULL);
  V far = fma3(n, op1(n, TS_OP_abs, off), number(n, limit), absolute(n, x));
  return op1(n, TS_OP_logical_not, op2(n, TS_OP_lt, far, binade(n, x->y)));
}

/* A function of what a 16-bit float was, with nothing between it and the cast back: there are
 * so few arguments that its quick form is known to be right for all. */
static bool is_quick(V v) {
  const TsTileStmt *s = v->stmt, *x = s && s->nin == 1 ? s->in[0]->stmt : NULL;
  if (!QUICK || !v->type.rank || !x || x->op != TS_TILE_cast) return false;
  return x->in[0]->type.dtype == TS_DT_bf16 && x->out[0]->type.dtype == TS_DT_f32 &&
         ts_gpu_quick_has(s->op, TS_DT_bf16);
}

static int put_quick(TsTileCopy *c, const TsTileStmt *s) {
  const TsTileStmt *f = s->in[0]->stmt;
  V x = ts_tile_copy_get(c, f->in[0]), y = x ? ts_gpu_quick(&c->b, f->op, &x) : NULL;
  V z = y ? ts_tile_cast(&c->b, y, TS_DT_bf16) : NULL;
  if (!z) return ts_error_memory(c->err);
  ts_tile_copy_set(c, s->out[0], z);
  return 1;
}

static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  Nearly n = {.c = c, .b = &c->b, .uses = arg};
  if (s->op != TS_TILE_cast || s->out[0]->type.dtype != TS_DT_bf16) return 0;
  V from = s->in[0];
  if (is_quick(from)) return put_quick(c, s);
  if (from->type.dtype != TS_DT_f32 || functions(n.uses, from, 0) != 1) return 0;
  n.type = &from->type;
  Near x = near(&n, from, true);
  V z = x.y ? ts_tile_cast(n.b, x.y, TS_DT_bf16) : NULL, in[3];
  in[0] = doubtful(&n, &x, z, is_slope(from->stmt) ? LIMIT_ONE : LIMIT), in[1] = z;
  in[2] = ts_tile_cast(n.b, ts_tile_copy_get(c, from), TS_DT_bf16);
  TsTileStmt *rare =
      in[0] && in[2] ? ts_tile_emit(n.b, TS_TILE_rare, 3, in, NULL, 1, &z->type) : NULL;
  if (!rare) return ts_error_memory(c->err);
  ts_tile_copy_set(c, s->out[0], rare->out[0]);
  return 1;
}

TsTile *ts_tile_nearly(const TsTile *k, TsError *err) {
  int *uses = calloc(k->nvalue + 1, sizeof *uses);
  if (!uses) return ts_error_memory(err), NULL;
  count_uses(k->body, uses);
  TsTile *copy = ts_tile_copy(k, each, uses, err);
  free(uses);
  return copy;
}
