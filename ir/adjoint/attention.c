/* Adjoints of attention: a row with a kernel, differentiated by its definition in other
 * operators, which stores the scores. */
#include "ir/adjoint/adjoint.h"

#include <math.h>

int ts_adjoint_attention(TsAdjoint *a) {
  TsBuild *b = a->b;
  bool scores = ts_wanted(a, 3);
  TsVal mask = ts_input(a, 3), sink = ts_input(a, 4), out[TS_MAX_OUT] = {NULL};
  const TsVal in[7] = {a->in[0], a->in[1], a->in[2], mask, sink, a->out[0], a->grad[0]};
  const TsBuildAttr attr[5] = {{"causal", a->attr[0]},
                               {"window", a->attr[1]},
                               {"scale", a->attr[2]},
                               {"scores", ts_b_bool(scores)},
                               {"upper_left", a->attr[4]}};
  ts_build(b, TS_OP_attention_grad, 7, in, 5, attr, out);
  for (int i = 0; i < 3; i++) a->grad_in[i] = out[i];
  if (scores) a->grad_in[3] = out[3];
  if (sink) a->grad_in[4] = out[scores ? 4 : 3];
  return b->failed ? -1 : 0;
}

/* ---- the definition, with heads as [.., Hk, G, rows, columns] */
typedef struct Shape {
  int nd; /* of q; of what is below nd + 1 */
  int64_t group, s, t;
  TsMeta q, k;
} Shape;

/* x with its heads split into kv heads and groups; of k and v groups of one. */
static TsVal grouped(TsBuild *b, const Shape *h, TsVal x, int64_t group) {
  TsMeta m = *b->meta(b, x);
  int64_t dim[TS_MAX_RANK];
  int at = m.ndim - 3;
  for (int i = 0; i < m.ndim; i++) dim[i < at + 1 ? i : i + 1] = m.dim[i];
  if (at >= 0) dim[at] = h->k.dim[h->nd - 3], dim[at + 1] = group;
  return at >= 0 ? ts_build_reshape(b, x, dim, m.ndim + 1) : x;
}

/* Back to [.., H, rows, columns], sums over the group where x is k or v. */
static TsVal ungrouped(TsBuild *b, const Shape *h, TsVal x, bool kv) {
  TsMeta m = *b->meta(b, x);
  int64_t dim[TS_MAX_RANK], axis = m.ndim - 3;
  if (h->nd < 3) return x;
  if (kv) return ts_build_sum(b, x, &axis, 1, false);
  for (int i = 0, n = 0; i < m.ndim; i++)
    if (i != m.ndim - 3) dim[n++] = m.dim[i];
  dim[m.ndim - 4] *= h->group;
  return ts_build_reshape(b, x, dim, m.ndim - 1);
}

static TsVal product(TsBuild *b, TsVal x, TsVal y, bool tx, bool ty) {
  if (tx) x = ts_build1(b, TS_OP_transpose, x);
  if (ty) y = ts_build1(b, TS_OP_transpose, y);
  return ts_build2(b, TS_OP_matmul, x, y);
}

static TsVal range(TsBuild *b, int64_t first, int64_t n, bool column) {
  TsVal v =
      ts_build(b, TS_OP_arange, 0, NULL,
               TS_ATTRS({"start", ts_b_f((double)first)}, {"stop", ts_b_f((double)(first + n))},
                        {"dtype", ts_b_dtype(TS_DT_i64)}),
               NULL);
  if (!column) return v;
  return ts_build(b, TS_OP_unsqueeze, TS_IN(v), TS_ATTRS({"axis", ts_b_int(1)}), NULL);
}

/* Which keys causal and window show, [s, t]; NULL: all. */
static TsVal shown(TsBuild *b, const Shape *h, const TsAttr *attr) {
  int64_t place = attr[4].i ? 0 : h->t - h->s;
  TsVal keys = range(b, 0, h->t, false), rows = range(b, place, h->s, true), see = NULL;
  if (attr[0].i) see = ts_build2(b, TS_OP_le, keys, rows);
  if (attr[1].type == TS_ATTR_int) {
    TsVal from = ts_build_sub(b, rows, b->number(b, (double)attr[1].i));
    TsVal near = ts_build2(b, TS_OP_gt, keys, from);
    see = see ? ts_build2(b, TS_OP_logical_and, see, near) : near;
  }
  return see;
}

/* [..,H,S,T], -inf where hidden. */
static TsVal masked_scores(TsBuild *b, const Shape *h, const TsCompose *k, TsVal q, TsVal key,
                           double scale) {
  TsVal mask = k->in[3], see = shown(b, h, k->attr), least = b->number(b, -INFINITY);
  TsVal t = ungrouped(b, h, ts_build_scale(b, product(b, q, key, false, true), scale), false);
  if (mask && b->meta(b, mask)->dtype == TS_DT_bool)
    t = ts_build_where(b, mask, t, least);
  else if (mask)
    t = ts_build_add(b, t, mask);
  return see ? ts_build_where(b, see, t, least) : t;
}

