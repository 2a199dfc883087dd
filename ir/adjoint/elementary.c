/* Adjoints of elementary functions: g times the conjugate of the derivative, from the
 * result where that says it. */
#include "ir/adjoint/common.h"

#include <math.h>

/* g times the conjugate of the derivative. */
static int times(TsAdjoint *a, TsVal derivative) {
  a->grad_in[0] = ts_build_mul(a->b, a->grad[0], ts_build_conj(a->b, derivative));
  return 0;
}

static int over(TsAdjoint *a, TsVal divisor) {
  a->grad_in[0] = ts_build_div(a->b, a->grad[0], ts_build_conj(a->b, divisor));
  return 0;
}

static int negated(TsAdjoint *a) {
  a->grad_in[0] = ts_build_neg(a->b, a->grad_in[0]);
  return 0;
}

/* sign x^2 + 1, rounded once where x is real. */
static TsVal square_plus_1(TsBuild *b, TsVal x, int sign) {
  TsVal one = b->number(b, 1);
  if (!ts_common_is_complex(b, x)) {
    TsVal y = sign < 0 ? ts_build_neg(b, x) : x;
    return ts_build(b, TS_OP_fma, TS_IN(x, y, one), TS_NO_ATTRS, NULL);
  }
  TsVal square = ts_build1(b, TS_OP_square, x);
  return sign < 0 ? ts_build_sub(b, one, square) : ts_build_add(b, square, one);
}

/* ---- powers and roots */
int ts_adjoint_square(TsAdjoint *a) { return times(a, ts_build_scale(a->b, a->in[0], 2)); }

int ts_adjoint_reciprocal(TsAdjoint *a) {
  times(a, ts_build1(a->b, TS_OP_square, a->out[0]));
  return negated(a);
}

int ts_adjoint_sqrt(TsAdjoint *a) { return over(a, ts_build_scale(a->b, a->out[0], 2)); }

int ts_adjoint_rsqrt(TsAdjoint *a) {
  TsVal ratio = ts_build_div(a->b, a->out[0], a->in[0]);
  return times(a, ts_build_scale(a->b, ratio, -0.5));
}

/* A number or another dtype as the dtype of the result, so that functions of it are
 * computed in that. */
static TsVal as_result(TsAdjoint *a, TsVal x) {
  TsBuild *b = a->b;
  TsDtype d = (TsDtype)b->meta(b, a->out[0])->dtype;
  const TsMeta *m = b->meta(b, x);
  return m->weak || m->dtype != d ? ts_build_cast(b, x, d) : x;
}

/* By x: y x^(y-1), 0 where both are 0. */
static TsVal power_by_base(TsAdjoint *a, TsVal x, TsVal y) {
  TsBuild *b = a->b;
  TsVal some = ts_build2(b, TS_OP_logical_or, x, y);
  TsVal less = ts_build_where(b, some, ts_build_sub(b, y, b->number(b, 1)), b->number(b, 0));
  return ts_build_mul(b, y, ts_build2(b, TS_OP_pow, x, less));
}

/* By y: x^y log x, 0 where x is 0 and y is not below. */
static TsVal power_by_exponent(TsAdjoint *a, TsVal x, TsVal y) {
  TsBuild *b = a->b;
  TsVal re = ts_common_is_complex(b, y) ? ts_build1(b, TS_OP_real, y) : y;
  TsVal flat = ts_build2(b, TS_OP_logical_and, ts_build2(b, TS_OP_eq, x, b->number(b, 0)),
                         ts_build2(b, TS_OP_ge, re, b->number(b, 0)));
  TsVal base = ts_build_where(b, flat, b->number(b, 1), x);
  return ts_build_mul(b, a->out[0], ts_build1(b, TS_OP_log, base));
}

int ts_adjoint_pow(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = as_result(a, a->in[0]), y = as_result(a, a->in[1]), g = a->grad[0];
  if (b->failed) return -1;
  if (ts_wanted(a, 0))
    a->grad_in[0] = ts_build_mul(b, g, ts_build_conj(b, power_by_base(a, x, y)));
  if (ts_wanted(a, 1))
    a->grad_in[1] = ts_build_mul(b, g, ts_build_conj(b, power_by_exponent(a, x, y)));
  return 0;
}

/* ---- exponentials and logarithms */
int ts_adjoint_exp(TsAdjoint *a) { return times(a, a->out[0]); }

int ts_adjoint_exp2(TsAdjoint *a) { return times(a, ts_build_scale(a->b, a->out[0], M_LN2)); }

int ts_adjoint_expm1(TsAdjoint *a) {
  return times(a, ts_build_add(a->b, a->out[0], a->b->number(a->b, 1)));
}

int ts_adjoint_log(TsAdjoint *a) { return over(a, a->in[0]); }
int ts_adjoint_log2(TsAdjoint *a) { return over(a, ts_build_scale(a->b, a->in[0], M_LN2)); }
int ts_adjoint_log10(TsAdjoint *a) { return over(a, ts_build_scale(a->b, a->in[0], M_LN10)); }

