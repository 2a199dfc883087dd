/* Adjoints of embedding and rope. */
#include "ir/adjoint/common.h"

int ts_adjoint_embedding(TsAdjoint *a) {
  TsBuild *b = a->b;
  TsMeta w = *b->meta(b, a->in[0]);
  if (ts_dtype_in_blocks(w.dtype)) return 0; /* no gradient reaches what is stored in blocks */
  TsVal zero = ts_common_zeros(b, (TsDtype)w.dtype, &w);
  a->grad_in[0] = ts_build(b, TS_OP_index_add, TS_IN(zero, a->in[1], a->grad[0]),
                           TS_ATTRS({"axis", ts_b_int(0)}), NULL);
  return 0;
}

/* ---- rotations: the transpose turns back. Float positions would need the frequencies
 * as a tensor; nobody learns positions. */
static int back(TsAdjoint *a, TsOp op) {
  const TsVal in[2] = {a->grad[0], ts_input(a, 1)};
  if (ts_wanted(a, 1))
    return ts_build_fail(a->b, TS_ERR_value, "%s has no derivative by its positions",
                         ts_op_info(a->op)->name);
  a->grad_in[0] = a->b->emit(a->b, op, a->nin, in, a->attr, NULL);
  return 0;
}

int ts_adjoint_rope(TsAdjoint *a) { return back(a, TS_OP_rope_grad); }
int ts_adjoint_rope_grad(TsAdjoint *a) { return back(a, TS_OP_rope); }
