/* Adjoints of reductions. A gradient g has the shape of the reduced result; keepdims(a, g)
 * gives the reduced axes back as size 1, and ts_adjoint_fit spreads it over x. */
#include "ir/adjoint/common.h"

#include <math.h>
#include <string.h>

/* The attribute with the axes; keepdims follows it. */
static const TsAttr *axes_of(const TsAdjoint *a) {
  return &a->attr[a->op == TS_OP_norm ? 1 : 0];
}

/* Flags of the reduced axes of x; how many elements one result is made of. */
static int64_t reduced_axes(const TsAdjoint *a, bool reduced[TS_MAX_RANK]) {
  const TsAttr *axes = axes_of(a);
  const TsMeta *x = a->b->meta(a->b, a->in[0]);
  int64_t count = 1;
  memset(reduced, axes->type == TS_ATTR_none, TS_MAX_RANK);
  for (int i = 0; axes->type == TS_ATTR_ints && i < axes->n; i++)
    reduced[axes->ints[i] < 0 ? axes->ints[i] + x->ndim : axes->ints[i]] = true;
  for (int i = 0; i < x->ndim; i++) count *= reduced[i] ? x->dim[i] : 1;
  return count;
}

/* v, of the shape of the result, with the reduced axes as size 1. A single number needs
 * no axes to be spread. */
static TsVal keepdims(const TsAdjoint *a, TsVal v) {
  TsBuild *b = a->b;
  bool reduced[TS_MAX_RANK];
  int64_t dim[TS_MAX_RANK];
  if (!v || axes_of(a)[1].i || !b->meta(b, v)->ndim) return v;
  reduced_axes(a, reduced);
  TsMeta x = *b->meta(b, a->in[0]);
  for (int i = 0; i < x.ndim; i++) dim[i] = reduced[i] ? 1 : x.dim[i];
  return ts_build_reshape(b, v, dim, x.ndim);
}

int ts_adjoint_sum(TsAdjoint *a) {
  a->grad_in[0] = keepdims(a, a->grad[0]);
  return 0;
}

int ts_adjoint_mean(TsAdjoint *a) {
  bool reduced[TS_MAX_RANK];
  int64_t count = reduced_axes(a, reduced);
  TsVal parts = a->b->number(a->b, count > 1 ? (double)count : 1);
  a->grad_in[0] = keepdims(a, ts_build_div(a->b, a->grad[0], parts));
  return 0;
}

/* ---- statistics: in f32 where x is narrower */
/* op along the axes of a, as size 1. */
static TsVal along(const TsAdjoint *a, TsOp op, TsVal x) {
  return ts_build(a->b, op, TS_IN(x),
                  TS_ATTRS({"axis", axes_of(a)[0]}, {"keepdims", ts_b_bool(true)}), NULL);
}

/* factor g (x - mean) / (count - correction) */
static int centred(TsAdjoint *a, TsVal g, double factor) {
  TsBuild *b = a->b;
  bool reduced[TS_MAX_RANK];
  TsVal x = ts_common_wide(b, a->in[0]);
  double count = (double)reduced_axes(a, reduced) - a->attr[2].f;
  g = ts_build_scale(b, keepdims(a, g), factor / (count > 0 ? count : 0));
  a->grad_in[0] = ts_build_mul(b, g, ts_build_sub(b, x, along(a, TS_OP_mean, x)));
  return 0;
}

int ts_adjoint_var(TsAdjoint *a) { return centred(a, a->grad[0], 2); }

/* 0 where all elements are equal. */
int ts_adjoint_std(TsAdjoint *a) {
  return centred(a, ts_build_div(a->b, a->grad[0], ts_common_divisor(a->b, a->out[0])), 1);
}

/* g shared by the elements for which chosen is true. */
static TsVal shared(const TsAdjoint *a, TsVal g, TsVal chosen) {
  TsBuild *b = a->b;
  TsVal share = ts_build_div(b, keepdims(a, g), along(a, TS_OP_sum, chosen));
  return ts_build_where(b, chosen, share, b->number(b, 0));
}

/* Equal ones share, or those that are NaN. */
int ts_adjoint_extreme(TsAdjoint *a) {
  TsVal chosen = ts_common_chosen(a->b, a->in[0], keepdims(a, a->out[0]));
  a->grad_in[0] = shared(a, a->grad[0], chosen);
  return 0;
}

