/* Losses out of elementary operators. */
#include "ir/compose/compose.h"

enum { MEAN, SUM, NONE, BATCHMEAN }; /* words of the reduction option */

static TsVal mean(TsBuild *b, TsVal v) { return ts_build1(b, TS_OP_mean, v); }
static TsVal sum(TsBuild *b, TsVal v) { return ts_build1(b, TS_OP_sum, v); }
static TsVal add(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_add, x, y); }
static TsVal sub(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_sub, x, y); }
static TsVal mul(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_mul, x, y); }

static TsVal where(TsBuild *b, TsVal condition, TsVal x, TsVal y) {
  return ts_build(b, TS_OP_where, TS_IN(condition, x, y), TS_NO_ATTRS, NULL);
}

static int finish(TsCompose *k, TsVal v, int64_t how) {
  TsBuild *b = k->b;
  if (how == BATCHMEAN) {
    const TsMeta *m = b->meta(b, v);
    double rows = m->ndim ? (double)m->dim[0] : 1;
    v = ts_build2(b, TS_OP_div, sum(b, v), b->number(b, rows));
  } else if (how != NONE) {
    v = how == SUM ? sum(b, v) : mean(b, v);
  }
  k->out[0] = v;
  return b->failed ? -1 : 0;
}

/* x - y; of integers that f32 does not hold the difference is made before it is rounded. */
static TsVal difference(TsCompose *k) {
  TsBuild *b = k->b;
  bool whole = true, wide = false;
  for (int i = 0; i < 2; i++) {
    const TsMeta *m = b->meta(b, k->given[i]);
    whole &= ts_dtype_is((TsDtype)m->dtype, TS_KIND_B | TS_KIND_U | TS_KIND_I) && !m->weak;
    wide |= ts_dtypes[m->dtype].nbytes >= 4;
  }
  if (!whole || !wide) return sub(b, k->in[0], k->in[1]);
  TsVal x = ts_build_cast(b, k->given[0], TS_DT_f64);
  return ts_build_cast(b, sub(b, x, ts_build_cast(b, k->given[1], TS_DT_f64)), TS_DT_f32);
}

int ts_compose_mse(TsCompose *k) {
  TsVal d = difference(k);
  return finish(k, ts_build1(k->b, TS_OP_square, d), k->attr[0].i);
}

int ts_compose_l1(TsCompose *k) {
  TsVal d = difference(k);
  return finish(k, ts_build1(k->b, TS_OP_abs, d), k->attr[0].i);
}

int ts_compose_huber(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal delta = b->number(b, k->attr[0].f), half = b->number(b, 0.5);
  TsVal d = ts_build1(b, TS_OP_abs, difference(k));
  TsVal near = mul(b, ts_build1(b, TS_OP_square, d), half);
  TsVal far = mul(b, sub(b, d, b->number(b, k->attr[0].f / 2)), delta);
  TsVal inside = ts_build2(b, TS_OP_le, d, delta);
  return finish(k, where(b, inside, near, far), k->attr[1].i);
}

/* log x >= -100. The logarithm of 0 is not taken: its slope is infinite, and infinity times the
 * slope 0 of what limits it is no number. */
static TsVal log_limited(TsBuild *b, TsVal x) {
  TsVal none = ts_build2(b, TS_OP_eq, x, b->number(b, 0));
  TsVal y = ts_build1(b, TS_OP_log, where(b, none, b->number(b, 1), x));
  y = ts_build(b, TS_OP_clamp, TS_IN(y), TS_ATTRS({"min", ts_b_f(-100)}), NULL);
  return where(b, none, b->number(b, -100), y);
}

int ts_compose_bce(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal p = k->in[0], y = k->in[1], one = b->number(b, 1);
  TsVal hit = mul(b, y, log_limited(b, p));
  TsVal miss = mul(b, sub(b, one, y), log_limited(b, sub(b, one, p)));
  return finish(k, ts_build1(b, TS_OP_neg, add(b, hit, miss)), k->attr[0].i);
}

int ts_compose_bce_with_logits(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0];
  return finish(k, sub(b, ts_build1(b, TS_OP_softplus, x), mul(b, x, k->in[1])), k->attr[0].i);
}

/* A term with q = 0 is 0 whatever logp is, and so are its slopes: it is computed at another
 * place. */
int ts_compose_kl_divergence(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal zero = b->number(b, 0), some = ts_build2(b, TS_OP_ne, k->in[1], zero);
  TsVal q = where(b, some, k->in[1], b->number(b, 1)), logp = where(b, some, k->in[0], zero);
  TsVal term = mul(b, q, sub(b, ts_build1(b, TS_OP_log, q), logp));
  return finish(k, where(b, some, term, zero), k->attr[0].i);
}

int ts_compose_nll(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal index =
      ts_build(b, TS_OP_unsqueeze, TS_IN(k->in[1]), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal picked =
      ts_build(b, TS_OP_gather, TS_IN(k->in[0], index), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  int64_t last = -1;
  TsVal v =
      ts_build(b, TS_OP_squeeze, TS_IN(picked), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
  return finish(k, ts_build1(b, TS_OP_neg, v), k->attr[0].i);
}
