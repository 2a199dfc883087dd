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
static TsVal weighted(TsBuild *b, TsVal rows, TsVal weights, TsDtype d) {
  TsDtype wide = (TsDtype)ts_dtypes[d].compute;
  if (b->failed) return NULL;
  if (weights && b->meta(b, weights)->dtype == TS_DT_f64) wide = TS_DT_f64;
  int axis = b->meta(b, rows)->ndim - 2;
  int64_t choices = b->meta(b, rows)->dim[axis];
  if (weights) /* widened all at once, where they are made */
    weights = ts_build(b, TS_OP_unsqueeze, TS_IN(ts_build_cast(b, weights, wide)),
                       TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  TsVal sum = b->number(b, 0);
  for (int64_t j = 0; j < choices && !b->failed; j++) {
    TsVal row = choice(b, rows, axis, j, wide);
    if (weights)
      sum = ts_build(b, TS_OP_fma, TS_IN(choice(b, weights, axis, j, wide), row, sum),
                     TS_NO_ATTRS, NULL);
    else
      sum = ts_build_add(b, row, sum);
  }
  return ts_build_cast(b, sum, d);
}

int ts_compose_moe_combine(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal rows = k->in[0], place = k->nin > 1 ? k->given[1] : NULL,
        weights = k->nin > 3 ? k->in[3] : NULL;
  TsDtype d = (TsDtype)b->meta(b, rows)->dtype;
  TsMeta w = weights ? *b->meta(b, weights) : (TsMeta){0};
  if (check_combine(k, b->meta(b, rows), place ? b->meta(b, place) : NULL, weights ? &w : NULL))
    return -1;
  if (place) rows = routed(b, rows, place, k->given[2], 1);
  return ts_compose_finish(k, weighted(b, rows, weights, d));
}

/* ---- all of it */
enum { X, WEIGHTS, INDEX, UP, DOWN, UP_BIAS, DOWN_BIAS };
enum { GELU, RELU, SILU, SWIGLU };

/* Rows of each expert times its matrix; a bias is a product with ones. */
static TsVal product(TsBuild *b, TsVal rows, TsVal w, TsVal bias, TsVal sizes) {
  TsVal y = ts_build(b, TS_OP_grouped_matmul, TS_IN(rows, w, sizes), TS_NO_ATTRS, NULL);
  if (!bias || b->failed) return y;
  int64_t dim[2] = {b->meta(b, rows)->dim[0], 1};
  TsVal ones = ts_build(b, TS_OP_ones, 0, NULL,
                        TS_ATTRS({"shape", ts_b_ints(dim, 2)},
                                 {"dtype", ts_b_dtype((TsDtype)b->meta(b, rows)->dtype)}),
                        NULL);
  bias = ts_build(b, TS_OP_unsqueeze, TS_IN(bias), TS_ATTRS({"axis", ts_b_int(1)}), NULL);
  return ts_build_add(
      b, y, ts_build(b, TS_OP_grouped_matmul, TS_IN(ones, bias, sizes), TS_NO_ATTRS, NULL));
}

static TsVal activated(TsBuild *b, TsVal h, int64_t activation) {
  static const TsOp op[] = {[GELU] = TS_OP_gelu_erf, [RELU] = TS_OP_relu, [SILU] = TS_OP_silu};
  if (activation != SWIGLU || b->failed) return ts_build1(b, op[activation % SWIGLU], h);
  int64_t n = b->meta(b, h)->dim[1] / 2;
  TsVal gate = ts_build1(b, TS_OP_silu, ts_build_narrow(b, h, 1, 0, n));
  return ts_build_mul(b, gate, ts_build_narrow(b, h, 1, n, n));
}

static int check_moe(TsCompose *k) {
  const TsMeta *up = k->b->meta(k->b, k->in[UP]), *down = k->b->meta(k->b, k->in[DOWN]);
  char tu[TS_META_TEXT], td[TS_META_TEXT];
  if (up->ndim == 3 && down->ndim == 3 && up->dim[0] == down->dim[0]) return 0;
  return ts_build_fail(k->b, TS_ERR_shape,
                       "moe: up [experts, d, h] and down [experts, h, d] do not fit: %s x %s",
                       ts_meta_text(up, tu), ts_meta_text(down, td));
}

int ts_compose_moe(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal of[5] = {NULL}; /* rows, sizes, place, source, dropped */
  if (check_moe(k)) return -1;
  TsVal up_bias = k->nin > UP_BIAS ? k->in[UP_BIAS] : NULL;
  TsVal down_bias = k->nin > DOWN_BIAS ? k->in[DOWN_BIAS] : NULL;
  TsDtype d = (TsDtype)b->meta(b, k->in[X])->dtype;
  ts_build(b, TS_OP_moe_dispatch, TS_IN(k->in[X], k->given[INDEX]),
           TS_ATTRS({"experts", ts_b_int(b->meta(b, k->in[UP])->dim[0])}), of);
  TsVal h = product(b, of[0], k->in[UP], up_bias, of[1]);
  TsVal y = product(b, activated(b, h, k->attr[0].i), k->in[DOWN], down_bias, of[1]);
  return ts_compose_finish(k, weighted(b, routed(b, y, of[2], of[3], 1), k->in[WEIGHTS], d));
}
