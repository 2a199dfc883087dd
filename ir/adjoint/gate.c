/* Adjoints of gelu_erf, gelu_tanh and silu, which are x times a distribution function of
 * x: each has a row for its gradient, differentiated by its definition below. */
#include "ir/adjoint/adjoint.h"

#include <math.h>

int ts_adjoint_gate(TsAdjoint *a) {
  TsOp op = a->op == TS_OP_silu        ? TS_OP_silu_grad
            : a->op == TS_OP_gelu_tanh ? TS_OP_gelu_tanh_grad
                                       : TS_OP_gelu_erf_grad;
  a->grad_in[0] = ts_build2(a->b, op, a->in[0], a->grad[0]);
  return 0;
}

static TsVal number(TsBuild *b, double v) { return b->number(b, v); }

static TsVal fma3(TsBuild *b, TsVal x, TsVal y, TsVal z) {
  return ts_build(b, TS_OP_fma, TS_IN(x, y, z), TS_NO_ATTRS, NULL);
}

/* The derivative of x s with s = sigmoid(v), of which slope is x v': s + s (1 - s) slope. */
static TsVal gated(TsBuild *b, TsVal s, TsVal slope) {
  TsVal rest = ts_build_sub(b, number(b, 1), s);
  return ts_build_mul(b, s, fma3(b, slope, rest, number(b, 1)));
}

static TsVal silu(TsBuild *b, TsVal x) { return gated(b, ts_build1(b, TS_OP_sigmoid, x), x); }

/* gelu_tanh is x sigmoid(v), v = 2 sqrt(2/pi) (x + 0.044715 x^3). Beyond +-64 it is 0 or
 * 1 in every type; the limit keeps the cube finite. */
static TsVal gelu_tanh(TsBuild *b, TsVal x) {
  double c1 = 2 * sqrt(2 / M_PI), c3 = c1 * 0.044715;
  x = ts_build(b, TS_OP_clamp, TS_IN(x), TS_ATTRS({"min", ts_b_f(-64)}, {"max", ts_b_f(64)}),
               NULL);
  TsVal x2 = ts_build1(b, TS_OP_square, x);
  TsVal v = ts_build_mul(b, x, fma3(b, x2, number(b, c3), number(b, c1)));
  TsVal slope = ts_build_mul(b, x, fma3(b, x2, number(b, 3 * c3), number(b, c1)));
  return gated(b, ts_build1(b, TS_OP_sigmoid, v), slope);
}

/* Phi(x) + x phi(x), Phi from erfc, which is accurate in the tail. */
static TsVal gelu_erf(TsBuild *b, TsVal x) {
  TsVal phi = ts_build1(b, TS_OP_exp, ts_build_scale(b, ts_build1(b, TS_OP_square, x), -0.5));
  TsVal tail = ts_build1(b, TS_OP_erfc, ts_build_scale(b, x, -M_SQRT1_2));
  phi = ts_build_mul(b, ts_build_scale(b, phi, M_2_SQRTPI * M_SQRT1_2 / 2), x);
  return fma3(b, tail, number(b, 0.5), phi);
}

/* g times the derivative, which is made in the type that functions are computed in. */
static int gate_grad(TsCompose *k) {
  TsBuild *b = k->b;
  TsVal x = k->in[0];
  const TsMeta *m = b->meta(b, x);
  bool number = m->weak || !ts_dtype_is((TsDtype)m->dtype, TS_KIND_F);
  TsDtype d = (TsDtype)(number ? b->meta(b, k->in[1]) : m)->dtype;
  TsDtype wide = (TsDtype)ts_dtypes[d].compute;
  if (number || d != wide) x = ts_build_cast(b, x, wide);
  TsVal slope = k->op == TS_OP_silu_grad        ? silu(b, x)
                : k->op == TS_OP_gelu_tanh_grad ? gelu_tanh(b, x)
                                                : gelu_erf(b, x);
  k->out[0] = ts_build_mul(b, k->in[1], slope);
  return b->failed ? -1 : 0;
}

int ts_adjoint_gate_grad(TsAdjoint *a) { return ts_adjoint_by_definition(a, gate_grad); }
