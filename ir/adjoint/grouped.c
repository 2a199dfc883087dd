/* Adjoints of products of groups of rows. By x and by w they are the same two operators, whose
 * groups are the call's: for Y = X W a group, dX = dY W^H and dW = X^H dY. */
#include "ir/adjoint/linalg.h"

static TsVal grouped(TsBuild *b, TsVal x, TsVal w, TsVal sizes) {
  return ts_build(b, TS_OP_grouped_matmul, TS_IN(x, w, sizes), TS_NO_ATTRS, NULL);
}

int ts_adjoint_grouped_matmul(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = a->in[0], w = a->in[1], sizes = a->in[2], g = a->grad[0];
  if (a->wanted[0]) a->grad_in[0] = grouped(b, g, ts_build_dagger(b, w), sizes);
  if (a->wanted[1])
    a->grad_in[1] = ts_build(b, TS_OP_grouped_matmul_weight_grad,
                             TS_IN(ts_build_conj(b, x), g, sizes), TS_NO_ATTRS, NULL);
  return b->failed ? -1 : 0;
}

/* Of Y = X^T G, by a gradient h in the place of w: dX = conj(G) H^T and dG = conj(X) H. */
int ts_adjoint_grouped_matmul_weight_grad(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal x = a->in[0], g = a->in[1], sizes = a->in[2], h = a->grad[0];
  if (a->wanted[0])
    a->grad_in[0] = grouped(b, ts_build_conj(b, g), ts_build1(b, TS_OP_transpose, h), sizes);
  if (a->wanted[1]) a->grad_in[1] = grouped(b, ts_build_conj(b, x), h, sizes);
  return b->failed ? -1 : 0;
}
