/* attention: tensors to vm/drive/attention.h. */
#include <math.h>
#include <stdlib.h>

#include "vm/drive/attention_operands.h"
#include "vm/core/exec.h"
#include "vm/core/scratch.h"

int64_t *ts_attention_offsets(const TsTensor *x, const TsMeta *lead, int64_t count) {
  int64_t *at = ts_work_take((count + 1) * 8);
  int axes = x->meta.ndim - 2, skip = lead->ndim - axes;
  for (int64_t i = 0; at && i < count; i++) {
    int64_t r = i, offset = 0;
    for (int a = lead->ndim; a-- > 0; r /= lead->dim[a]) {
      bool spread = a < skip || x->meta.dim[a - skip] == 1;
      if (!spread) offset += r % lead->dim[a] * x->stride[a - skip];
    }
    at[i] = offset;
  }
  return at;
}

TsTensor *ts_attention_adjacent(TsContext *c, TsTensor *x) {
  int last = x->meta.ndim - 1;
  bool fine = x->stride[last] == 1 || x->meta.dim[last] <= 1;
  return fine ? ts_tensor_ref(x) : ts_tensor_contiguous(c, x);
}

/* A mask of at least two axes, in bytes or in the wide type, whose last axis is
 * adjacent or has one element. */
static TsTensor *prepared_mask(TsContext *c, TsTensor *mask, TsDtype wide) {
  bool is_bool = ts_tensor_dtype(mask) == TS_DT_bool;
  TsTensor *x = is_bool                         ? ts_attention_adjacent(c, mask)
                : ts_tensor_dtype(mask) == wide ? ts_attention_adjacent(c, mask)
                                                : ts_tensor_cast(c, mask, wide);
  if (!x || x->meta.ndim >= 2) return x;
  TsMeta m = x->meta;
  int64_t stride[TS_MAX_RANK] = {0, 1};
  m.ndim = 2, m.dim[0] = 1, m.dim[1] = x->meta.ndim ? x->meta.dim[0] : 1;
  TsTensor *y = ts_tensor_view(x, &m, stride, x->offset);
  ts_tensor_unref(x);
  return y;
}

static int prepare(TsCall *call, TsAttentionOperands *o, TsDtype wide) {
  TsContext *c = call->ctx;
  TsTensor *mask = call->nin > 3 ? call->in[3] : NULL,
           *sink = call->nin > 4 ? call->in[4] : NULL;
  if (!(o->q = ts_attention_adjacent(c, call->in[0])) ||
      !(o->k = ts_attention_adjacent(c, call->in[1])) ||
      !(o->v = ts_attention_adjacent(c, call->in[2])))
    return -1;
  if (mask && !(o->mask = prepared_mask(c, mask, wide))) return -1;
  if (sink && !(o->sink = ts_tensor_cast(c, sink, wide))) return -1;
  return 0;
}

static int set_offsets(TsCall *call, TsAttentionOperands *o, TsAttention *a) {
  TsMeta lead = o->q->meta, kv = o->k->meta;
  lead.ndim = (uint8_t)(lead.ndim - 2), kv.ndim = (uint8_t)(kv.ndim - 2);
  int64_t heads = a->batch * a->heads, kv_heads = a->batch * a->kv_heads;
  o->q_at = ts_attention_offsets(o->q, &lead, heads);
  o->k_at = ts_attention_offsets(o->k, &kv, kv_heads);
  o->v_at = ts_attention_offsets(o->v, &kv, kv_heads);
  if (o->mask) o->mask_at = ts_attention_offsets(o->mask, &lead, heads);
  a->q_at = o->q_at, a->k_at = o->k_at, a->v_at = o->v_at, a->mask_at = o->mask_at;
  if (o->q_at && o->k_at && o->v_at && (o->mask_at || !o->mask)) return 0;
  return ts_scratch_failed(call);
}

static int set_mask(const TsAttentionOperands *o, TsAttention *a) {
  const TsMeta *m = &o->mask->meta;
  int nd = m->ndim;
  const void *at = ts_tensor_read(o->mask);
  if (!at) return -1;
  if (m->dtype == TS_DT_bool)
    a->seen = at;
  else
    a->bias = at;
  a->mask_step = m->dim[nd - 2] == 1 ? 0 : o->mask->stride[nd - 2];
  a->mask_key_step = m->dim[nd - 1] != 1;
  return 0;
}

static void set_sizes(TsCall *call, TsAttention *a) {
  const TsMeta *q = &call->in[0]->meta, *k = &call->in[1]->meta;
  int nd = q->ndim;
  a->batch = 1;
  for (int i = 0; i < nd - 3; i++) a->batch *= q->dim[i];
  a->heads = nd > 2 ? q->dim[nd - 3] : 1, a->kv_heads = nd > 2 ? k->dim[nd - 3] : 1;
  a->s = q->dim[nd - 2], a->t = k->dim[nd - 2], a->d = q->dim[nd - 1];
  a->dv = call->in[2]->meta.dim[nd - 1];
  a->causal = call->attr[0].i;
  a->place = call->attr[4].i ? 0 : a->t - a->s;
  a->window = call->attr[1].type == TS_ATTR_int ? call->attr[1].i : 0;
  a->scale =
      call->attr[2].type == TS_ATTR_f ? call->attr[2].f : 1 / sqrt((double)(a->d ? a->d : 1));
}

int ts_attention_open(TsCall *call, TsAttention *a, TsAttentionOperands *o) {
  set_sizes(call, a);
  if (prepare(call, o, (TsDtype)ts_dtypes[a->dtype].accum)) return -1;
  int nd = o->q->meta.ndim;
  a->q_step = o->q->stride[nd - 2], a->k_step = o->k->stride[nd - 2],
  a->v_step = o->v->stride[nd - 2];
  if (set_offsets(call, o, a)) return -1;
  if (o->mask && set_mask(o, a)) return -1;
  if (o->sink && !(a->sink = ts_tensor_read(o->sink))) return -1;
  a->q = ts_tensor_read(o->q), a->k = ts_tensor_read(o->k), a->v = ts_tensor_read(o->v);
  return a->q && a->k && a->v ? 0 : -1;
}

void ts_attention_close(TsAttentionOperands *o) {
  ts_work_give(o->q_at), ts_work_give(o->k_at), ts_work_give(o->v_at), ts_work_give(o->mask_at);
  ts_tensor_unref(o->q);
  ts_tensor_unref(o->k);
  ts_tensor_unref(o->v);
  ts_tensor_unref(o->mask);
  ts_tensor_unref(o->sink);
}

int ts_exec_attention(TsCall *call) {
  TsAttention a = {.dtype = ts_tensor_dtype(call->out[0])};
  TsAttentionOperands o = {.q = NULL};
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  int failed = ts_attention_open(call, &a, &o) || !(a.y = ts_tensor_write(call->out[0]));
  if (!failed && ts_attention(&a, call->ctx->k)) failed = ts_scratch_failed(call);
  ts_attention_close(&o);
  return failed ? -1 : 0;
}
