/* Attention of few queries of a schedule as a kernel with roles. See ir/lower/lower.h. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "ir/tile/gpu/decode.h"
#include "ir/tile/sequence.h"
#include "ir/lower/mask.h"
#include "ir/lower/row.h"
#include "ir/sched/attention.h"

typedef struct Problem {
  const TsNode *n;
  int64_t heads, key_heads, all, s, t, d; /* heads: of a batch; the others of all */
  int64_t window;
  bool causal;
  double scale;
  TsVal mask, sink; /* or NULL */
  TsVal last;       /* instead of a mask, which key of its batch the one query sees last */
  TsGpuMaskFrom from;
} Problem;

/* Gradients want the logarithms of the sums, which this kernel has not. */
static bool has_gradient(const TsGraph *g) {
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->op == TS_OP_attention_grad) return true;
  return false;
}

static bool good_types(const TsNode *n) {
  uint8_t d = n->in[0]->meta.dtype;
  return (d == TS_DT_bf16 || d == TS_DT_f16) && n->in[1]->meta.dtype == d &&
         n->in[2]->meta.dtype == d && n->out[0].meta.dtype == d;
}

static bool find_sizes(Problem *p) {
  const TsNode *n = p->n;
  if (n->op != TS_OP_attention || n->nin < 3) return false;
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta, *v = &n->in[2]->meta;
  int nd = q->ndim;
  if (nd < 2 || k->ndim != nd || !ts_meta_same_shape(k, v) || !good_types(n)) return false;
  p->d = q->dim[nd - 1], p->s = q->dim[nd - 2], p->t = k->dim[nd - 2];
  if ((p->d != 64 && p->d != 128) || k->dim[nd - 1] != p->d || p->s < 1 || p->t < 1)
    return false;
  for (int i = 0; i + 3 < nd; i++)
    if (q->dim[i] != k->dim[i]) return false;
  p->heads = nd > 2 ? q->dim[nd - 3] : 1;
  p->all = ts_meta_numel(q) / (p->s * p->d), p->key_heads = ts_meta_numel(k) / (p->t * p->d);
  return p->key_heads > 0 && p->all > 0 && p->all % p->key_heads == 0;
}

/* Query rows that share keys are so few that keys are read once for all of them. */
static bool are_few(const Problem *p) {
  return p->all / p->key_heads * p->s <= TS_GPU_DECODE_ROWS && (!p->sink || p->s == 1);
}

/* ---- masks that are comparisons with positions, as those of steps that go on: not looked at,
 * but done again */
static TsVal under_views(TsVal v) {
  while (ts_sched_is_view(v->node)) v = v->node->in[0];
  return v;
}

/* 0, 1, .. along the last axis. */
static bool counts_keys(TsVal v, int64_t t) {
  const TsNode *n = under_views(v)->node;
  if (n->op != TS_OP_arange || n->attr[2].f != 1) return false;
  bool from_zero = n->attr[1].type == TS_ATTR_none || n->attr[0].f == 0;
  return from_zero && n->out[0].meta.dim[0] == t && v->meta.dim[v->meta.ndim - 1] == t;
}

static bool is_compared(TsVal v, int op, int64_t t, TsVal *with) {
  const TsNode *n = v->node;
  if (n->op != op || n->nin != 2 || !counts_keys(n->in[0], t)) return false;
  *with = under_views(n->in[1]);
  return true;
}

/* keys <= last, and with a window also keys > last - window. */
static bool find_last(Problem *p, TsLayoutFn *layout, void *arg) {
  TsVal v = under_views(p->mask), last, low;
  int64_t window = 0;
  if (v->node->op == TS_OP_logical_and) {
    const TsNode *n = v->node;
    v = under_views(n->in[0]);
    if (!is_compared(under_views(n->in[1]), TS_OP_gt, p->t, &low)) return false;
    const TsNode *less = low->node;
    if (less->op != TS_OP_sub || less->in[1]->node->op != TS_NODE_number) return false;
    window = (int64_t)less->in[1]->node->number, low = under_views(less->in[0]);
    if (window < 1 || (double)window != less->in[1]->node->number) return false;
    if (window > INT32_MAX / 2) return false; /* of positions that are not known to be small */
  } else {
    low = NULL;
  }
  if (p->causal || p->window || p->s != 1 || p->n->in[0]->meta.ndim != 4) return false;
  if (!is_compared(v, TS_OP_le, p->t, &last) || (low && low != last)) return false;
  if (last->meta.dtype != TS_DT_i64 || !ts_sched_row_major(layout, arg, last) ||
      ts_meta_numel(&last->meta) != p->all / p->heads)
    return false;
  p->last = last, p->mask = NULL, p->window = window;
  return true;
}

/* One number for each key of a batch, which all its heads have. */
static bool find_mask(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  p->mask = n->nin > 3 ? n->in[3] : NULL;
  if (!p->mask || find_last(p, layout, arg)) return true;
  return n->in[0]->meta.ndim <= 4 &&
         ts_lower_mask(&p->from, p->mask, (TsDtype)n->in[0]->meta.dtype, layout, arg) &&
         p->from.dim[1] == 1 && p->from.dim[2] == 1;
}

