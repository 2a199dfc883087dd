/* Adjoints of activations: g times the derivative, made in f32 where x is narrower, in
 * few steps, finite for every finite x. */
#include "ir/adjoint/common.h"

#include <math.h>

static TsVal number(TsBuild *b, double v) { return b->number(b, v); }

static TsVal fma3(TsBuild *b, TsVal x, TsVal y, TsVal z) {
  return ts_build(b, TS_OP_fma, TS_IN(x, y, z), TS_NO_ATTRS, NULL);
}

static int times(TsAdjoint *a, TsVal derivative) {
  a->grad_in[0] = ts_build_mul(a->b, a->grad[0], derivative);
  return 0;
}

/* ---- in pieces */
int ts_adjoint_relu(TsAdjoint *a) {
  a->grad_in[0] = ts_common_open(a->b, a->out[0], a->grad[0]);
  return 0;
}

int ts_adjoint_leaky_relu(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal steep = ts_build2(b, TS_OP_gt, a->in[0], number(b, 0));
  TsVal slow = ts_build_scale(b, a->grad[0], a->attr[0].f);
  a->grad_in[0] = ts_build_where(b, steep, a->grad[0], slow);
  return 0;
}

/* alpha e^x below 0. The exponential is that of min(x, 0): it never overflows, and is
 * the whole derivative where alpha is 1. */
int ts_adjoint_elu(TsAdjoint *a) {
  TsBuild *b = a->b;
  double alpha = a->attr[0].f;
  TsVal low = ts_build(b, TS_OP_clamp, TS_IN(a->in[0]), TS_ATTRS({"max", ts_b_f(0)}), NULL);
  TsVal d = ts_build1(b, TS_OP_exp, low);
  if (alpha != 1) {
    TsVal steep = ts_build2(b, TS_OP_gt, a->in[0], number(b, 0));
    d = ts_build_where(b, steep, number(b, 1), ts_build_scale(b, d, alpha));
  }
  return times(a, d);
}

/* 0 up to -3, x/3 + 1/2, 1 from 3 on. */
int ts_adjoint_hardswish(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_common_wide(b, a->in[0]);
  TsVal d = fma3(b, x, number(b, 1.0 / 3), number(b, 0.5));
  d = ts_build_where(b, ts_build2(b, TS_OP_ge, x, number(b, 3)), number(b, 1), d);
  d = ts_build_where(b, ts_build2(b, TS_OP_le, x, number(b, -3)), number(b, 0), d);
  return times(a, d);
}

/* ---- smooth */
int ts_adjoint_softplus(TsAdjoint *a) {
  TsBuild *b = a->b;
  double beta = a->attr[0].f, threshold = a->attr[1].f;
  TsVal x = a->in[0], u = beta == 1 ? x : ts_build_scale(b, x, beta);
  TsVal d = ts_build1(b, TS_OP_sigmoid, u);
  if (threshold != INFINITY)
    d = ts_build_where(b, ts_build2(b, TS_OP_gt, u, number(b, threshold)), number(b, 1), d);
  return times(a, d);
}

/* t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x)). */
int ts_adjoint_mish(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_common_wide(b, a->in[0]),
        t = ts_build1(b, TS_OP_tanh, ts_build1(b, TS_OP_softplus, x));
  TsVal rest = fma3(b, ts_build_neg(b, t), t, number(b, 1));
  TsVal slope = ts_build_mul(b, x, ts_build1(b, TS_OP_sigmoid, x));
  return times(a, fma3(b, slope, rest, t));
}
