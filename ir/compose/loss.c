/* Losses out of elementary operators. */
#include "ir/compose/compose.h"

enum { MEAN, SUM, NONE, BATCHMEAN }; /* words of the reduction option */

static TsVal mean(TsBuild *b, TsVal v) { return ts_build1(b, TS_OP_mean, v); }
static TsVal sum(TsBuild *b, TsVal v) { return ts_build1(b, TS_OP_sum, v); }

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
  if (!whole || !wide) return ts_build_sub(b, k->in[0], k->in[1]);
  TsVal x = ts_build_cast(b, k->given[0], TS_DT_f64);
  return ts_build_cast(b, ts_build_sub(b, x, ts_build_cast(b, k->given[1], TS_DT_f64)),
                       TS_DT_f32);
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
  TsVal near = ts_build_mul(b, ts_build1(b, TS_OP_square, d), b->number(b, 0.5 / beta));
  TsVal far = ts_build_sub(b, d, b->number(b, beta / 2));
  TsVal inside = ts_build2(b, TS_OP_lt, d, b->number(b, beta));
  return finish(k, ts_build_where(b, inside, near, far), k->attr[1].i);
}

int ts_compose_huber(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal delta = b->number(b, k->attr[0].f), half = b->number(b, 0.5);
  TsVal d = ts_build1(b, TS_OP_abs, difference(k));
  TsVal near = ts_build_mul(b, ts_build1(b, TS_OP_square, d), half);
  TsVal far = ts_build_mul(b, ts_build_sub(b, d, b->number(b, k->attr[0].f / 2)), delta);
  TsVal inside = ts_build2(b, TS_OP_le, d, delta);
  return finish(k, ts_build_where(b, inside, near, far), k->attr[1].i);
}

/* log x >= -100. The logarithm of 0 is not taken: its slope is infinite, and infinity times the
 * slope 0 of what limits it is no number. */
static TsVal log_limited(TsBuild *b, TsVal x) {
  TsVal none = ts_build2(b, TS_OP_eq, x, b->number(b, 0));
  TsVal y = ts_build1(b, TS_OP_log, ts_build_where(b, none, b->number(b, 1), x));
  y = ts_build(b, TS_OP_clamp, TS_IN(y), TS_ATTRS({"min", ts_b_f(-100)}), NULL);
  return ts_build_where(b, none, b->number(b, -100), y);
}

static TsVal input(const TsCompose *k, int i) { return i < k->nin ? k->in[i] : NULL; }

static TsVal weighted(TsBuild *b, TsVal v, TsVal weight) {
  return weight ? ts_build_mul(b, v, weight) : v;
}

int ts_compose_bce(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal p = k->in[0], y = k->in[1], one = b->number(b, 1);
  TsVal hit = ts_build_mul(b, y, log_limited(b, p));
  TsVal miss =
      ts_build_mul(b, ts_build_sub(b, one, y), log_limited(b, ts_build_sub(b, one, p)));
  TsVal v = ts_build1(b, TS_OP_neg, ts_build_add(b, hit, miss));
  return finish(k, weighted(b, v, input(k, 2)), k->attr[0].i);
}

/* With pos_weight p: (1 - y) x + (1 + (p - 1) y) softplus(-x). */
int ts_compose_bce_with_logits(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0], y = k->in[1], pos = input(k, 3), one = b->number(b, 1), v;
  if (pos) {
    TsVal share = ts_build_add(b, ts_build_mul(b, ts_build_sub(b, pos, one), y), one);
    TsVal soft = ts_build1(b, TS_OP_softplus, ts_build1(b, TS_OP_neg, x));
    v = ts_build_add(b, ts_build_mul(b, ts_build_sub(b, one, y), x),
                     ts_build_mul(b, share, soft));
  } else {
    v = ts_build_sub(b, ts_build1(b, TS_OP_softplus, x), ts_build_mul(b, x, y));
  }
  return finish(k, weighted(b, v, input(k, 2)), k->attr[0].i);
}

/* A term with q = 0 is 0 whatever logp is, and so are its slopes: it is computed at another
 * place. */
int ts_compose_kl_divergence(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal zero = b->number(b, 0), some = ts_build2(b, TS_OP_ne, k->in[1], zero);
  TsVal q = ts_build_where(b, some, k->in[1], b->number(b, 1)),
        logp = ts_build_where(b, some, k->in[0], zero);
  TsVal term = ts_build_mul(b, q, ts_build_sub(b, ts_build1(b, TS_OP_log, q), logp));
  return finish(k, ts_build_where(b, some, term, zero), k->attr[0].i);
}