static TsVal softmax(TsBuild *b, TsVal t) {
  return ts_build(b, TS_OP_softmax, TS_IN(t), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
}

/* softmax, but 0 for a row that sees nothing. */
static TsVal careful_softmax(TsBuild *b, TsVal t) {
  int64_t axis = -1;
  TsVal zero = b->number(b, 0), least = b->number(b, -INFINITY);
  TsVal top =
      ts_build(b, TS_OP_max, TS_IN(t),
               TS_ATTRS({"axis", ts_b_ints(&axis, 1)}, {"keepdims", ts_b_bool(true)}), NULL);
  TsVal some = ts_build2(b, TS_OP_gt, top, least);
  TsVal p = softmax(b, ts_build_where(b, some, t, zero));
  return ts_build_where(b, some, p, zero);
}

/* Probabilities of the keys, and in *ps those of the sink. Without a mask and with enough
 * keys every row sees one. */
static TsVal probabilities(TsBuild *b, const Shape *h, TsVal t, TsVal sink, bool masked,
                           TsVal *ps) {
  TsBuildAttr last = {"axis", ts_b_int(-1)};
  bool careful = masked || h->t < h->s;
  if (!sink) return careful ? careful_softmax(b, t) : softmax(b, t);
  TsMeta m = h->q;
  int64_t dim[3] = {h->nd > 2 ? m.dim[m.ndim - 3] : 1, 1, 1};
  m.dim[m.ndim - 1] = 1;
  TsVal x =
      ts_build_expand(b, ts_build_reshape(b, sink, dim, h->nd > 2 ? 3 : 2), m.dim, m.ndim);
  TsVal both = ts_build(b, TS_OP_concat, TS_IN(t, x), 1, &last, NULL);
  TsVal p = careful ? careful_softmax(b, both) : softmax(b, both);
  *ps = ts_build_narrow(b, p, h->nd - 1, h->t, 1);
  return ts_build_narrow(b, p, h->nd - 1, 0, h->t);
}

static void set_shape(TsBuild *b, const TsCompose *k, Shape *h) {
  h->q = *b->meta(b, k->in[0]), h->k = *b->meta(b, k->in[1]);
  h->nd = h->q.ndim, h->s = h->q.dim[h->nd - 2], h->t = h->k.dim[h->nd - 2];
  h->group = h->nd > 2 ? h->q.dim[h->nd - 3] / h->k.dim[h->nd - 3] : 1;
}

/* dt = p (g v^T - sum(g out)); dq = dt k scale; dk = dt^T q scale; dv = p^T g. */
static int attention_grad(TsCompose *k) {
  TsBuild *b = k->b;
  Shape h;
  int64_t last = -1, rows[TS_MAX_RANK];
  TsVal ps = NULL, sink = k->in[4], out = k->in[5], g = k->in[6];
  set_shape(b, k, &h);
  int64_t d = h.q.dim[h.nd - 1];
  double scale = k->attr[2].type == TS_ATTR_f ? k->attr[2].f : 1 / sqrt((double)(d ? d : 1));
  TsVal q = grouped(b, &h, k->in[0], h.group), key = grouped(b, &h, k->in[1], 1),
        v = grouped(b, &h, k->in[2], 1), gg = grouped(b, &h, g, h.group);
  TsVal p =
      probabilities(b, &h, masked_scores(b, &h, k, q, key, scale), sink, k->in[3] != NULL, &ps);
  TsVal delta = ts_build_sum(b, ts_build_mul(b, g, out), &last, 1, true);
  TsVal dp = ungrouped(b, &h, product(b, gg, v, false, true), false);
  TsVal dt = ts_build_mul(b, p, ts_build_sub(b, dp, delta));
  TsVal dtg = grouped(b, &h, dt, h.group), pg = grouped(b, &h, p, h.group);
  TsVal dq = ungrouped(b, &h, product(b, dtg, key, false, false), false);
  TsVal dk = ungrouped(b, &h, product(b, dtg, q, true, false), true);
  k->out[0] = ts_build_scale(b, dq, scale);
  k->out[1] = ts_build_scale(b, dk, scale);
  k->out[2] = ungrouped(b, &h, product(b, pg, gg, true, false), true);
  k->nout = 3;
  if (k->attr[3].i) k->out[k->nout++] = dt;
  if (sink) {
    int n = 0;
    for (int i = 0; i < h.nd; i++)
      if (i != h.nd - 3) rows[n++] = i;
    TsVal ds = ts_build_sum(b, ts_build_mul(b, ps, delta), rows, n, false);
    if (h.nd < 3) ds = ts_build_reshape(b, ds, (int64_t[]){1}, 1);
    k->out[k->nout++] = ts_build_neg(b, ds);
  }
  return b->failed ? -1 : 0;
}

int ts_adjoint_attention_grad(TsAdjoint *a) {
  return ts_adjoint_by_definition(a, attention_grad);
}
