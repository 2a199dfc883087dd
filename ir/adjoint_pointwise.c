/* Adjoints of arithmetic, element by element. g stands for the gradient of the result.
 * Activations are in adjoint_activation.c, elementary functions in adjoint_elementary.c. */
#include "ir/adjoint.h"

static bool is_complex(TsBuild *b, TsVal x) {
  return x && ts_dtype_is((TsDtype)b->meta(b, x)->dtype, TS_KIND_C);
}

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
  if (is_complex(b, a->in[0]))
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
