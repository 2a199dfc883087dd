/* Random rows out of uniform numbers. */
#include <math.h>

#include "ir/compose/compose.h"

/* -log(1 - u), of which u = 0 gives 0. */
static TsVal unit_exponential(TsBuild *b, const TsAttr *shape, TsDtype d, const TsAttr *seed) {
  TsVal u = ts_build(b, TS_OP_uniform, 0, NULL,
                     TS_ATTRS({"shape", *shape}, {"dtype", ts_b_dtype(d)}, {"seed", seed[0]},
                              {"stream", seed[1]}),
                     NULL);
  return ts_build1(b, TS_OP_neg, ts_build1(b, TS_OP_log1p, ts_build1(b, TS_OP_neg, u)));
}

int ts_compose_exponential(TsCompose *k) {
  TsBuild *b = k->b;
  double rate = k->attr[1].f;
  TsDtype d = (TsDtype)k->attr[2].i;
  if (!(rate > 0)) return ts_build_fail(b, TS_ERR_value, "exponential: rate = %g", rate);
  if (!ts_dtype_is(d, TS_KIND_F))
    return ts_build_fail(b, TS_ERR_dtype, "exponential: makes floats, not %s",
                         ts_dtype_name(d));
  TsVal v = unit_exponential(b, &k->attr[0], (TsDtype)ts_dtypes[d].compute, &k->attr[3]);
  if (rate != 1) v = ts_build2(b, TS_OP_div, v, b->number(b, rate));
  k->out[0] = ts_build_cast(b, v, d);
  return b->failed ? -1 : 0;
}

/* Whether a weight is negative or NaN, as a whole number. */
static TsVal any_bad(TsBuild *b, TsVal w) {
  TsVal good = ts_build2(b, TS_OP_ge, w, b->number(b, 0));
  TsVal bad = ts_build1(b, TS_OP_any, ts_build1(b, TS_OP_logical_not, good));
  return ts_build_cast(b, bad, TS_DT_i64);
}

static int need_weights(TsBuild *b, TsVal w) {
  TsVal bad = any_bad(b, w);
  int64_t any = 0;
  if (b->failed || b->whole(b, bad, &any)) return -1;
  return any ? ts_build_fail(b, TS_ERR_value, "multinomial: a weight is negative, or NaN") : 0;
}

/* 0, but for bad weights a place that is out of range: how they are found where nothing is computed
 * yet. */
static TsVal checked_zero(TsBuild *b, TsVal w) {
  const int64_t one = 1;
  TsVal zero =
      ts_build(b, TS_OP_zeros, 0, NULL,
               TS_ATTRS({"shape", ts_b_ints(&one, 1)}, {"dtype", ts_b_dtype(TS_DT_i64)}), NULL);
  return ts_build2(b, TS_OP_take, zero, any_bad(b, w));
}

static int need_count(TsBuild *b, const TsMeta *m, int64_t count, bool again) {
  char text[TS_META_TEXT];
  if (m->ndim < 1)
    return ts_build_fail(b, TS_ERR_shape,
                         "multinomial: weights [.., classes] are needed, not %s",
                         ts_meta_text(m, text));
  if (count < 0)
    return ts_build_fail(b, TS_ERR_value, "multinomial: count = %lld is negative",
                         (long long)count);
  if (again || count <= m->dim[m->ndim - 1]) return 0;
  ts_build_fail(
      b, TS_ERR_value,
      "multinomial: count = %lld is more than the %lld classes of %s, each of which is "
      "drawn once",
      (long long)count, (long long)m->dim[m->ndim - 1], ts_meta_text(m, text));
  return ts_error_hint(b->err, "replacement = true draws them again");
}

