/* Gradients of attention of 16-bit floats on a device that has no kernel on matrix units for
 * them, or may not use it (profile strict): widened, by the kernel for f32, rounded at the end.
 * That is the definition of vm/drive/attention_grad.c, so the bits are the VM's. It takes sizes that
 * the kernel for f32 takes (ir/sched/attention_grad.c). */
#include "jit/eager/family/own.h"

enum { INPUTS = 7, RESULTS = 3 };

/* Whether its matrix units do it (ir/lower/attention_grad.c). */
static bool has_kernel(const TsCall *call, int device) {
  const TsMeta *q = &call->in[0]->meta, *k = &call->in[1]->meta;
  TsGpuMachine gpu;
  int64_t width = q->dim[q->ndim - 1];
  if (ts_own_roles(device, 0) > 0) return true;
  return ts_own_warps(device, 0, &gpu) && (width == 64 || width == 128) &&
         !(call->attr[0].i && k->dim[k->ndim - 2] < q->dim[q->ndim - 2]);
}

static bool takes(const TsCall *call, int device) {
  const TsMeta *q = &call->in[0]->meta, *k = &call->in[1]->meta;
  TsDtype d = (TsDtype)q->dtype;
  const char *why;
  bool half = d == TS_DT_bf16 || d == TS_DT_f16;
  if (!half || call->nout != RESULTS || !ts_device_target(ts_device_at(device), &why))
    return false;
  if (q->ndim < 2 ||
      (call->ctx->profile != TS_PROFILE_strict && has_kernel(call, device)))
    return false;
  bool plain = !call->in[3] && !call->in[4] && call->attr[1].type != TS_ATTR_int;
  return plain && q->ndim <= 4 && ts_meta_numel(q) > 0 && ts_meta_numel(k) > 0 &&
         q->dim[q->ndim - 2] % 32 == 0 && k->dim[k->ndim - 2] % 128 == 0;
}

int ts_offload_attention(TsOffloader *o, TsCall *call, int device) {
  TsTensor *in[INPUTS] = {NULL}, *out[RESULTS] = {NULL};
  int n = 0, failed = 0;
  (void)o;
  if (call->op != TS_OP_attention_grad || !takes(call, device)) return 0;
  for (int i = 0; i < INPUTS && !failed; i++)
    if (call->in[i]) failed = !(in[i] = ts_tensor_cast(call->ctx, call->in[i], TS_DT_f32));
  if (!failed)
    failed = ts_vm_call(call->ctx, call->op, INPUTS, in, call->attr, RESULTS, &n, out);
  for (int i = 0; i < n; i++) {
    if (!failed) failed = ts_vm_assign(call->ctx, call->out[i], out[i]);
    ts_tensor_unref(out[i]);
  }
  for (int i = 0; i < INPUTS; i++) ts_tensor_unref(in[i]);
  return failed ? -1 : 1;
}
