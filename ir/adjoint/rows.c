/* Adjoints of softmax, log_softmax, layernorm, rmsnorm and cross_entropy: each is a row
 * of its own with a kernel. Those rows are differentiated by their definitions in other
 * operators, which stand below them: in f32 for narrower floats, as the kernels compute. */
#include "ir/adjoint/common.h"

static TsVal keep_sum(TsBuild *b, TsVal x, const int64_t *axis, int n) {
  return ts_build_sum(b, x, axis, n, true);
}

static TsVal keep_mean(TsBuild *b, TsVal x, const int64_t *axis, int n) {
  return ts_build(b, TS_OP_mean, TS_IN(x),
                  TS_ATTRS({"axis", ts_b_ints(axis, n)}, {"keepdims", ts_b_bool(true)}), NULL);
}

/* ---- softmax */
static int soft(TsAdjoint *a, TsOp op) {
  const TsVal in[2] = {a->out[0], a->grad[0]};
  a->grad_in[0] = a->b->emit(a->b, op, 2, in, a->attr, NULL);
  return 0;
}

int ts_adjoint_softmax(TsAdjoint *a) { return soft(a, TS_OP_softmax_grad); }
int ts_adjoint_log_softmax(TsAdjoint *a) { return soft(a, TS_OP_log_softmax_grad); }

/* y (g - sum(y g)) */
static int softmax_grad(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal y = ts_common_wide(b, k->in[0]), g = ts_common_wide(b, k->in[1]);
  TsVal s = keep_sum(b, ts_build_mul(b, y, g), &k->attr[0].i, b->meta(b, y)->ndim ? 1 : 0);
  k->out[0] = ts_build_mul(b, y, ts_build_sub(b, g, s));
  return b->failed ? -1 : 0;
}

/* g - e^y sum(g) */
static int log_softmax_grad(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal y = ts_common_wide(b, k->in[0]), g = ts_common_wide(b, k->in[1]);
  TsVal s = keep_sum(b, g, &k->attr[0].i, b->meta(b, y)->ndim ? 1 : 0);
  k->out[0] = ts_build_sub(b, g, ts_build_mul(b, ts_build1(b, TS_OP_exp, y), s));
  return b->failed ? -1 : 0;
}

int ts_adjoint_softmax_grad(TsAdjoint *a) { return ts_adjoint_by_definition(a, softmax_grad); }

int ts_adjoint_log_softmax_grad(TsAdjoint *a) {
  return ts_adjoint_by_definition(a, log_softmax_grad);
}

/* ---- norms */
static int norm(TsAdjoint *a, TsOp op) {
  TsBuild *b = a->b;
  bool layer = op == TS_OP_layernorm_grad, bias = layer && ts_wanted(a, 2);
  const TsVal in[3] = {a->in[0], ts_input(a, 1), a->grad[0]};
  TsVal out[TS_MAX_OUT] = {NULL};
  const TsBuildAttr attr[3] = {
      {"dims", a->attr[0]}, {"eps", a->attr[1]}, {"bias", ts_b_bool(bias)}};
  ts_build(b, op, 3, in, layer ? 3 : 2, attr, out);
  a->grad_in[0] = out[0];
  if (in[1]) a->grad_in[1] = out[1];
  if (bias) a->grad_in[2] = out[in[1] ? 2 : 1];
  return b->failed ? -1 : 0;
}

int ts_adjoint_layernorm(TsAdjoint *a) { return norm(a, TS_OP_layernorm_grad); }
int ts_adjoint_rmsnorm(TsAdjoint *a) { return norm(a, TS_OP_rmsnorm_grad); }

/* With xh = (x - mean) r, gw = g w: dx = (gw - mean(gw) - xh mean(gw xh)) r, the sums
 * over rows of g xh and g; rmsnorm has no means of x and gw. */
static int norm_grad(TsCompose *k, bool layer) {
  TsBuild *b = k->b;
  TsVal x = ts_common_wide(b, k->in[0]), w = ts_common_wide(b, k->in[1]);
  TsVal g = ts_common_wide(b, k->in[2]);
  int64_t last[TS_MAX_RANK], other[TS_MAX_RANK];
  TsMeta m = *b->meta(b, x);
  int dims = (int)k->attr[0].i, nother = m.ndim - dims;
  for (int i = 0; i < m.ndim; i++) (i < nother ? other : last - nother)[i] = i;
  TsVal xc = layer ? ts_build_sub(b, x, keep_mean(b, x, last, dims)) : x;
  TsVal var = keep_mean(b, ts_build1(b, TS_OP_square, xc), last, dims);
  TsVal r = ts_build1(b, TS_OP_rsqrt, ts_build_add(b, var, b->number(b, k->attr[1].f)));
  TsVal xh = ts_build_mul(b, xc, r), gw = w ? ts_build_mul(b, g, w) : g;
  TsVal c2 = keep_mean(b, ts_build_mul(b, gw, xh), last, dims);
  TsVal d = ts_build_sub(b, gw, ts_build_mul(b, xh, c2));
  if (layer) d = ts_build_sub(b, d, keep_mean(b, gw, last, dims));
  k->out[0] = ts_build_mul(b, d, r);
  if (w) k->out[k->nout++] = ts_build_sum(b, ts_build_mul(b, g, xh), other, nother, false);
  if (layer && k->attr[2].i) k->out[k->nout++] = ts_build_sum(b, g, other, nother, false);
  return b->failed ? -1 : 0;
}

