/* Adjoints of activations: g times the derivative, made in f32 where x is narrower, in
 * few steps, finite for every finite x. */
#include "ir/adjoint_parts.h"

#include <math.h>

static TsVal number(TsBuild *b, double v) { return b->number(b, v); }
static TsVal op1(TsBuild *b, TsOp op, TsVal x) { return ts_build1(b, op, x); }

static TsVal fma3(TsBuild *b, TsVal x, TsVal y, TsVal z) {
  return ts_build(b, TS_OP_fma, TS_IN(x, y, z), TS_NO_ATTRS, NULL);
}

static int times(TsAdjoint *a, TsVal derivative) {
  a->grad_in[0] = ts_build_mul(a->b, a->grad[0], derivative);
  return 0;
}

/* ---- in pieces */
int ts_adjoint_relu(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal flat = ts_build2(b, TS_OP_le, a->out[0], number(b, 0));
  a->grad_in[0] = ts_build_where(b, flat, number(b, 0), a->grad[0]);
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
  TsVal d = op1(b, TS_OP_exp, low);
  if (alpha != 1) {
    TsVal steep = ts_build2(b, TS_OP_gt, a->in[0], number(b, 0));
    d = ts_build_where(b, steep, number(b, 1), ts_build_scale(b, d, alpha));
  }
  return times(a, d);
}

/* 0 up to -3, x/3 + 1/2, 1 from 3 on. */
int ts_adjoint_hardswish(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_part_wide(b, a->in[0]);
  TsVal d = fma3(b, x, number(b, 1.0 / 3), number(b, 0.5));
  d = ts_build_where(b, ts_build2(b, TS_OP_ge, x, number(b, 3)), number(b, 1), d);
  d = ts_build_where(b, ts_build2(b, TS_OP_le, x, number(b, -3)), number(b, 0), d);
  return times(a, d);
}

/* ---- smooth */
int ts_adjoint_softplus(TsAdjoint *a) { return times(a, op1(a->b, TS_OP_sigmoid, a->in[0])); }

/* The derivative of x s with s = sigmoid(v), of which slope is x v': s + s (1 - s) slope. */
static TsVal gated(TsBuild *b, TsVal s, TsVal slope) {
  TsVal rest = ts_build_sub(b, number(b, 1), s);
  return ts_build_mul(b, s, fma3(b, slope, rest, number(b, 1)));
}

int ts_adjoint_silu(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_part_wide(b, a->in[0]);
  return times(a, gated(b, op1(b, TS_OP_sigmoid, x), x));
}

/* gelu_tanh is x sigmoid(v), v = 2 sqrt(2/pi) (x + 0.044715 x^3). Beyond +-64 it is 0 or
 * 1 in every type; the limit keeps the cube finite. */
int ts_adjoint_gelu_tanh(TsAdjoint *a) {
  TsBuild *b = a->b;
  double c1 = 2 * sqrt(2 / M_PI), c3 = c1 * 0.044715;
  TsVal x = ts_build(b, TS_OP_clamp, TS_IN(ts_part_wide(b, a->in[0])),
                     TS_ATTRS({"min", ts_b_f(-64)}, {"max", ts_b_f(64)}), NULL);
  TsVal x2 = op1(b, TS_OP_square, x);
  TsVal v = ts_build_mul(b, x, fma3(b, x2, number(b, c3), number(b, c1)));
  TsVal slope = ts_build_mul(b, x, fma3(b, x2, number(b, 3 * c3), number(b, c1)));
  return times(a, gated(b, op1(b, TS_OP_sigmoid, v), slope));
}

/* Phi(x) + x phi(x), Phi from erfc, which is accurate in the tail. */
int ts_adjoint_gelu_erf(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_part_wide(b, a->in[0]);
  TsVal phi = op1(b, TS_OP_exp, ts_build_scale(b, op1(b, TS_OP_square, x), -0.5));
  TsVal tail = op1(b, TS_OP_erfc, ts_build_scale(b, x, -M_SQRT1_2));
  phi = ts_build_mul(b, ts_build_scale(b, phi, M_2_SQRTPI * M_SQRT1_2 / 2), x);
  return times(a, fma3(b, tail, number(b, 0.5), phi));
}

/* t + x (1 - t^2) sigmoid(x), t = tanh(softplus(x)). */
int ts_adjoint_mish(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = ts_part_wide(b, a->in[0]), t = op1(b, TS_OP_tanh, op1(b, TS_OP_softplus, x));
  TsVal rest = fma3(b, ts_build_neg(b, t), t, number(b, 1));
  TsVal slope = ts_build_mul(b, x, op1(b, TS_OP_sigmoid, x));
  return times(a, fma3(b, slope, rest, t));
}