int ts_adjoint_log1p(TsAdjoint *a) {
  return over(a, ts_build_add(a->b, a->in[0], a->b->number(a->b, 1)));
}

/* ---- trigonometric and hyperbolic */
int ts_adjoint_sin(TsAdjoint *a) { return times(a, ts_build1(a->b, TS_OP_cos, a->in[0])); }

int ts_adjoint_cos(TsAdjoint *a) {
  times(a, ts_build1(a->b, TS_OP_sin, a->in[0]));
  return negated(a);
}

int ts_adjoint_sinh(TsAdjoint *a) { return times(a, ts_build1(a->b, TS_OP_cosh, a->in[0])); }
int ts_adjoint_cosh(TsAdjoint *a) { return times(a, ts_build1(a->b, TS_OP_sinh, a->in[0])); }
int ts_adjoint_tan(TsAdjoint *a) { return times(a, square_plus_1(a->b, a->out[0], 1)); }
int ts_adjoint_tanh(TsAdjoint *a) { return times(a, square_plus_1(a->b, a->out[0], -1)); }

int ts_adjoint_asin(TsAdjoint *a) {
  return times(a, ts_build1(a->b, TS_OP_rsqrt, square_plus_1(a->b, a->in[0], -1)));
}

int ts_adjoint_acos(TsAdjoint *a) {
  ts_adjoint_asin(a);
  return negated(a);
}

int ts_adjoint_atan(TsAdjoint *a) { return over(a, square_plus_1(a->b, a->in[0], 1)); }

/* The inputs, as parts of their hypotenuse r, times g / r; 0 at the origin. */
int ts_adjoint_atan2(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal y = a->in[0], x = a->in[1];
  TsVal r = ts_common_divisor(b, ts_build2(b, TS_OP_hypot, y, x));
  TsVal g = ts_build_div(b, a->grad[0], r);
  if (ts_wanted(a, 0)) a->grad_in[0] = ts_build_mul(b, g, ts_build_div(b, x, r));
  if (ts_wanted(a, 1))
    a->grad_in[1] = ts_build_neg(b, ts_build_mul(b, g, ts_build_div(b, y, r)));
  return 0;
}

/* 0 at the origin, as for norm. */
int ts_adjoint_hypot(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = ts_build_div(b, a->grad[0], ts_common_divisor(b, a->out[0]));
  if (ts_wanted(a, 0)) a->grad_in[0] = ts_build_mul(b, g, a->in[0]);
  if (ts_wanted(a, 1)) a->grad_in[1] = ts_build_mul(b, g, a->in[1]);
  return 0;
}

/* ---- special functions */
int ts_adjoint_sigmoid(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal rest = ts_build_sub(b, b->number(b, 1), a->out[0]);
  return times(a, ts_build_mul(b, a->out[0], rest));
}

int ts_adjoint_erf(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal square = ts_build1(b, TS_OP_square, a->in[0]);
  TsVal bell = ts_build1(b, TS_OP_exp, ts_build_neg(b, square));
  return times(a, ts_build_scale(b, bell, M_2_SQRTPI));
}

int ts_adjoint_erfc(TsAdjoint *a) {
  ts_adjoint_erf(a);
  return negated(a);
}

/* ---- parts of complex numbers in polar form: a real gradient g of r or of phi */
int ts_adjoint_abs(TsAdjoint *a) {
  a->grad_in[0] = ts_build_mul(a->b, a->grad[0], ts_build1(a->b, TS_OP_sign, a->in[0]));
  return 0;
}

/* i g times x / |x|^2; that of a real number jumps at most. */
int ts_adjoint_angle(TsAdjoint *a) {
  TsBuild *b = a->b;
  if (!ts_common_is_complex(b, a->in[0])) return 0;
  TsVal r = ts_common_divisor(b, ts_build1(b, TS_OP_abs, a->in[0]));
  TsVal g = ts_build2(b, TS_OP_complex, b->number(b, 0), ts_build_div(b, a->grad[0], r));
  a->grad_in[0] = ts_build_mul(b, g, ts_build1(b, TS_OP_sign, a->in[0]));
  return 0;
}

/* Of complex x: what is left of g without its part along s = x / |x|, over |x|. */
int ts_adjoint_sign(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal s = a->out[0], g = a->grad[0];
  if (!ts_common_is_complex(b, a->in[0])) return 0;
  TsVal along = ts_build1(b, TS_OP_real, ts_build_mul(b, g, ts_build_conj(b, s)));
  TsVal across = ts_build_sub(b, g, ts_build_mul(b, s, along));
  a->grad_in[0] =
      ts_build_div(b, across, ts_common_divisor(b, ts_build1(b, TS_OP_abs, a->in[0])));
  return 0;
}
