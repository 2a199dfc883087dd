/* Automatic casts: operators that are as good in 16 bits get operands of the type asked for, those
 * that are not get f32, by the operator table's column autocast. All others take what they are
 * given, by the usual promotion.
 *
 * A cast is a call like any other, in front of the operator's: it is recorded, captured, put off
 * and differentiated as if the program had written it. What an operator is defined by stays as it
 * is, so that it has the same bits called at once and captured. f64 and complex numbers stay, and
 * so do operands beside them; bare numbers take the type of the tensors. */
#include "vm/autocast.h"

static bool may_be_low(TsDtype d) {
  return d == TS_DT_f32 || d == TS_DT_f16 || d == TS_DT_bf16;
}

/* The type in which the call runs; TS_DT_none: that of its operands. */
static TsDtype wanted(TsOp op, TsDtype low, int nin, TsTensor *const *in) {
  TsAutocast how = (TsAutocast)ts_op_info(op)->autocast;
  if (how == TS_AUTOCAST_none) return TS_DT_none;
  if (how == TS_AUTOCAST_FULL) return TS_DT_f32;
  for (int i = 0; i < nin; i++) {
    if (!in[i] || in[i]->meta.weak || may_be_low(in[i]->meta.dtype)) continue;
    if (ts_dtype_is(in[i]->meta.dtype, TS_KIND_F | TS_KIND_C)) return TS_DT_none;
  }
  return low;
}

static TsTensor *cast(TsContext *c, TsTensor *t, TsDtype d) {
  const TsAttr attr = ts_attr_dtype(d);
  const char *choice = c->choice; /* of the call, not of its casts */
  c->choice = NULL;
  TsTensor *y = ts_vm_call1(c, TS_OP_cast, 1, &t, &attr);
  c->choice = choice;
  return y;
}

int ts_autocast_call(TsContext *c, TsOp op, int nin, TsTensor *const *in, const TsAttr *attr,
                     int room, int *nout, TsTensor **out) {
  TsTensor *own[TS_MAX_VARIADIC];
  TsDtype low = (TsDtype)c->autocast, to = nin ? wanted(op, low, nin, in) : TS_DT_none;
  int failed = 0, n = 0;
  c->autocast = 0;
  for (; to != TS_DT_none && n < nin && !failed; n++) {
    TsTensor *t = in[n];
    bool casts = t && !t->meta.weak && may_be_low(t->meta.dtype) && t->meta.dtype != to;
    own[n] = !t ? NULL : casts ? cast(c, t, to) : ts_tensor_ref(t);
    failed = t && !own[n];
  }
  if (!failed) failed = ts_vm_call(c, op, nin, n ? own : in, attr, room, nout, out);
  while (n) ts_tensor_unref(own[--n]);
  c->autocast = (uint8_t)low;
  return failed ? -1 : 0;
}
