/* Adjoints of what depends on the order of elements: the gradient goes where the element
 * came from. */
#include "ir/adjoint/common.h"

#include <math.h>

static TsVal along(TsBuild *b, TsOp op, int n, TsVal *in, int axis) {
  return ts_build(b, op, n, in, TS_ATTRS({"axis", ts_b_int(axis)}), NULL);
}

/* Zeros like x with g at index; no index twice along the axis, or with op scatter_add. */
static TsVal put(TsBuild *b, TsOp op, TsVal x, TsVal index, TsVal g, int axis) {
  TsVal in[3] = {ts_build_zeros_like(b, x), index, g};
  return along(b, op, 3, in, axis);
}

/* out[1] says where the elements of out[0] stood. */
static int scattered(TsAdjoint *a, TsOp op, int64_t axis) {
  TsVal g = a->grad[0];
  bool scalar = a->b->meta(a->b, a->in[0])->ndim == 0;
  a->grad_in[0] = scalar ? g : put(a->b, op, a->in[0], a->out[1], g, (int)axis);
  return 0;
}

int ts_adjoint_sort(TsAdjoint *a) { return scattered(a, TS_OP_scatter, a->attr[0].i); }
int ts_adjoint_topk(TsAdjoint *a) { return scattered(a, TS_OP_scatter, a->attr[1].i); }
int ts_adjoint_cummax(TsAdjoint *a) { return scattered(a, TS_OP_scatter_add, a->attr[0].i); }

/* Equal elements share. */
int ts_adjoint_unique(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal share = ts_build_div(b, a->grad[0], a->out[2]);
  a->grad_in[0] = ts_build2(b, TS_OP_take, share, a->out[1]);
  return 0;
}

/* ---- median and quantile */
/* (1 - t, t) along the axis. */
static TsVal weights(TsBuild *b, double t, int after, TsDtype d) {
  int64_t dim[TS_MAX_RANK] = {2};
  for (int i = 1; i <= after; i++) dim[i] = 1;
  TsVal w = ts_build(b, TS_OP_linspace, 0, NULL,
                     TS_ATTRS({"start", ts_b_f(1 - t)}, {"stop", ts_b_f(t)},
                              {"num", ts_b_int(2)}, {"dtype", ts_b_dtype(d)}),
                     NULL);
  return after ? ts_build_reshape(b, w, dim, after + 1) : w;
}

/* The result lies q of the way along the sorted axis, between two elements or on one. */
static int interpolated(TsAdjoint *a, double q, const TsAttr *axis) {
  TsBuild *b = a->b;
  TsVal x = a->in[0], g = a->grad[0];
  TsMeta m = *b->meta(b, x), one;
  bool flat = axis->type == TS_ATTR_none || m.ndim == 0;
  int at = flat ? 0 : (int)(axis->i < 0 ? axis->i + m.ndim : axis->i);
  int64_t n = flat ? ts_meta_numel(&m) : m.dim[at];
  if (n == 0) return 0;
  if (flat) x = ts_build_reshape(b, x, &n, 1);
  double place = q * (double)(n - 1), t = place - floor(place);
  if (b->failed) return -1;
  one = *b->meta(b, x);
  one.dim[at] = 1;
  g = ts_build_reshape(b, g, one.dim, one.ndim);
  if (t > 0) g = ts_build_mul(b, g, weights(b, t, one.ndim - 1 - at, (TsDtype)m.dtype));
  TsVal index = along(b, TS_OP_argsort, 1, &x, at);
  index = ts_build_narrow(b, index, at, (int64_t)place, t > 0 ? 2 : 1);
  g = put(b, TS_OP_scatter, x, index, g, at);
  a->grad_in[0] = flat ? ts_build_reshape(b, g, m.dim, m.ndim) : g;
  return 0;
}

int ts_adjoint_median(TsAdjoint *a) { return interpolated(a, 0.5, &a->attr[0]); }
int ts_adjoint_quantile(TsAdjoint *a) { return interpolated(a, a->attr[0].f, &a->attr[1]); }

/* ---- histogram: the counts are whole; the edges stand between the extremes */
static int edges(TsCompose *k) {
  TsBuild *b = k->b;
  const TsAttr *low = &k->attr[1], *high = &k->attr[2];
  TsDtype d = (TsDtype)b->meta(b, k->in[0])->dtype;
  TsVal from =
      low->type == TS_ATTR_f ? b->number(b, low->f) : ts_build1(b, TS_OP_min, k->in[0]);
  TsVal to =
      high->type == TS_ATTR_f ? b->number(b, high->f) : ts_build1(b, TS_OP_max, k->in[0]);
  TsVal t = ts_build(b, TS_OP_linspace, 0, NULL,
                     TS_ATTRS({"start", ts_b_f(0)}, {"stop", ts_b_f(1)},
                              {"num", ts_b_int(k->attr[0].i + 1)}, {"dtype", ts_b_dtype(d)}),
                     NULL);
  TsVal rest = ts_build_sub(b, b->number(b, 1), t);
  k->out[0] = NULL;
  k->out[1] = ts_build_add(b, ts_build_mul(b, from, rest), ts_build_mul(b, to, t));
  k->nout = 2;
  return b->failed ? -1 : 0;
}

int ts_adjoint_histogram(TsAdjoint *a) { return ts_adjoint_by_definition(a, edges); }
