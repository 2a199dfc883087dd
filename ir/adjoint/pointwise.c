/* Adjoints of arithmetic, element by element. g stands for the gradient of the result.
 * Activations are in ir/adjoint/activation.c, elementary functions in ir/adjoint/elementary.c. */
#include "ir/adjoint/common.h"

#include <math.h>

/* ---- linear */
int ts_adjoint_neg(TsAdjoint *a) {
  a->grad_in[0] = ts_build_neg(a->b, a->grad[0]);
  return 0;
}

int ts_adjoint_add(TsAdjoint *a) {
  a->grad_in[0] = a->grad_in[1] = a->grad[0];
  return 0;
}

int ts_adjoint_sub(TsAdjoint *a) {
  a->grad_in[0] = a->grad[0];
  if (ts_wanted(a, 1)) a->grad_in[1] = ts_build_neg(a->b, a->grad[0]);
  return 0;
}

int ts_adjoint_where(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0], zero = b->number(b, 0);
  if (ts_wanted(a, 1)) a->grad_in[1] = ts_build_where(b, a->in[0], g, zero);
  if (ts_wanted(a, 2)) a->grad_in[2] = ts_build_where(b, a->in[0], zero, g);
  return 0;
}

/* The fit to a complex x makes g complex. */
int ts_adjoint_real(TsAdjoint *a) {
  a->grad_in[0] = a->grad[0];
  return 0;
}

int ts_adjoint_imag(TsAdjoint *a) {
  TsBuild *b = a->b;
  if (ts_common_is_complex(b, a->in[0]))
    a->grad_in[0] = ts_build2(b, TS_OP_complex, b->number(b, 0), a->grad[0]);
  return 0;
}

int ts_adjoint_conj(TsAdjoint *a) {
  a->grad_in[0] = ts_build_conj(a->b, a->grad[0]);
  return 0;
}

int ts_adjoint_complex(TsAdjoint *a) {
  TsBuild *b = a->b;
  if (ts_wanted(a, 0)) a->grad_in[0] = ts_build1(b, TS_OP_real, a->grad[0]);
  if (ts_wanted(a, 1)) a->grad_in[1] = ts_build1(b, TS_OP_imag, a->grad[0]);
  return 0;
}

/* ---- products and quotients */
int ts_adjoint_mul(TsAdjoint *a) {
  TsBuild *b = a->b;
  if (ts_wanted(a, 0)) a->grad_in[0] = ts_build_mul(b, a->grad[0], ts_build_conj(b, a->in[1]));
  if (ts_wanted(a, 1)) a->grad_in[1] = ts_build_mul(b, a->grad[0], ts_build_conj(b, a->in[0]));
  return 0;
}

/* By x: g / y; by y: -g x / y^2, with the quotient that is there. */
int ts_adjoint_div(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal gx = ts_build_div(b, a->grad[0], ts_build_conj(b, a->in[1]));
  a->grad_in[0] = gx;
  if (ts_wanted(a, 1))
    a->grad_in[1] = ts_build_neg(b, ts_build_mul(b, gx, ts_build_conj(b, a->out[0])));
  return 0;
}

int ts_adjoint_fma(TsAdjoint *a) {
  ts_adjoint_mul(a);
  a->grad_in[2] = a->grad[0];
  return 0;
}

/* x - floor(x / y) y. */
int ts_adjoint_mod(TsAdjoint *a) {
  TsBuild *b = a->b;
  a->grad_in[0] = a->grad[0];
  if (!ts_wanted(a, 1)) return 0;
  TsVal times = ts_build2(b, TS_OP_floordiv, a->in[0], a->in[1]);
  a->grad_in[1] = ts_build_neg(b, ts_build_mul(b, a->grad[0], times));
  return 0;
}

/* ---- choices */
/* The gradient goes to the chosen one, half to each of equals, to both where either is
 * NaN. */
static int extreme(TsAdjoint *a, TsOp x_loses, TsOp y_loses) {
  TsBuild *b = a->b;
  TsVal x = a->in[0], y = a->in[1], g = a->grad[0], zero = b->number(b, 0);
  g = ts_build_where(b, ts_build2(b, TS_OP_eq, x, y), ts_build_scale(b, g, 0.5), g);
  if (ts_wanted(a, 0)) a->grad_in[0] = ts_build_where(b, ts_build2(b, x_loses, x, y), zero, g);
  if (ts_wanted(a, 1)) a->grad_in[1] = ts_build_where(b, ts_build2(b, y_loses, x, y), zero, g);
  return 0;
}

int ts_adjoint_minimum(TsAdjoint *a) { return extreme(a, TS_OP_gt, TS_OP_lt); }
int ts_adjoint_maximum(TsAdjoint *a) { return extreme(a, TS_OP_lt, TS_OP_gt); }

/* 1 from min to max, both included; 0 where x is NaN. */
int ts_adjoint_clamp(TsAdjoint *a) {
  TsBuild *b = a->b;
  double min = a->attr[0].f, max = a->attr[1].f;
  TsVal inside = NULL, below = NULL;
  if (min != -INFINITY) inside = ts_build2(b, TS_OP_ge, a->in[0], b->number(b, min));
  if (max != INFINITY) below = ts_build2(b, TS_OP_le, a->in[0], b->number(b, max));
  if (inside && below) inside = ts_build2(b, TS_OP_logical_and, inside, below);
  if (!inside) inside = below;
  a->grad_in[0] = inside ? ts_build_where(b, inside, a->grad[0], b->number(b, 0)) : a->grad[0];
  return 0;
}

/* x - trunc(x) */
int ts_adjoint_frac(TsAdjoint *a) {
  a->grad_in[0] = a->grad[0];
  return 0;
}
