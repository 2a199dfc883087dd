/* Adjoint of a product with weights stored in blocks, which have no gradient themselves. */
#include "ir/adjoint/linalg.h"

int ts_adjoint_quantized_matmul(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsVal g = a->grad[0];
  TsDtype d = (TsDtype)b->meta(b, a->in[0])->dtype;
  if (a->wanted[0])
    a->grad_in[0] = ts_build_matmul(
        b, g, ts_build_cast(b, a->in[1], d == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32));
  if (ts_wanted(a, 2)) a->grad_in[2] = g;
  return b->failed ? -1 : 0;
}