/* ---- by class */
static TsVal unsqueeze(TsBuild *b, TsVal x) {
  return ts_build(b, TS_OP_unsqueeze, TS_IN(x), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
}

/* logp[target] over the last axis. */
static TsVal picked(TsBuild *b, TsVal logp, TsVal target) {
  int64_t last = -1;
  TsVal v = ts_build(b, TS_OP_gather, TS_IN(logp, unsqueeze(b, target)),
                     TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  return ts_build(b, TS_OP_squeeze, TS_IN(v), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
}

/* Targets as places, of which none counts from the end, and 1 or the class's weight, 0 for those
 * that are ignored. */
typedef struct Classes {
  TsVal place, weight, counts;
} Classes;

static int check_weight(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal w = input(k, 2);
  TsMeta m = *b->meta(b, k->in[0]), mw = {.ndim = 0};
  char t0[TS_META_TEXT], t1[TS_META_TEXT];
  if (w) mw = *b->meta(b, w);
  if (!w || (m.ndim >= 1 && mw.ndim == 1 && mw.dim[0] == m.dim[m.ndim - 1])) return 0;
  return ts_build_fail(b, TS_ERR_shape, "%s: one weight for each class is needed: %s x %s",
                       ts_op_info(k->op)->name, ts_meta_text(&m, t0), ts_meta_text(&mw, t1));
}

static int classes(TsCompose *k, int64_t ignored, Classes *c) {
  TsBuild *b = k->b;
  TsVal target = k->in[1], w = input(k, 2), zero = b->number(b, 0);
  TsMeta m = *b->meta(b, k->in[0]), mt = *b->meta(b, target);
  char t0[TS_META_TEXT], t1[TS_META_TEXT];
  bool fits = m.ndim >= 1 && mt.ndim == m.ndim - 1;
  for (int i = 0; fits && i < mt.ndim; i++) fits = mt.dim[i] == m.dim[i];
  if (!fits || !ts_dtype_is((TsDtype)mt.dtype, TS_KIND_I | TS_KIND_U))
    return ts_build_fail(b, TS_ERR_shape,
                         "%s: targets are whole numbers without the last axis: %s x %s",
                         ts_op_info(k->op)->name, ts_meta_text(&m, t0), ts_meta_text(&mt, t1));
  double n = (double)m.dim[m.ndim - 1];
  if (check_weight(k)) return -1;
  target = ts_build_cast(b, target, TS_DT_i64);
  c->counts = ts_build2(b, TS_OP_ne, target, b->number(b, (double)ignored));
  target = ts_build_where(b, ts_build2(b, TS_OP_lt, target, zero), b->number(b, n), target);
  c->place = ts_build_where(b, c->counts, target, zero);
  if (b->failed) return -1;
  if (w)
    w = ts_build2(b, TS_OP_take, w, c->place);
  else
    w = ts_build(b, TS_OP_full_like, TS_IN(c->place),
                 TS_ATTRS({"value", ts_b_f(1)}, {"dtype", ts_b_dtype((TsDtype)m.dtype)}), NULL);
  c->weight = ts_build_where(b, c->counts, w, zero);
  return b->failed ? -1 : 0;
}

static int weighted_mean(TsCompose *k, TsVal v, TsVal weight, int64_t how) {
  TsBuild *b = k->b;
  if (how != MEAN) return finish(k, v, how);
  k->out[0] = ts_build2(b, TS_OP_div, sum(b, v), sum(b, weight));
  return b->failed ? -1 : 0;
}

/* What does not count is 0 whatever stands there. */
static TsVal counted(TsBuild *b, const Classes *c, TsVal v, TsVal weight) {
  TsVal zero = b->number(b, 0);
  return ts_build_mul(b, ts_build_where(b, c->counts, ts_build1(b, TS_OP_neg, v), zero),
                      weight);
}

int ts_compose_nll(TsCompose *k) {
  Classes c;
  if (classes(k, k->attr[1].i, &c)) return -1;
  TsVal v = counted(k->b, &c, picked(k->b, k->in[0], c.place), c.weight);
  return weighted_mean(k, v, c.weight, k->attr[0].i);
}

/* The loss of each row, 0 where its target is ignored: the operator that a captured function makes
 * of a picked log_softmax, so that it has the bits of an eager call. */
static TsVal loss_of_rows(TsCompose *k) {
  return ts_build(
      k->b, TS_OP_cross_entropy, TS_IN(k->in[0], ts_build_cast(k->b, k->in[1], TS_DT_i64)),
      TS_ATTRS({"reduction", ts_b_choice(NONE)}, {"ignore_index", k->attr[1]}), NULL);
}

/* As cross_entropy: (1 - s) of the target's part and s / C of all classes' parts. */
int ts_compose_weighted_cross_entropy(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal w = k->in[2], logp, v;
  int64_t how = k->attr[0].i, last = -1;
  double s = k->attr[2].f;
  TsMeta m = *b->meta(b, k->in[0]), mt = *b->meta(b, k->in[1]);
  Classes c;
  if (!(s >= 0 && s <= 1))
    return ts_build_fail(b, TS_ERR_value, "weighted_cross_entropy: label_smoothing = %g", s);
  double n = m.ndim ? (double)m.dim[m.ndim - 1] : 1;
  if (ts_meta_same_shape(&m, &mt) && ts_dtype_is((TsDtype)mt.dtype, TS_KIND_F)) {
    TsVal y = k->in[1];
    if (check_weight(k)) return -1;
    if (s) y = ts_build_add(b, ts_build_mul(b, y, b->number(b, 1 - s)), b->number(b, s / n));
    logp = ts_build1(b, TS_OP_log_softmax, k->in[0]);
    v = ts_build_sum(b, ts_build_mul(b, ts_build_mul(b, y, w), logp), &last, 1, false);
    return finish(k, ts_build1(b, TS_OP_neg, v), how);
  }
  if (classes(k, k->attr[1].i, &c)) return -1;
  if (!s) return weighted_mean(k, ts_build_mul(b, loss_of_rows(k), c.weight), c.weight, how);
  logp = ts_build1(b, TS_OP_log_softmax, k->in[0]);
  v = counted(b, &c, picked(b, logp, c.place), c.weight);
  TsVal all = ts_build_sum(b, ts_build_mul(b, logp, w), &last, 1, false);
  all = counted(b, &c, all, b->number(b, s / n));
  v = ts_build_add(b, ts_build_mul(b, v, b->number(b, 1 - s)), all);
  return weighted_mean(k, v, c.weight, how);
}
