/* Numbers of the host for what has no f64.
 *
 * Needs: a kernel that is to be expanded. Keeps: every bit. Gives: one in which a number that came
 * as the bits of an f64 and is wanted in f32, bf16 or f16, as those of eager calls are, is rounded to it
 * by whole numbers: once to nearest, ties to even, with infinities, NaN and denormals, as a CPU's
 * conversion has it. Other f64 stay, and are an error of the target's. */
#include "ir/tile/copy.h"

typedef TsTileVal V;

typedef struct Whole {
  TsTileBuild *b;
  TsTileType t; /* of i64 */
} Whole;

static V bits(Whole *w, uint64_t v) { return ts_tile_bits(w->b, v, &w->t); }
static V op(Whole *w, int o, V x, V y) { return ts_tile_op2(w->b, o, x, y); }
static V by(Whole *w, int o, V x, uint64_t y) { return op(w, o, x, bits(w, y)); }
static V pick(Whole *w, V c, V x, V y) { return ts_tile_op3(w->b, TS_OP_where, c, x, y); }

/* x 2^-by, by is 1 or more. */
static V shifted(Whole *w, V x, V shift) {
  V half = op(w, TS_TILE_shl, bits(w, 1), by(w, TS_OP_sub, shift, 1));
  V odd = by(w, TS_OP_bitwise_and, op(w, TS_TILE_shr, x, shift), 1);
  V up = op(w, TS_OP_add, by(w, TS_OP_sub, half, 1), odd);
  return op(w, TS_TILE_shr, op(w, TS_OP_add, x, up), shift);
}

/* A narrower type: bits of its fraction and of all, and the exponent of 1. */
typedef struct Form {
  int fraction, all, bias;
  TsDtype as; /* the integers of this width */
} Form;

static bool form_of(TsDtype d, Form *f) {
  switch (d) {
  case TS_DT_f32: *f = (Form){23, 32, 127, TS_DT_i32}; return true;
  case TS_DT_bf16: *f = (Form){7, 16, 127, TS_DT_i16}; return true;
  case TS_DT_f16: *f = (Form){10, 16, 15, TS_DT_i16}; return true;
  default: return false;
  }
}

static V rounded(Whole *w, const Form *f, TsDtype to, V x) {
  enum { FRACTION = 52, BIAS = 1023, INFINITE = 0x7ff, FAR = 60 };
  const int dropped = FRACTION - f->fraction;
  const uint64_t fraction = ((uint64_t)1 << FRACTION) - 1,
                 sign_bit = (uint64_t)1 << (f->all - 1);
  const uint64_t infinite = sign_bit - ((uint64_t)1 << f->fraction);
  V sign = by(w, TS_OP_bitwise_and, by(w, TS_TILE_shr, x, 64 - (uint64_t)f->all), sign_bit);
  V exponent = by(w, TS_OP_bitwise_and, by(w, TS_TILE_shr, x, FRACTION), INFINITE);
  V rest = by(w, TS_OP_bitwise_and, x, fraction);
  V e = by(w, TS_OP_sub, exponent, (uint64_t)(BIAS - f->bias));
  /* a carry goes on to the exponent, and from the largest to infinity */
  V near = by(w, TS_TILE_shl, by(w, TS_OP_maximum, e, 1), FRACTION);
  near = shifted(w, op(w, TS_OP_bitwise_or, near, rest), bits(w, (uint64_t)dropped));
  near = by(w, TS_OP_minimum, near, infinite);
  V far = op(w, TS_OP_sub, bits(w, (uint64_t)dropped + 1), e);
  far = by(w, TS_OP_minimum, by(w, TS_OP_maximum, far, (uint64_t)dropped + 1), FAR);
  V denormal = shifted(w, by(w, TS_OP_bitwise_or, rest, fraction + 1), far);
  V y = pick(w, by(w, TS_OP_lt, e, 1), denormal, near);
  V nan = by(w, TS_OP_bitwise_or, by(w, TS_TILE_shr, rest, (uint64_t)dropped),
             infinite | (uint64_t)1 << (f->fraction - 1));
  V none = pick(w, by(w, TS_OP_eq, rest, 0), bits(w, infinite), nan);
  y = pick(w, by(w, TS_OP_eq, exponent, INFINITE), none, y);
  y = ts_tile_cast(w->b, op(w, TS_OP_bitwise_or, y, sign), f->as);
  return ts_tile_bitcast(w->b, y, to);
}

static int each(TsTileCopy *c, const TsTileStmt *s, void *arg) {
  Form f;
  TsDtype to = s->nout ? s->out[0]->type.dtype : TS_DT_f64;
  (void)arg;
  if (s->op != TS_TILE_cast || !form_of(to, &f)) return 0;
  const TsTileStmt *from = s->in[0]->stmt;
  if (s->in[0]->type.dtype != TS_DT_f64 || !from || from->op != TS_TILE_bitcast) return 0;
  Whole w = {&c->b, s->in[0]->type};
  w.t.dtype = TS_DT_i64;
  ts_tile_copy_set(c, s->out[0], rounded(&w, &f, to, ts_tile_copy_get(c, from->in[0])));
  return 1;
}

TsTile *ts_tile_single(const TsTile *k, TsError *err) {
  TsTile *y = ts_tile_copy(k, each, NULL, err);
  if (!y || ts_tile_dce(y, err) >= 0) return y;
  ts_tile_free(y);
  return NULL;
}
