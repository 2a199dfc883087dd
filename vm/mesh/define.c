/* See vm/mesh/define.h. */
#include "vm/mesh/define.h"

#include "vm/core/exec.h"

static TsTensor *cast(TsContext *c, TsTensor *x, TsDtype d) {
  TsAttr a = ts_attr_dtype(d);
  return ts_tensor_dtype(x) == d ? ts_tensor_ref(x) : ts_vm_call1(c, TS_OP_cast, 1, &x, &a);
}

/* The sum, divided by how many there are: the sum may be of summands. */
static int mean(TsCall *call, const TsMeta *out) {
  TsContext *c = call->ctx;
  TsDtype d = (TsDtype)out[0].dtype;
  bool narrow = ts_dtype_is(d, TS_KIND_F) && ts_dtypes[d].nbytes < 4;
  TsTensor *x = cast(c, call->in[0], narrow ? TS_DT_f32 : d), *number = NULL;
  TsTensor *sum = x ? ts_vm_call1(c, TS_OP_sum, 1, &x, call->attr) : NULL, *y = NULL;
  double n = (double)ts_tensor_numel(call->in[0]), of = (double)ts_meta_numel(&out[0]);
  if (sum) number = ts_tensor_number(c, of > 0 ? n / of : 0);
  if (number) y = ts_vm_call1(c, TS_OP_div, 2, (TsTensor *[]){sum, number}, NULL);
  if (y) call->out[0] = cast(c, y, d);
  ts_tensor_unref(y);
  ts_tensor_unref(number);
  ts_tensor_unref(sum);
  ts_tensor_unref(x);
  return y && call->out[0] ? 1 : -1;
}

int ts_mesh_define(TsCall *call, const TsMeta *out) {
  switch (call->op) {
  case TS_OP_mean: return mean(call, out);
  default: return 0;
  }
}