/* Without replacement: the first to come of exponential waiting times with the weights as rates. */
int ts_compose_multinomial(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal w = k->in[0], out[2] = {NULL}, zero = b->number(b, 0);
  TsMeta m = *b->meta(b, w);
  int64_t count = k->attr[0].i;
  if (need_count(b, &m, count, k->attr[1].i) || (b->whole && need_weights(b, w))) return -1;
  if (k->attr[1].i) {
    if (!b->whole)
      w = ts_build2(b, TS_OP_add, w, ts_build_cast(b, checked_zero(b, w), (TsDtype)m.dtype));
    k->out[0] = ts_build(
        b, TS_OP_categorical, TS_IN(ts_build1(b, TS_OP_log, w)),
        TS_ATTRS({"count", ts_b_int(count)}, {"seed", k->attr[2]}, {"stream", k->attr[3]}),
        NULL);
    return b->failed ? -1 : 0;
  }
  TsAttr shape = ts_b_ints(m.dim, m.ndim);
  TsVal wait = unit_exponential(b, &shape, (TsDtype)ts_dtypes[m.dtype].compute, &k->attr[2]);
  TsVal some = ts_build2(b, TS_OP_gt, w, zero);
  w = ts_build(b, TS_OP_where, TS_IN(some, w, b->number(b, 1)), TS_NO_ATTRS, NULL);
  wait = ts_build(b, TS_OP_where,
                  TS_IN(some, ts_build2(b, TS_OP_div, wait, w), b->number(b, INFINITY)),
                  TS_NO_ATTRS, NULL);
  ts_build(b, TS_OP_topk, TS_IN(wait),
           TS_ATTRS({"k", ts_b_int(count)}, {"largest", ts_b_bool(false)}), out);
  k->out[0] = b->whole ? out[1] : ts_build2(b, TS_OP_add, out[1], checked_zero(b, k->in[0]));
  return b->failed ? -1 : 0;
}

/* ---- gamma: d v of the first v = (1 + c n)^3 that is accepted, n normal */
enum { TRIES = 8 };

/* log(1 - u) of the uniform numbers at .. + [start, start + n). */
static TsVal logs(TsBuild *b, TsVal u, int64_t start, int64_t n) {
  int axis = b->failed ? 0 : b->meta(b, u)->ndim - 1;
  TsVal part = ts_build_narrow(b, u, axis, start, n);
  return ts_build1(b, TS_OP_log1p, ts_build1(b, TS_OP_neg, part));
}

static TsVal normals(TsBuild *b, TsVal u) {
  int axis = b->failed ? 0 : b->meta(b, u)->ndim - 1;
  TsVal radius =
      ts_build1(b, TS_OP_sqrt, ts_build_mul(b, logs(b, u, 0, TRIES), b->number(b, -2)));
  TsVal turn = ts_build_mul(b, ts_build_narrow(b, u, axis, TRIES, TRIES),
                            b->number(b, 6.283185307179586));
  return ts_build_mul(b, radius, ts_build1(b, TS_OP_cos, turn));
}