static int layernorm_grad(TsCompose *k) { return norm_grad(k, true); }
static int rmsnorm_grad(TsCompose *k) { return norm_grad(k, false); }

int ts_adjoint_layernorm_grad(TsAdjoint *a) {
  return ts_adjoint_by_definition(a, layernorm_grad);
}

int ts_adjoint_rmsnorm_grad(TsAdjoint *a) { return ts_adjoint_by_definition(a, rmsnorm_grad); }

/* ---- cross entropy */
enum { MEAN, SUM, NONE }; /* words of the reduction option */

static bool of_indices(TsBuild *b, TsVal target) {
  return !ts_dtype_is((TsDtype)b->meta(b, target)->dtype, TS_KIND_F);
}

static TsVal last_unsqueezed(TsBuild *b, TsVal x) {
  return ts_build(b, TS_OP_unsqueeze, TS_IN(x), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
}

/* g for each element of the logits that counts: of rows for none, else one number,
 * divided by the number of rows that count for mean. */
static TsVal row_gradient(TsBuild *b, const TsAttr *attr, TsVal logits, TsVal target, TsVal g) {
  bool index = of_indices(b, target);
  TsMeta m = *b->meta(b, logits);
  TsVal counts = NULL;
  if (index) counts = ts_build2(b, TS_OP_ne, target, b->number(b, (double)attr[1].i));
  if (attr[0].i == NONE) g = last_unsqueezed(b, g);
  if (attr[0].i == MEAN && index) {
    TsVal n = ts_build_sum(b, ts_build_cast(b, counts, (TsDtype)m.dtype), NULL, 0, false);
    g = ts_build_div(b, g, m.ndim > 1 ? ts_build1(b, TS_OP_sum, n) : n);
  } else if (attr[0].i == MEAN) {
    double rows = 1;
    for (int i = 0; i < m.ndim - 1; i++) rows *= (double)m.dim[i];
    g = ts_build_scale(b, g, 1 / rows);
  }
  return counts ? ts_build_where(b, last_unsqueezed(b, counts), g, b->number(b, 0)) : g;
}

/* -log_softmax(logits) (1 - e), of the mean over classes nothing: it is the derivative
 * by p of -sum(log softmax * (p (1 - e) + e / C)). */
static TsVal target_gradient(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = row_gradient(b, a->attr, a->in[0], a->in[1], a->grad[0]);
  TsVal logp =
      ts_build(b, TS_OP_log_softmax, TS_IN(a->in[0]), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  return ts_build_scale(b, ts_build_mul(b, logp, g), a->attr[2].f - 1);
}

int ts_adjoint_cross_entropy(TsAdjoint *a) {
  const TsVal in[3] = {a->in[0], a->in[1], a->grad[0]};
  if (ts_wanted(a, 0))
    a->grad_in[0] = a->b->emit(a->b, TS_OP_cross_entropy_grad, 3, in, a->attr, NULL);
  if (ts_wanted(a, 1)) a->grad_in[1] = target_gradient(a);
  return 0;
}

/* Targets as probabilities, smoothed. */
static TsVal probabilities(TsBuild *b, const TsAttr *attr, TsVal logits, TsVal target) {
  TsMeta m = *b->meta(b, logits);
  int64_t classes = m.dim[m.ndim - 1];
  TsVal p = target;
  if (of_indices(b, target)) {
    TsVal all = ts_build(b, TS_OP_arange, 0, NULL,
                         TS_ATTRS({"start", ts_b_f(0)}, {"stop", ts_b_f((double)classes)},
                                  {"dtype", ts_b_dtype(TS_DT_i64)}),
                         NULL);
    p = ts_build2(b, TS_OP_eq, last_unsqueezed(b, target), all);
    p = ts_build_cast(b, p, (TsDtype)m.dtype);
  }
  double e = attr[2].f;
  if (e == 0) return p;
  return ts_build_add(b, ts_build_scale(b, p, 1 - e), b->number(b, e / (double)classes));
}

/* (softmax(logits) sum(p') - p') g */
static int cross_entropy_grad(TsCompose *k) {
  TsBuild *b = k->b;
  int64_t last = -1;
  TsVal x = ts_common_wide(b, k->in[0]);
  TsVal p = probabilities(b, k->attr, x, k->in[1]);
  TsVal g = row_gradient(b, k->attr, x, k->in[1], ts_common_wide(b, k->in[2]));
  TsVal y = ts_build(b, TS_OP_softmax, TS_IN(x), TS_ATTRS({"axis", ts_b_int(-1)}), NULL);
  if (!of_indices(b, k->in[1])) y = ts_build_mul(b, y, keep_sum(b, p, &last, 1));
  k->out[0] = ts_build_mul(b, ts_build_sub(b, y, p), g);
  return b->failed ? -1 : 0;
}

int ts_adjoint_cross_entropy_grad(TsAdjoint *a) {
  return ts_adjoint_by_definition(a, cross_entropy_grad);
}
