/* Attention of a schedule as a kernel with roles. See jit/device_product.h. */
#include <math.h>
#include <string.h>

#include "ir/graph.h"
#include "ir/tile_gpu_attention.h"
#include "jit/device_product.h"

enum { SIM_WORK = 1 << 22 /* of scores and head that the interpreter does in a wink */ };

typedef struct Problem {
  const TsNode *n;
  int64_t heads, all, key_heads, s, t, d; /* heads: of a batch */
  bool causal;
  int64_t window;
  double scale;
  TsVal sink;
} Problem;

static bool find_sizes(Problem *p) {
  const TsNode *n = p->n;
  if (n->op != TS_OP_attention || n->nin < 3 || (n->nin > 3 && n->in[3])) return false;
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta, *v = &n->in[2]->meta;
  int nd = q->ndim;
  if (nd < 2 || k->ndim != nd || !ts_meta_same_shape(k, v)) return false;
  p->d = q->dim[nd - 1], p->s = q->dim[nd - 2], p->t = k->dim[nd - 2];
  if ((p->d != 64 && p->d != 128) || k->dim[nd - 1] != p->d || p->s < 1 || p->t < 1)
    return false;
  for (int i = 0; i + 3 < nd; i++)
    if (q->dim[i] != k->dim[i]) return false;
  p->heads = nd > 2 ? q->dim[nd - 3] : 1;
  p->all = ts_meta_numel(q) / (p->s * p->d), p->key_heads = ts_meta_numel(k) / (p->t * p->d);
  return p->key_heads > 0 && p->all > 0 && p->all % p->key_heads == 0;
}

static bool good_types(const TsNode *n) {
  uint8_t d = n->in[0]->meta.dtype;
  return (d == TS_DT_bf16 || d == TS_DT_f16) && n->in[1]->meta.dtype == d &&
         n->in[2]->meta.dtype == d && n->out[0].meta.dtype == d;
}

static bool describe(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  if (!find_sizes(p) || !good_types(n)) return false;
  p->causal = n->attr[0].i;
  p->window = n->attr[1].type == TS_ATTR_int ? n->attr[1].i : 0;
  p->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)p->d);
  p->sink = n->nin > 4 ? n->in[4] : NULL;
  if (p->sink && (p->sink->meta.dtype != TS_DT_f32 || p->sink->meta.weak ||
                  !ts_device_row_major(layout, arg, p->sink)))
    return false;
  for (int i = 0; i < 3; i++)
    if (!ts_device_row_major(layout, arg, n->in[i])) return false;
  return ts_device_row_major(layout, arg, (TsVal)(uintptr_t)&n->out[0]) && p->scale > 0 &&
         (p->causal ? p->t >= p->s && p->window >= 0 : p->window == 0);
}

bool ts_device_attention(TsDevice *d, const TsGroup *group, bool strict, TsLayoutFn *layout,
                         void *arg, TsSchedKernel *out, TsError *err) {
  Problem p = {.n = group->node[0]};
  if (strict || group->nnode != 1 || !describe(&p, layout, arg)) return false;
  int64_t nsm = ts_device_processors(d, p.all * p.s * p.t * p.d <= SIM_WORK, err);
  if (!nsm) return false;
  TsGpuAttention x = ts_gpu_attention((TsDtype)p.n->in[0]->meta.dtype, (int)p.d, p.causal,
                                      p.window, p.sink != NULL);
  x.scale = p.scale, x.alone = true;
  memset(out, 0, sizeof *out);
  if (!(out->tile = ts_tile_gpu_attention(&x, err))) return false;
  int n = 0;
  while (n < 3) out->value[n] = p.n->in[n], n++;
  if (p.sink) out->value[n++] = p.sink;
  out->value[n] = (TsVal)(uintptr_t)&p.n->out[0];
  int64_t tiles = ts_gpu_attention_tiles(&x, p.all, p.s);
  int64_t g = ts_gpu_attention_heads(&x, p.all, p.key_heads, p.t);
  int64_t dim[] = {p.all, p.key_heads, p.heads, p.s, p.t, g, tiles < nsm ? tiles : nsm};
  memcpy(out->dim, dim, sizeof dim);
  return true;
}
