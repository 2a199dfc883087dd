/* Adjoints of scans. Most gradients of running results are linear recurrences from the
 * end of the axis, s[i] = g[i] + c[i+1] s[i+1], and neither divide nor overflow where the
 * scan itself does not. */
#include "ir/adjoint/common.h"

#include <float.h>
#include <math.h>

/* The axis of the scan; that of a scalar is none. */
static int axis_of(const TsAdjoint *a) {
  int nd = a->b->meta(a->b, a->out[0])->ndim;
  int64_t axis = a->attr[0].i;
  return (int)(axis < 0 ? axis + nd : axis);
}

/* No axis, or nothing on it: the gradient passes. */
static bool trivial(const TsAdjoint *a) {
  const TsMeta *m = a->b->meta(a->b, a->out[0]);
  return m->ndim == 0 || m->dim[axis_of(a)] == 0;
}

int ts_adjoint_cumsum(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  a->grad_in[0] = a->grad[0];
  if (trivial(a)) return 0;
  TsVal g = ts_common_scan(b, TS_OP_cumsum, ts_common_flip(b, a->grad[0], axis), axis);
  a->grad_in[0] = ts_common_flip(b, g, axis);
  return 0;
}

/* The product of what stands before, times what follows from here on. */
int ts_adjoint_cumprod(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  a->grad_in[0] = a->grad[0];
  if (trivial(a)) return 0;
  TsVal before = ts_build_conj(b, ts_common_previous(b, a->out[0], axis, 1));
  TsVal after = ts_common_from_end(b, ts_build_conj(b, a->in[0]), a->grad[0], axis);
  a->grad_in[0] = ts_build_mul(b, before, after);
  return 0;
}

int ts_adjoint_linear_scan(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  if (trivial(a)) {
    a->grad_in[1] = a->grad[0];
    return 0;
  }
  TsVal g = ts_common_from_end(b, ts_build_conj(b, a->in[0]), a->grad[0], axis);
  a->grad_in[1] = g;
  if (ts_wanted(a, 0))
    a->grad_in[0] =
        ts_build_mul(b, g, ts_build_conj(b, ts_common_previous(b, a->out[0], axis, 0)));
  return 0;
}

/* The sum of g[j] e^(x[i] - y[j]) over j >= i, as e^(x[i] - y[i]) times a recurrence with
 * the factors e^(y[i] - y[i+1]), which are at most 1. The limit makes differences of -inf
 * numbers. */
int ts_adjoint_logcumsumexp(TsAdjoint *a) {
  TsBuild *b = a->b;
  int axis = axis_of(a);
  a->grad_in[0] = a->grad[0];
  if (trivial(a)) return 0;
  TsVal x = ts_common_wide(b, a->in[0]);
  TsVal y = x == a->in[0] ? a->out[0] : ts_common_scan(b, TS_OP_logcumsumexp, x, axis);
  double least = b->meta(b, a->in[0])->dtype == TS_DT_f64 ? -DBL_MAX : -FLT_MAX;
  y = ts_build(b, TS_OP_clamp, TS_IN(y), TS_ATTRS({"min", ts_b_f(least)}), NULL);
  TsVal before = ts_common_previous(b, y, axis, -INFINITY);
  TsVal fall = ts_build1(b, TS_OP_exp, ts_build_sub(b, before, y));
  TsVal part = ts_build1(b, TS_OP_exp, ts_build_sub(b, x, y));
  a->grad_in[0] = ts_build_mul(b, part, ts_common_from_end(b, fall, a->grad[0], axis));
  return 0;
}
