/* quantized_matmul: a product with weights stored in blocks, by vm/drive/quantized.h. */
#include "vm/core/exec.h"
#include "vm/drive/quantized.h"

static int multiply(TsCall *call, TsTensor *x, TsTensor *bias) {
  TsContext *c = call->ctx;
  TsTensor *y = call->out[0], *w = call->in[1];
  int64_t n = w->meta.dim[0], k = w->meta.dim[1];
  TsQuantized q = {.in = ts_tensor_dtype(x),
                   .out = ts_tensor_dtype(y),
                   .blocks = ts_tensor_dtype(w),
                   .m = k ? ts_tensor_numel(x) / k : ts_tensor_numel(y) / n,
                   .n = n,
                   .k = k};
  if (!(q.x = ts_tensor_read(x)) || !(q.w = ts_tensor_read(w)) || !(q.y = ts_tensor_write(y)) ||
      (bias && !(q.bias = ts_tensor_read(bias))))
    return -1;
  return ts_quantized(&q, c->k)
             ? ts_error_set(&c->err, TS_ERR_memory, "quantized_matmul: out of memory")
             : 0;
}

int ts_exec_quantized_matmul(TsCall *call) {
  TsContext *c = call->ctx;
  TsTensor *given = call->nin > 2 ? call->in[2] : NULL;
  if (!ts_tensor_numel(call->out[0])) return 0;
  TsDtype acc = call->compute == TS_DT_f64 ? TS_DT_f64 : TS_DT_f32;
  TsTensor *typed = ts_tensor_cast(c, call->in[0], call->compute);
  TsTensor *x = typed ? ts_tensor_contiguous(c, typed) : NULL, *cast = NULL, *bias = NULL;
  if (x && given) cast = ts_tensor_cast(c, given, acc);
  if (cast) bias = ts_tensor_contiguous(c, cast);
  int failed = !x || (given && !bias) ? -1 : multiply(call, x, bias);
  ts_tensor_unref(typed);
  ts_tensor_unref(x);
  ts_tensor_unref(cast);
  ts_tensor_unref(bias);
  return failed;
}
