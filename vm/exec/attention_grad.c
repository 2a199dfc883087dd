/* attention_grad: tensors to vm/drive/attention_grad.h. */
#include <stdlib.h>
#include <string.h>

#include "vm/drive/attention_grad.h"
#include "vm/drive/attention_operands.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

static void *cleared(TsTensor *t) {
  void *at = ts_tensor_write(t);
  if (at) memset(at, 0, (size_t)ts_meta_nbytes(&t->meta));
  return at;
}

/* Without rows, keys or numbers in the values all gradients are zero. Queries and keys may
 * have none: then all keys count alike. */
static bool nothing(const TsCall *call) {
  return ts_tensor_numel(call->in[2]) == 0 || ts_tensor_numel(call->in[6]) == 0;
}

static int clear_all(TsCall *call) {
  for (int i = 0; i < call->nout; i++)
    if (!cleared(call->out[i])) return -1;
  return 0;
}

/* The sink's gradient is made in the wide type and rounded to sink's own. */
static int finish_sink(TsCall *call, TsTensor *wide) {
  return wide ? ts_vm_assign(call->ctx, call->out[call->nout - 1], wide) : 0;
}

/* Of type d, with an adjacent last axis. */
static TsTensor *matrices(TsContext *c, TsTensor *x, TsDtype d) {
  return ts_tensor_dtype(x) == d ? ts_attention_adjacent(c, x) : ts_tensor_cast(c, x, d);
}

static int64_t *head_places(const TsAttention *a, const TsTensor *x, int64_t *step) {
  TsMeta lead = x->meta;
  *step = x->stride[lead.ndim - 2];
  lead.ndim = (uint8_t)(lead.ndim - 2);
  return ts_attention_offsets(x, &lead, a->batch * a->heads);
}

static int run(TsCall *call, TsAttentionGrad *g, TsTensor *out, TsTensor *dout,
               TsTensor *sink) {
  g->out = ts_tensor_read(out), g->g = ts_tensor_read(dout);
  g->dq = ts_tensor_write(call->out[0]), g->dk = ts_tensor_write(call->out[1]);
  g->dv = ts_tensor_write(call->out[2]);
  if (!g->out || !g->g || !g->dq || !g->dk || !g->dv) return -1;
  if (call->attr[3].i && !(g->scores = cleared(call->out[3]))) return -1;
  if (sink && !(g->sink = ts_tensor_write(sink))) return -1;
  int64_t *out_at = head_places(&g->a, out, &g->out_step),
          *g_at = head_places(&g->a, dout, &g->g_step);
  g->out_at = out_at, g->g_at = g_at;
  int failed = !out_at || !g_at || ts_attention_grad(g, call->ctx->k);
  ts_work_give(out_at), ts_work_give(g_at);
  return failed ? ts_scratch_failed(call) : 0;
}

int ts_exec_attention_grad(TsCall *call) {
  TsContext *c = call->ctx;
  TsDtype d = ts_tensor_dtype(call->out[0]);
  TsAttentionGrad g = {.a = {.dtype = d}};
  TsAttentionOperands o = {.q = NULL};
  TsTensor *out = NULL, *dout = NULL, *sink = NULL;
  if (nothing(call)) return clear_all(call);
  int failed = ts_attention_open(call, &g.a, &o) || !(out = matrices(c, call->in[5], d)) ||
               !(dout = matrices(c, call->in[6], d));
  if (!failed && o.sink) failed = !(sink = ts_tensor_new(c, &o.sink->meta));
  if (!failed) failed = run(call, &g, out, dout, sink) || finish_sink(call, sink);
  ts_attention_close(&o);
  ts_tensor_unref(out);
  ts_tensor_unref(dout);
  ts_tensor_unref(sink);
  return failed ? -1 : 0;
}