int ts_adjoint_logsumexp(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_common_wide(b, a->in[0]);
  TsVal y = x == a->in[0] ? keepdims(a, a->out[0]) : along(a, TS_OP_logsumexp, x);
  TsVal part = ts_build1(b, TS_OP_exp, ts_build_sub(b, x, y));
  a->grad_in[0] = ts_build_mul(b, keepdims(a, a->grad[0]), part);
  return 0;
}

/* sign(x) (|x| / norm)^(p-1), 0 where x or the norm is. */
static TsVal general_norm(TsAdjoint *a, TsVal x, TsVal size, double p) {
  TsBuild *b = a->b;
  TsVal whole = ts_common_divisor(b, keepdims(a, a->out[0]));
  TsVal ratio = ts_build_div(b, size, whole);
  if (p < 1) ratio = ts_common_divisor(b, ratio);
  ratio = ts_build2(b, TS_OP_pow, ratio, b->number(b, p - 1));
  return ts_build_mul(b, ts_build1(b, TS_OP_sign, x), ratio);
}

int ts_adjoint_norm(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_common_wide(b, a->in[0]), g = a->grad[0];
  double p = a->attr[0].f;
  if (p == 0) return 0;
  if (p == 2) {
    g = ts_build_div(b, g, ts_common_divisor(b, a->out[0]));
    a->grad_in[0] = ts_build_mul(b, x, keepdims(a, g));
  } else if (p == 1) {
    a->grad_in[0] = ts_build_mul(b, ts_build1(b, TS_OP_sign, x), keepdims(a, g));
  } else if (isinf(p)) {
    TsVal size = ts_build1(b, TS_OP_abs, a->in[0]);
    TsVal chosen = ts_common_chosen(b, size, keepdims(a, a->out[0]));
    a->grad_in[0] = ts_build_mul(b, ts_build1(b, TS_OP_sign, x), shared(a, g, chosen));
  } else {
    TsVal size = ts_build1(b, TS_OP_abs, x);
    a->grad_in[0] = ts_build_mul(b, keepdims(a, g), general_norm(a, x, size, p));
  }
  return 0;
}

/* ---- products: of all others, without division, so that zeros are no exception */
static TsVal others(TsBuild *b, TsVal x, int axis) {
  TsVal before = ts_common_previous(b, ts_common_scan(b, TS_OP_cumprod, x, axis), axis, 1);
  TsVal after = ts_common_scan(b, TS_OP_cumprod, ts_common_flip(b, x, axis), axis);
  after = ts_common_flip(b, ts_common_previous(b, after, axis, 1), axis);
  return ts_build_mul(b, before, after);
}

/* Several reduced axes as one, the last, and back. */
static TsVal others_together(TsBuild *b, TsVal x, const bool *reduced) {
  TsMeta m = *b->meta(b, x);
  int64_t perm[TS_MAX_RANK], back[TS_MAX_RANK], dim[TS_MAX_RANK], rows[2] = {1, 1};
  int n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < m.ndim; i++)
      if (reduced[i] == pass) rows[pass] *= m.dim[i], back[i] = n, perm[n++] = i;
  for (int i = 0; i < n; i++) dim[i] = m.dim[perm[i]];
  x = ts_build_reshape(b, ts_build_permute(b, x, perm, n), rows, 2);
  x = ts_build_reshape(b, others(b, x, 1), dim, n);
  return ts_build_permute(b, x, back, n);
}

int ts_adjoint_prod(TsAdjoint *a) {
  TsBuild *b = a->b;
  bool reduced[TS_MAX_RANK];
  TsVal x = ts_common_wide(b, a->in[0]);
  TsMeta m = *b->meta(b, a->in[0]);
  int count = 0, axis = 0;
  if (!reduced_axes(a, reduced) || b->failed) return 0;
  for (int i = 0; i < m.ndim; i++)
    if (reduced[i] && m.dim[i] != 1) axis = i, count++;
  a->grad_in[0] = keepdims(a, a->grad[0]);
  if (count == 0) return 0;
  TsVal factor = count == 1 ? others(b, x, axis) : others_together(b, x, reduced);
  a->grad_in[0] = ts_build_mul(b, a->grad_in[0], ts_build_conj(b, factor));
  return 0;
}