static TsVal gamma_of(TsCompose *k, TsVal shape, const TsAttr *seed) {
  TsBuild *b = k->b;
  TsMeta m = *b->meta(b, shape);
  int64_t last = -1;
  TsVal zero = b->number(b, 0), one = b->number(b, 1);
  if (m.ndim >= TS_MAX_RANK) {
    ts_build_fail(b, TS_ERR_shape, "%s: more than %d axes", ts_op_info(k->op)->name,
                  TS_MAX_RANK - 1);
    return NULL;
  }
  m.dim[m.ndim] = 3 * TRIES + 1;
  TsVal u = ts_build(b, TS_OP_uniform, 0, NULL,
                     TS_ATTRS({"shape", ts_b_ints(m.dim, m.ndim + 1)},
                              {"dtype", ts_b_dtype((TsDtype)m.dtype)}, {"seed", seed[0]},
                              {"stream", seed[1]}),
                     NULL);
  shape = ts_build(b, TS_OP_unsqueeze, TS_IN(ts_build1(b, TS_OP_stop_gradient, shape)),
                   TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal fits = ts_build2(b, TS_OP_gt, shape, zero), small = ts_build2(b, TS_OP_lt, shape, one);
  TsVal a = ts_build_where(b, fits, shape, one), n = normals(b, u);
  TsVal d = ts_build_add(b, ts_build_where(b, small, ts_build_add(b, a, one), a),
                         b->number(b, -1.0 / 3));
  TsVal v = ts_build_mul(b, n, ts_build1(b, TS_OP_rsqrt, ts_build_mul(b, d, b->number(b, 9))));
  v = ts_build_add(b, v, one);
  TsVal some = ts_build2(b, TS_OP_gt, v, zero),
        cube = ts_build_mul(b, ts_build_mul(b, v, v), v);
  TsVal log_cube = ts_build_mul(b, ts_build1(b, TS_OP_log, ts_build_where(b, some, v, one)),
                                b->number(b, 3));
  TsVal limit = ts_build_add(b, ts_build2(b, TS_OP_sub, one, cube), log_cube);
  limit = ts_build_add(b, ts_build_mul(b, ts_build_mul(b, n, n), b->number(b, 0.5)),
                       ts_build_mul(b, d, limit));
  TsVal taken = ts_build2(b, TS_OP_lt, logs(b, u, 2 * TRIES, TRIES), limit);
  taken = ts_build2(b, TS_OP_logical_and, taken, some);
  TsVal end = ts_build(
      b, TS_OP_arange, 0, NULL, /* the last stands in for all that fail */
      TS_ATTRS({"start", ts_b_f(0)}, {"stop", ts_b_f(TRIES)}, {"dtype", ts_b_dtype(TS_DT_i64)}),
      NULL);
  end = ts_build2(b, TS_OP_eq, end, b->number(b, TRIES - 1));
  taken = ts_build_cast(b, ts_build2(b, TS_OP_logical_or, taken, end), TS_DT_u8);
  TsVal at = ts_build(b, TS_OP_argmax, TS_IN(taken),
                      TS_ATTRS({"axis", ts_b_int(-1)}, {"keepdims", ts_b_bool(true)}), NULL);
  cube = ts_build_where(b, some, cube, one);
  v = ts_build(b, TS_OP_gather, TS_IN(cube, at), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  v = ts_build_mul(b, d, v);
  TsVal less = ts_build1(b, TS_OP_exp, ts_build2(b, TS_OP_div, logs(b, u, 3 * TRIES, 1), a));
  v = ts_build_where(b, fits, ts_build_where(b, small, ts_build_mul(b, v, less), v),
                     b->number(b, NAN));
  return ts_build(b, TS_OP_squeeze, TS_IN(v), TS_ATTRS({"axis", ts_b_ints(&last, 1)}), NULL);
}

int ts_compose_gamma(TsCompose *k) {
  TsBuild *b = k->b;
  double rate = k->attr[0].f;
  if (!(rate > 0)) return ts_build_fail(b, TS_ERR_value, "gamma: rate = %g", rate);
  TsVal v = gamma_of(k, k->in[0], &k->attr[1]);
  k->out[0] = rate == 1 ? v : ts_build2(b, TS_OP_div, v, b->number(b, rate));
  return b->failed ? -1 : 0;
}

int ts_compose_beta(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal both[2], part[2];
  for (int i = 0; i < 2; i++) /* of one shape and type */
    both[i] = ts_build_add(b, k->in[i], ts_build1(b, TS_OP_zeros_like, k->in[1 - i]));
  TsVal g =
      ts_build(b, TS_OP_stack, TS_IN(both[0], both[1]), TS_ATTRS({"axis", ts_b_int(0)}), NULL);
  g = gamma_of(k, g, &k->attr[0]);
  for (int i = 0; i < 2; i++)
    part[i] = ts_build(b, TS_OP_select, TS_IN(g),
                       TS_ATTRS({"axis", ts_b_int(0)}, {"index", ts_b_int(i)}), NULL);
  k->out[0] = ts_build2(b, TS_OP_div, part[0], ts_build_add(b, part[0], part[1]));
  return b->failed ? -1 : 0;
}
