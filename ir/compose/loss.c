/* Losses out of elementary operators. */
#include "ir/compose/compose.h"

enum { MEAN, SUM, NONE, BATCHMEAN }; /* words of the reduction option */

static TsVal mean(TsBuild *b, TsVal v) { return ts_build1(b, TS_OP_mean, v); }
static TsVal sum(TsBuild *b, TsVal v) { return ts_build1(b, TS_OP_sum, v); }
static TsVal add(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_add, x, y); }
static TsVal sub(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_sub, x, y); }
static TsVal mul(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_mul, x, y); }

static TsVal div_by(TsBuild *b, TsVal x, TsVal y) { return ts_build2(b, TS_OP_div, x, y); }
static TsVal input(const TsCompose *k, int i) { return i < k->nin ? k->in[i] : NULL; }

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

int ts_compose_smooth_l1(TsCompose *k) {
  TsBuild *b = k->b;
  double beta = k->attr[0].f;
  TsVal d = ts_build1(b, TS_OP_abs, difference(k));
  if (beta < 0) return ts_build_fail(b, TS_ERR_value, "smooth_l1: beta must not be negative");
  if (beta == 0) return finish(k, d, k->attr[1].i);
  TsVal near = mul(b, ts_build1(b, TS_OP_square, d), b->number(b, 0.5 / beta));
  TsVal far = sub(b, d, b->number(b, beta / 2));
  TsVal inside = ts_build2(b, TS_OP_lt, d, b->number(b, beta));
  return finish(k, where(b, inside, near, far), k->attr[1].i);
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
  TsVal v = ts_build1(b, TS_OP_neg, add(b, hit, miss));
  return finish(k, input(k, 2) ? mul(b, v, k->in[2]) : v, k->attr[0].i);
}

int ts_compose_bce_with_logits(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], y = k->in[1], v = NULL;
  if (input(k, 3)) { /* (1 - y) x + (1 + (pos_weight - 1) y) softplus(-x) */
    TsVal one = b->number(b, 1), minus = ts_build1(b, TS_OP_neg, x);
    TsVal share = add(b, mul(b, sub(b, k->in[3], one), y), one);
    v = mul(b, share, ts_build1(b, TS_OP_softplus, minus));
    v = add(b, mul(b, sub(b, one, y), x), v);
  } else {
    v = sub(b, ts_build1(b, TS_OP_softplus, x), mul(b, x, y));
  }
  return finish(k, input(k, 2) ? mul(b, v, k->in[2]) : v, k->attr[0].i);
}

/* A term with q = 0 is 0 whatever logp is, and so are its slopes: it is computed at another place. */
int ts_compose_kl_divergence(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal zero = b->number(b, 0), some = ts_build2(b, TS_OP_ne, k->in[1], zero);
  TsVal q = where(b, some, k->in[1], b->number(b, 1)), logp = where(b, some, k->in[0], zero);
  TsVal term = mul(b, q, sub(b, ts_build1(b, TS_OP_log, q), logp));
  return finish(k, where(b, some, term, zero), k->attr[0].i);
}

/* ---- losses of classes */

/* x[.., target] of the last axis. */
static TsVal picked(TsBuild *b, TsVal x, TsVal target) {
  int64_t last = -1;
  TsVal index =
      ts_build(b, TS_OP_unsqueeze, TS_IN(target), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal v = ts_build(b, TS_OP_gather, TS_IN(x, index), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  return ts_build(b, TS_OP_squeeze, TS_IN(v), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
}

static int check_weight(TsCompose *k, TsVal logp, TsVal weight) {
  const TsMeta *x = k->b->meta(k->b, logp), *w = k->b->meta(k->b, weight);
  char tx[TS_META_TEXT], tw[TS_META_TEXT];
  if (x->ndim >= 1 && w->ndim == 1 && w->dim[0] == x->dim[x->ndim - 1]) return 0;
  return ts_build_fail(k->b, TS_ERR_shape,
                       "%s: weight has to be one number for each class, not %s for %s",
                       ts_op_info(k->op)->name, ts_meta_text(w, tw), ts_meta_text(x, tx));
}

/* Targets without those to be ignored, which *counts leaves out; NULL if none is. */
static TsVal counted(TsBuild *b, TsVal target, const TsAttr *ignore, TsVal *counts) {
  *counts = NULL;
  if (ignore->type != TS_ATTR_int) return target;
  TsVal zero = b->number(b, 0);
  *counts = ts_build2(b, TS_OP_ne, target, b->number(b, (double)ignore->i));
  TsVal safe = where(b, *counts, target, zero);
  return ts_build_cast(b, safe, (TsDtype)b->meta(b, target)->dtype);
}

/* Terms, of which those that do not count are 0, and their mean by the shares. */
static int finish_shares(TsCompose *k, TsVal v, TsVal share, TsVal counts, int64_t how) {
  TsBuild *b = k->b;
  TsVal zero = b->number(b, 0);
  if (counts) v = where(b, counts, v, zero);
  if (how != MEAN || (!share && !counts)) return finish(k, v, how);
  TsDtype d = (TsDtype)b->meta(b, v)->dtype;
  if (!share)
    share = ts_build_cast(b, counts, d);
  else if (counts)
    share = where(b, counts, share, zero);
  return finish(k, div_by(b, sum(b, v), sum(b, share)), NONE);
}

int ts_compose_nll(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal counts = NULL, share = NULL, weight = input(k, 2);
  if (weight && check_weight(k, k->in[0], weight)) return -1;
  TsVal target = counted(b, k->in[1], &k->attr[1], &counts);
  TsVal v = ts_build1(b, TS_OP_neg, picked(b, k->in[0], target));
  if (weight) {
    share = ts_build(b, TS_OP_take, TS_IN(weight, target), TS_NO_ATTRS, NULL);
    v = mul(b, v, share);
  }
  return finish_shares(k, v, share, counts, k->attr[0].i);
}

/* With probabilities as targets the mean is that of the rows. The share e of smoothing goes to all
 * classes alike: (1 - e) of the target's term, e / C of each. */
int ts_compose_weighted_cross_entropy(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal logp = NULL, weight = k->in[2], target = k->in[1], counts = NULL;
  int64_t last = -1;
  double e = k->attr[2].f;
  if (check_weight(k, k->in[0], weight)) return -1;
  if (e < 0 || e > 1)
    return ts_build_fail(b, TS_ERR_value, "%s: label_smoothing is in [0, 1], not %g",
                         ts_op_info(k->op)->name, e);
  logp = ts_build1(b, TS_OP_log_softmax, k->in[0]);
  TsVal terms = ts_build1(b, TS_OP_neg, mul(b, logp, weight));
  double each = e / (double)b->meta(b, weight)->dim[0];
  if (ts_dtype_is((TsDtype)b->meta(b, k->given[1])->dtype, TS_KIND_F)) {
    TsVal p = target;
    if (e > 0) p = add(b, mul(b, p, b->number(b, 1 - e)), b->number(b, each));
    TsVal rows = ts_build_sum(b, mul(b, terms, p), &last, 1, false);
    return finish(k, rows, k->attr[0].i);
  }
  target = counted(b, target, &k->attr[1], &counts);
  TsVal v = picked(b, terms, target);
  if (e > 0) {
    TsVal all = ts_build_sum(b, terms, &last, 1, false);
    v = add(b, mul(b, v, b->number(b, 1 - e)), mul(b, all, b->number(b, each)));
  }
  TsVal share = ts_build(b, TS_OP_take, TS_IN(weight, target), TS_NO_ATTRS, NULL);
  return finish_shares(k, v, share, counts, k->attr[0].i);
}
