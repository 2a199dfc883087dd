/* Attention of a schedule as a kernel with roles. See ir/lower/lower.h. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "ir/tile/gpu/attention.h"
#include "ir/tile/gpu/build.h"
#include "ir/tile/sequence.h"
#include "ir/lower/heads.h"
#include "ir/lower/mask.h"
#include "ir/lower/row.h"
#include "ir/sched/attention.h"

typedef struct Problem {
  const TsNode *n;
  TsLowerHeads q, k, v, y;
  bool causal;
  int64_t window;
  double scale;
  TsVal mask, sink; /* or NULL */
  TsGpuMaskFrom from;
} Problem;

static bool find_sizes(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  if (n->op != TS_OP_attention || n->nin < 3) return false;
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  for (int i = 0; i + 3 < q->ndim; i++)
    if (k->ndim != q->ndim || q->dim[i] != k->dim[i]) return false;
  return ts_lower_heads(&p->q, n->in[0], layout, arg) &&
         ts_lower_heads(&p->k, n->in[1], layout, arg) &&
         ts_lower_heads(&p->v, n->in[2], layout, arg) &&
         ts_lower_heads(&p->y, (TsVal)(uintptr_t)&n->out[0], layout, arg) &&
         ts_lower_heads_fit(&p->q, &p->k, &p->v);
}

static bool good_types(const TsNode *n) {
  uint8_t d = n->in[0]->meta.dtype;
  return (d == TS_DT_bf16 || d == TS_DT_f16) && n->in[1]->meta.dtype == d &&
         n->in[2]->meta.dtype == d && n->out[0].meta.dtype == d;
}

static bool describe(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  if (!find_sizes(p, layout, arg) || !good_types(n)) return false;
  p->causal = n->attr[0].i;
  p->window = ts_sched_attention_window(n);
  p->scale = n->attr[2].type == TS_ATTR_f ? n->attr[2].f : 1 / sqrt((double)p->q.dim[3]);
  p->mask = n->nin > 3 ? n->in[3] : NULL, p->sink = n->nin > 4 ? n->in[4] : NULL;
  if (p->mask &&
      (n->in[0]->meta.ndim > 4 ||
       !ts_lower_mask(&p->from, p->mask, (TsDtype)n->in[0]->meta.dtype, layout, arg)))
    return false;
  if (p->sink && (p->sink->meta.dtype != TS_DT_f32 || p->sink->meta.weak ||
                  !ts_sched_row_major(layout, arg, p->sink)))
    return false;
  return p->scale > 0 && !(n->attr[4].i && p->k.dim[2] != p->q.dim[2]) &&
         (p->causal ? p->k.dim[2] >= p->q.dim[2] && p->window >= 0 : p->window == 0);
}

/* ---- logarithms for the gradients of the same graph */
static bool same_option(const TsAttr *a, const TsAttr *b) {
  return a->type == b->type && (a->type == TS_ATTR_none || a->i == b->i);
}

bool ts_lower_attention_pair(const TsNode *n, const TsNode *grad) {
  if (n->op != TS_OP_attention || grad->op != TS_OP_attention_grad || grad->nin != 7 ||
      grad->nout != (grad->in[4] ? 4 : 3) || grad->attr[3].i ||
      grad->in[5] != (TsVal)(uintptr_t)&n->out[0] || n->out[0].graph != grad->out[0].graph ||
      grad->in[3] != (n->nin > 3 ? n->in[3] : NULL) ||
      grad->in[4] != (n->nin > 4 ? n->in[4] : NULL))
    return false;
  for (int i = 0; i < 3; i++)
    if (grad->in[i] != n->in[i] || !same_option(&n->attr[i], &grad->attr[i])) return false;
  return true;
}

/* What runs between the two is no other run of the same graph. */
uint64_t ts_lower_attention_name(const TsNode *n) {
  const TsGraph *g = n->out[0].graph;
  for (int i = 0; i < g->nnode; i++)
    if (g->node[i]->nregion) return 0;
  return g->serial << 24 | (n->id + 1);
}

static uint64_t wanted(const TsNode *n) {
  const TsGraph *g = n->out[0].graph;
  for (int i = 0; i < g->nnode; i++)
    if (ts_lower_attention_pair(n, g->node[i])) return ts_lower_attention_name(n);
  return 0;
}

/* q k v, mask, sink, y of the whole. */
static TsTile *whole_of(const Problem *p, TsError *err) {
  const TsLowerHeads *operand[] = {&p->q, &p->k, &p->v, &p->q};
  TsTile *k = ts_tile_new("attention");
  TsTileType line = ts_tile_vector(TS_DT_f32, p->q.dim[1]);
  for (int i = 0; k && i < 4; i++) {
    TsTileType t = ts_tile_type((TsDtype)p->n->in[0]->meta.dtype, 4, operand[i]->dim);
    if (i == 3 && p->mask) ts_lower_mask_param(k, &p->from);
    if (i == 3 && p->sink) ts_tile_param(k, NULL, &line, false);
    ts_tile_param(k, NULL, &t, i == 3);
  }
  if (k && !k->failed && ts_tile_sequence(k)) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}

/* The kernel as one of several: behind its mask, with its logarithms, if it has them, in memory
 * that others know by name. */
