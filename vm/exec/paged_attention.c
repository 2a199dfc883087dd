/* paged_attention: tensors to the driver of attention, which reads pages where they lie. */
#include <math.h>
#include <string.h>

#include "vm/core/exec.h"
#include "vm/core/scratch.h"
#include "vm/drive/attention.h"
#include "vm/drive/attention_operands.h"
#include "vm/drive/index.h"

enum { Q, K, V, TABLE, START, SINK, K_SCALE, V_SCALE, INPUTS };
enum { WINDOW, SCALE };

typedef struct Operands {
  TsTensor *in[INPUTS];
  TsIndex table, start;
  int64_t *q_at;
} Operands;

/* Pages as numbers of q's type, a copy: of k and v that differ in type. */
static TsTensor *numbers(TsContext *c, TsTensor *x, TsTensor *scale, TsDtype d) {
  if (!scale) return ts_tensor_cast(c, x, d);
  TsAttr axis = {.type = TS_ATTR_int, .i = 3};
  TsTensor *f = ts_tensor_cast(c, x, TS_DT_f32);
  TsTensor *s = f ? ts_vm_call1(c, TS_OP_unsqueeze, 1, &scale, &axis) : NULL;
  TsTensor *y = s ? ts_vm_call1(c, TS_OP_mul, 2, (TsTensor *[]){f, s}, NULL) : NULL;
  TsTensor *z = y ? ts_tensor_cast(c, y, d) : NULL;
  ts_tensor_unref(f), ts_tensor_unref(s), ts_tensor_unref(y);
  return z;
}

/* All in row-major order, those that are computed with in their types. */
static int open(TsCall *call, Operands *o, TsDtype wide) {
  TsContext *c = call->ctx;
  bool alike = ts_tensor_dtype(call->in[K]) == ts_tensor_dtype(call->in[V]);
  TsDtype d = ts_tensor_dtype(call->out[0]);
  for (int i = 0; i < call->nin; i++) {
    TsTensor *x = call->in[i];
    bool pages = i == K || i == V, scale = i == K_SCALE || i == V_SCALE;
    if (!x || i == TABLE || i == START || (scale && !alike)) continue;
    int of = i - K + K_SCALE;
    o->in[i] = i == Q            ? ts_attention_adjacent(c, x)
               : pages && !alike ? numbers(c, x, of < call->nin ? call->in[of] : NULL, d)
               : i == SINK       ? ts_tensor_cast(c, x, wide)
                                 : ts_tensor_contiguous(c, x);
    if (!o->in[i] || !ts_tensor_read(o->in[i])) return -1;
  }
  const TsMeta *k = &call->in[K]->meta;
  TsMeta lead = o->in[Q]->meta;
  lead.ndim = 2;
  o->q_at = ts_attention_offsets(o->in[Q], &lead, lead.dim[0] * lead.dim[1]);
  if (!o->q_at) return ts_scratch_failed(call);
  TsCall of_pages = *call; /* whose message is of k */
  of_pages.in = call->in + K;
  int64_t keys = call->in[TABLE]->meta.dim[1] * k->dim[2];
  int64_t starts = ts_index_starts(keys, call->in[Q]->meta.dim[2]);
  return ts_index_open(&of_pages, TABLE - K, 1, k->dim[1], &o->table) ||
                 ts_index_open(call, START, TS_INDEX_START, starts, &o->start)
             ? -1
             : 0;
}

static void close(Operands *o) {
  for (int i = 0; i < INPUTS; i++) ts_tensor_unref(o->in[i]);
  ts_work_give(o->q_at);
  ts_index_close(&o->table), ts_index_close(&o->start);
}

static int run(TsCall *call, const Operands *o) {
  TsTensor *const *in = o->in;
  const TsMeta *q = &in[Q]->meta, *k = &in[K]->meta;
  TsAttentionPages p = {.dtype = (TsDtype)k->dtype, .table = o->table.at};
  p.count = call->in[TABLE]->meta.dim[1], p.size = k->dim[2], p.all = k->dim[1];
  p.start = o->start.at;
  p.scale[0] = in[K_SCALE] ? ts_tensor_read(in[K_SCALE]) : NULL;
  p.scale[1] = in[V_SCALE] ? ts_tensor_read(in[V_SCALE]) : NULL;
  TsAttention a = {.dtype = (TsDtype)q->dtype, .batch = q->dim[0], .heads = q->dim[1]};
  a.kv_heads = k->dim[0], a.s = q->dim[2], a.t = p.count * p.size, a.d = q->dim[3];
  a.dv = in[V]->meta.dim[3], a.q_at = o->q_at, a.q_step = in[Q]->stride[2];
  a.q = ts_tensor_read(in[Q]), a.k = ts_tensor_read(in[K]), a.v = ts_tensor_read(in[V]);
  a.sink = in[SINK] ? ts_tensor_read(in[SINK]) : NULL;
  a.causal = true, a.pages = &p;
  a.window = call->attr[WINDOW].type == TS_ATTR_int ? call->attr[WINDOW].i : 0;
  a.scale = call->attr[SCALE].type == TS_ATTR_f ? call->attr[SCALE].f
                                                : 1 / sqrt((double)(a.d ? a.d : 1));
  if (!a.q || !a.k || !a.v || !(a.y = ts_tensor_write(call->out[0]))) return -1;
  return ts_attention(&a, call->ctx->k) ? ts_scratch_failed(call) : 0;
}

int ts_exec_paged_attention(TsCall *call) {
  Operands o = {.q_at = NULL};
  if (ts_tensor_numel(call->out[0]) == 0) return 0;
  TsDtype wide = (TsDtype)ts_dtypes[ts_tensor_dtype(call->out[0])].accum;
  int failed = open(call, &o, wide) || run(call, &o);
  close(&o);
  return failed ? -1 : 0;
}