static bool describe(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  if (!find_sizes(p) || (n->attr[4].i && p->s != p->t)) return false;
  p->causal = n->attr[0].i;
  p->window = ts_sched_attention_window(n);
  p->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)p->d);
  p->sink = n->nin > 4 ? n->in[4] : NULL;
  if (p->sink && (p->sink->meta.dtype != TS_DT_f32 || p->sink->meta.weak ||
                  !ts_sched_row_major(layout, arg, p->sink)))
    return false;
  for (int i = 0; i < 3; i++)
    if (!ts_sched_row_major(layout, arg, n->in[i])) return false;
  return find_mask(p, layout, arg) && are_few(p) &&
         ts_sched_row_major(layout, arg, (TsVal)(uintptr_t)&n->out[0]) && p->scale > 0 &&
         (p->causal ? p->t >= p->s && p->window >= 0 : p->last || p->window == 0) &&
         !has_gradient(n->out[0].graph);
}

/* The kernel behind one that lays the mask out. */
static TsTile *behind_mask(const Problem *p, const TsGpuDecode *x, TsTile *k,
                           const int64_t *dim, TsError *err) {
  TsTile *all = ts_tile_new("decode");
  TsTileType line = ts_tile_vector(TS_DT_f32, p->heads);
  for (int i = 0; all && i < 4; i++) {
    int64_t rows = i == 1 || i == 2 ? p->t : dim[1];
    TsTileType t = ts_tile_type(x->dtype, 3, (int64_t[]){p->key_heads, rows, p->d});
    if (i == 3) ts_lower_mask_param(all, &p->from);
    if (i == 3 && p->sink) ts_tile_param(all, NULL, &line, false);
    ts_tile_param(all, NULL, &t, i == 3);
  }
  TsTileSequence *to = all && !all->failed ? ts_tile_sequence(all) : NULL;
  int arg[6] = {0, 1, 2, INT_MIN, 4, 5};
  if (to) arg[3] = ts_lower_mask_step(to, &x->mask, &p->from, x->dtype, false, 3, 0, err);
  if (!to) ts_error_memory(err);
  if (arg[3] > INT_MIN && ts_tile_sequence_add(to, k, arg, dim)) return all;
  if (arg[3] == INT_MIN) ts_tile_free(k);
  ts_tile_free(all);
  return NULL;
}

/* The processors that it has; 0: it is for others. */
static int64_t taken(Problem *p, const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                     void *arg) {
  *p = (Problem){.n = group->node[0]};
  if (s->profile == TS_PROFILE_strict || group->nnode != 1 || !describe(p, layout, arg))
    return 0;
  return ts_lower_roles(s, (double)(p->all * p->s * p->t * p->d));
}

bool ts_lower_straight(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg) {
  Problem p;
  bool attention = group->node[0]->op == TS_OP_attention;
  return attention && !s->plain && taken(&p, s, group, layout, arg) > 0;
}

int ts_lower_decode(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                    TsSchedKernel *out, TsError *err) {
  Problem p;
  int64_t nsm = taken(&p, s, group, layout, arg), n = 0;
  if (!nsm) return 0;
  if (nsm > TS_GPU_DECODE_BLOCKS) nsm = TS_GPU_DECODE_BLOCKS;
  int64_t rows = p.all / p.key_heads * p.s, chunk = TS_GPU_DECODE_CHUNK;
  TsGpuDecode x = {.queries = (int)p.s, .window = p.window, .last = p.last != NULL};
  int64_t chunks = ts_gpu_decode_chunks(&x, p.key_heads, p.t, chunk);
  TsGpuDecodeSplits splits = ts_gpu_decode_splits(&x, p.key_heads, p.t, chunk, nsm);
  x = ts_gpu_decode((TsDtype)p.n->in[0]->meta.dtype, (int)p.d, (int)rows, chunks);
  x.queries = (int)p.s, x.causal = p.causal, x.window = p.window, x.last = p.last != NULL;
  x.sink = p.sink != NULL, x.scale = p.scale;
  int stages = group->choice.stages > 1 ? group->choice.stages : 2; /* no more than fit */
  if (group->choice.stages && stages < x.stages) x.stages = stages;
  if (p.mask) x.mask = ts_gpu_mask(&p.from, p.s, p.t, TS_GPU_DECODE_ROWS, false);
  memset(out, 0, sizeof *out);
  if (!(out->tile = ts_tile_gpu_decode(&x, err))) return ts_lower_refused(err);
  for (; n < 3; n++) out->value[n] = p.n->in[n];
  if (p.mask) out->value[n++] = p.mask;
  if (p.last) out->value[n++] = p.last;
  if (p.sink) out->value[n++] = p.sink;
  out->value[n] = (TsVal)(uintptr_t)&p.n->out[0];
  int64_t dim[9] = {p.key_heads, rows, p.t, chunk, splits.n, splits.longs, p.heads};
  dim[7] = p.all / p.heads;
  dim[p.last ? 8 : 7] = splits.all < nsm ? splits.all : nsm;
  memcpy(out->dim, dim, sizeof dim);
  out->told = true, out->took = (TsSchedChoice){.rows = -1, .stages = x.stages};
  if (p.mask) out->tile = behind_mask(&p, &x, out->tile, dim, err);
  return out->tile ? 1 : ts_lower_refused(err);
}