static TsTile *in_parts(const Problem *p, const TsGpuAttention *x, TsTile *k, uint64_t name,
                        const int64_t *dim, TsError *err) {
  TsTile *all = whole_of(p, err);
  int arg[8] = {0, 1, 2}, n = 3, from = 3;
  if (!all) return ts_tile_free(k), NULL;
  TsTileSequence *to = all->sequence;
  if (p->mask)
    arg[n++] = ts_lower_mask_step(to, &x->mask, &p->from, x->dtype, false, from++, 0, err);
  if (p->sink) arg[n++] = from++;
  arg[n++] = from;
  if (!x->alone) {
    arg[n++] = ts_tile_sequence_shared(to, dim[0] * dim[1] * dim[3] * 4, name, true);
    if (!x->warps) arg[n] = ts_tile_sequence_temp(to, 4, true);
  }
  if ((!p->mask || arg[3] > INT_MIN) && ts_tile_sequence_add(to, k, arg, dim)) return all;
  if (p->mask && arg[3] == INT_MIN) ts_tile_free(k);
  ts_tile_free(all);
  return NULL;
}

/* Behind the inputs; logarithms and the counter follow it. */
static TsTileVal result_of(const Problem *p, const TsTile *k) {
  return k->param[3 + (p->mask != NULL) + (p->sink != NULL)];
}

/* Of rows the nearest that a kernel has: with roles 128, and of narrow heads without a mask
 * 192; by warps 64 or 128. With roles blocks of keys and of values have stages, as many as
 * fit. */
static void choose(TsGpuAttention *x, const TsSchedChoice *c, bool masked) {
  enum { ROLE_ROWS = 128, MOST_ROWS = 192, WARP_ROWS = 64, MOST_STAGES = 4, KEPT = 2048 };
  bool large = c->rows >= (ROLE_ROWS + MOST_ROWS) / 2;
  if (c->rows && x->warps)
    x->rows = c->rows < (WARP_ROWS + ROLE_ROWS) / 2 ? WARP_ROWS : ROLE_ROWS;
  else if (c->rows && x->d == 64 && !masked)
    x->rows = large ? MOST_ROWS : ROLE_ROWS, x->apart = large;
  if (!c->stages || x->warps) return;
  int row = 2 * x->d;
  int fit = (TS_GPU_SHARED - KEPT - 2 * x->rows * row) / (2 * TS_GPU_KEYS * row);
  if (fit > MOST_STAGES) fit = MOST_STAGES;
  x->stages = c->stages < 2 ? 2 : c->stages < fit ? c->stages : fit;
}

/* gpu: whose warps copy and multiply; NULL: with roles. */
static TsGpuAttention kind_of(const Problem *p, const TsGpuMachine *gpu, uint64_t name,
                              const TsSchedChoice *c) {
  TsDtype d = (TsDtype)p->n->in[0]->meta.dtype;
  const int64_t *q = p->q.dim;
  bool sink = p->sink;
  TsGpuAttention x = ts_gpu_attention(d, (int)q[3], p->causal, p->window, sink);
  ts_gpu_attention_fit(&x, q[2], p->mask != NULL);
  if (gpu)
    x = ts_gpu_attention_by_warps(d, (int)q[3], p->causal, p->window, sink, gpu->target->name,
                                  gpu->target->shared_bytes);
  choose(&x, c, p->mask != NULL);
  x.scale = p->scale, x.alone = !name && (gpu || !p->mask);
  if (p->mask) x.mask = ts_gpu_mask(&p->from, q[2], p->k.dim[2], x.rows, false);
  return x;
}

static bool attention(const Problem *p, int64_t nsm, const TsGpuMachine *gpu,
                      const TsSchedChoice *c, TsSchedKernel *out, TsError *err) {
  const int64_t *q = p->q.dim, *k = p->k.dim;
  uint64_t name = wanted(p->n);
  TsGpuAttention x = kind_of(p, gpu, name, c);
  if (!(out->tile = ts_tile_gpu_attention(&x, err))) return false;
  const TsLowerHeads *operand[] = {&p->q, &p->k, &p->v};
  for (int i = 0; i < 3; i++) ts_lower_heads_set_layout(operand[i], out->tile->param[i]);
  ts_lower_heads_set_layout(&p->y, result_of(p, out->tile));
  int64_t tiles = ts_gpu_attention_tiles(&x, q[0] * q[1], q[2]);
  int64_t g = ts_gpu_attention_heads(&x, q[0] * q[1], k[0] * k[1], k[2]);
  int64_t dim[] = {q[0], q[1], k[1], q[2], k[2], g, gpu || tiles < nsm ? tiles : nsm};
  memcpy(out->dim, dim, sizeof dim);
  if (!x.alone || p->mask) out->tile = in_parts(p, &x, out->tile, name, dim, err);
  out->told = true, out->took = (TsSchedChoice){.rows = x.rows, .stages = x.stages};
  return out->tile != NULL;
}

int ts_lower_attention(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                       TsSchedKernel *out, TsError *err) {
  Problem p = {.n = group->node[0]};
  bool strict = s->profile == TS_PROFILE_strict;
  if (strict || group->nnode != 1 || !describe(&p, layout, arg)) return 0;
  const int64_t *q = p.q.dim;
  double work = (double)(q[0] * q[1] * q[2] * p.k.dim[2] * q[3]);
  int64_t nsm = ts_lower_roles(s, work);
  TsGpuMachine gpu;
  if (!nsm && !ts_lower_warps(s, work, &gpu)) return 0;
  memset(out, 0, sizeof *out);
  if (!attention(&p, nsm, nsm ? NULL : &gpu, &group->choice, out, err))
    return ts_lower_refused(err);
  int n = 0;
  for (; n < 3; n++) out->value[n] = p.n->in[n];
  if (p.mask) out->value[n++] = p.mask;
  if (p.sink) out->value[n++] = p.sink;
  out->value[n] = (TsVal)(uintptr_t)&p.n->out[0];
  return 1;
}
