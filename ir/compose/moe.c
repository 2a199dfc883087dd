/* Mixtures of experts out of their places, rows that go there, and elementary operators. */
#include "ir/compose/compose.h"

/* ---- which experts */
enum { AFTER, BEFORE };
enum { K, SOFTMAX, NOISE, SEED, STREAM };

static TsVal noisy(TsBuild *b, TsVal logits, const TsAttr *attr) {
  TsMeta m = *b->meta(b, logits);
  TsVal draw =
      ts_build(b, TS_OP_normal, 0, NULL,
               TS_ATTRS({"shape", ts_b_ints(m.dim, m.ndim)}, {"std", ts_b_f(attr[NOISE].f)},
                        {"dtype", ts_b_dtype((TsDtype)m.dtype)}, {"seed", attr[SEED]},
                        {"stream", attr[STREAM]}),
               NULL);
  return ts_build_add(b, logits, draw);
}

static int check_router(TsCompose *k) {
  const TsMeta *m = k->b->meta(k->b, k->in[0]);
  char text[TS_META_TEXT];
  int64_t n = k->attr[K].i, experts = m->ndim ? m->dim[m->ndim - 1] : 0;
  if (!m->ndim)
    return ts_build_fail(k->b, TS_ERR_shape, "router: logits must be [.., experts], not %s",
                         ts_meta_text(m, text));
  if (n < 1 || n > experts)
    return ts_build_fail(k->b, TS_ERR_value, "router: k = %lld of %lld experts", (long long)n,
                         (long long)experts);
  if (!(k->attr[NOISE].f >= 0))
    return ts_build_fail(k->b, TS_ERR_value, "router: noise = %g is no deviation",
                         k->attr[NOISE].f);
  return 0;
}

int ts_compose_router(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal score = k->in[0], bias = k->nin > 1 ? k->in[1] : NULL, chosen[2] = {NULL};
  if (check_router(k)) return -1;
  int64_t softmax = k->attr[SOFTMAX].i;
  if (k->attr[NOISE].f > 0) score = noisy(b, score, k->attr);
  if (softmax == BEFORE) score = ts_build1(b, TS_OP_softmax, score);
  TsVal by = bias ? ts_build_add(b, score, bias) : score;
  ts_build(b, TS_OP_topk, TS_IN(by), TS_ATTRS({"k", k->attr[K]}), chosen);
  if (bias)
    chosen[0] = ts_build(b, TS_OP_gather, TS_IN(score, chosen[1]),
                         TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  if (softmax == AFTER) chosen[0] = ts_build1(b, TS_OP_softmax, chosen[0]);
  k->out[0] = chosen[0], k->out[1] = chosen[1], k->nout = 2;
  return b->failed ? -1 : 0;
}

/* ---- there and back */
static TsVal routed(TsBuild *b, TsVal x, TsVal place, TsVal source, int64_t times) {
  return ts_build(b, TS_OP_route_rows, TS_IN(x, place, source),
                  TS_ATTRS({"times", ts_b_int(times)}), NULL);
}

static bool leads(const TsMeta *x, const TsMeta *index) {
  bool fits = x->ndim >= 1 && x->ndim == index->ndim;
  for (int i = 0; i < x->ndim - 1 && fits; i++) fits = x->dim[i] == index->dim[i];
  return fits;
}

int ts_compose_moe_dispatch(TsCompose *k) {
  TsBuild *b = k->b;
  TsMeta x = *b->meta(b, k->in[0]), index = *b->meta(b, k->given[1]);
  char tx[TS_META_TEXT], ti[TS_META_TEXT];
  TsVal of[4] = {NULL}; /* place, source, sizes, dropped */
  if (!leads(&x, &index) || index.dim[index.ndim - 1] < 1)
    return ts_build_fail(b, TS_ERR_shape,
                         "moe_dispatch: x [.., d] and index [.., k] do not fit: %s x %s",
                         ts_meta_text(&x, tx), ts_meta_text(&index, ti));
  ts_build(b, TS_OP_moe_places, TS_IN(k->given[1]),
           TS_ATTRS({"experts", k->attr[0]}, {"capacity", k->attr[1]}), of);
  k->out[0] = routed(b, k->in[0], of[1], of[0], index.dim[index.ndim - 1]);
  k->out[1] = of[2], k->out[2] = of[0], k->out[3] = of[1], k->out[4] = of[3];
  k->nout = 5;
  return b->failed ? -1 : 0;
}

/* [.., k, d] or [.., k, 1] at choice j, without that axis. */
static TsVal choice(TsBuild *b, TsVal v, int axis, int64_t j, TsDtype d) {
  TsVal one = ts_build(b, TS_OP_select, TS_IN(v),
                       TS_ATTRS({"axis", ts_b_int(axis)}, {"index", ts_b_int(j)}), NULL);
  return ts_build_cast(b, one, d);
}

static int check_combine(TsCompose *k, const TsMeta *rows, const TsMeta *place,
                         const TsMeta *w) {
  char tp[TS_META_TEXT], tw[TS_META_TEXT];
  bool there = k->nin > 1 && k->given[1], source = k->nin > 2 && k->given[2];
  if (there != source)
    return ts_build_fail(k->b, TS_ERR_argument, "moe_combine: place and source go together");
  if (!place && rows->ndim < 2)
    return ts_build_fail(k->b, TS_ERR_shape, "moe_combine: rows must be [.., k, d], not %s",
                         ts_meta_text(rows, tp));
  if (place && !place->ndim)
    return ts_build_fail(k->b, TS_ERR_shape, "moe_combine: place must be [.., k], not %s",
                         ts_meta_text(place, tp));
  TsMeta each = place ? *place : *rows;
  if (!place) each.ndim--;
  if (!w || ts_meta_same_shape(&each, w)) return 0;
  return ts_build_fail(k->b, TS_ERR_shape,
                       "moe_combine: a weight for each choice is needed: %s x %s",
                       ts_meta_text(place ? place : rows, tp), ts_meta_text(w, tw));
}

/* The sum begins with +0, so that it does not tell rows of -0 from those of +0. */
int ts_compose_moe_combine(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal rows = k->in[0], place = k->nin > 1 ? k->given[1] : NULL,
        weights = k->nin > 3 ? k->in[3] : NULL;
  TsDtype d = (TsDtype)b->meta(b, rows)->dtype, wide = (TsDtype)ts_dtypes[d].compute;
  TsMeta w = weights ? *b->meta(b, weights) : (TsMeta){0};
  if (check_combine(k, b->meta(b, rows), place ? b->meta(b, place) : NULL, weights ? &w : NULL))
    return -1;
  if (w.dtype == TS_DT_f64 && weights) wide = TS_DT_f64;
  if (place) rows = routed(b, rows, place, k->given[2], 1);
  if (b->failed) return -1;
  int axis = b->meta(b, rows)->ndim - 2;
  int64_t choices = b->meta(b, rows)->dim[axis];
  if (weights)
    weights =
        ts_build(b, TS_OP_unsqueeze, TS_IN(weights), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal sum = b->number(b, 0);
  for (int64_t j = 0; j < choices && !b->failed; j++) {
    TsVal row = choice(b, rows, axis, j, wide);
    if (weights)
      sum = ts_build(b, TS_OP_fma, TS_IN(choice(b, weights, axis, j, wide), row, sum),
                     TS_NO_ATTRS, NULL);
    else
      sum = ts_build_add(b, row, sum);
  }
  return ts_compose_finish(k, ts_build_cast(b, sum, d));
}
