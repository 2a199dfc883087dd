/* The gradients of attention as kernels one after another (ir/tile/gpu/attention_grad.h; of a
 * GPU without a copy engine ir/tile/gpu/attention_grad_warps.h). The operator has no logarithms
 * of the forward pass. Where that is a kernel of the same graph it leaves them in memory that
 * both know; else it is run once more for them. See ir/lower/lower.h. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "ir/graph/graph.h"
#include "ir/tile/gpu/attention.h"
#include "ir/tile/gpu/attention_ends.h"
#include "ir/tile/gpu/attention_grad_warps.h"
#include "ir/tile/sequence.h"
#include "ir/lower/heads.h"
#include "ir/lower/mask.h"
#include "ir/lower/row.h"
#include "ir/sched/attention.h"

enum { Q, K, V, Y, G, DQ, DK, DV, OPERANDS, SINK = OPERANDS, DSINK, MASK, ALL };

typedef struct Problem {
  const TsNode *n;
  TsVal value[ALL]; /* of sinks and masks NULL: there are none */
  TsGpuMaskFrom from;
  TsLowerHeads of[OPERANDS];
  TsGpuAttentionGrad x;
  int64_t nsm; /* 0: by warps of gpu */
  TsGpuMachine gpu;
  bool in_turn;
  TsTileSequence *sequence;
  int lse, lse2, delta, sums, y, turn, counter; /* temporaries */
  int mask[2];                                  /* arguments: one that all read, transposed */
} Problem;

static bool same_dims(const Problem *p, int a, int b) {
  return !memcmp(p->of[a].dim, p->of[b].dim, sizeof p->of[a].dim);
}

/* Numbers of the heads, as attention itself takes them. */
static bool find_sink(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  TsVal x = n->in[4];
  if (n->nout != (x ? 4 : 3)) return false;
  if (!x) return true;
  p->value[SINK] = x, p->value[DSINK] = (TsVal)(uintptr_t)&n->out[3];
  return x->meta.dtype == TS_DT_f32 && !x->meta.weak && x->meta.ndim == 1 &&
         ts_sched_row_major(layout, arg, x) && ts_sched_row_major(layout, arg, p->value[DSINK]);
}

static bool find_mask(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsMeta *q = &p->n->in[0]->meta;
  TsVal x = p->value[MASK] = p->n->in[3];
  return !x || (q->ndim <= 4 && ts_lower_mask(&p->from, x, (TsDtype)q->dtype, layout, arg));
}

static bool find_operands(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsNode *n = p->n;
  static const int from[] = {0, 1, 2, 5, 6};
  if (n->op != TS_OP_attention_grad || n->nin != 7 || n->attr[3].i ||
      !find_sink(p, layout, arg) || !find_mask(p, layout, arg))
    return false;
  for (int i = 0; i < OPERANDS; i++) {
    p->value[i] = i < DQ ? n->in[from[i]] : (TsVal)(uintptr_t)&n->out[i - DQ];
    if (!p->value[i] || p->value[i]->meta.dtype != n->in[0]->meta.dtype ||
        p->value[i]->meta.ndim != n->in[0]->meta.ndim ||
        !ts_lower_heads(&p->of[i], p->value[i], layout, arg))
      return false;
  }
  const TsMeta *q = &n->in[0]->meta, *k = &n->in[1]->meta;
  for (int i = 0; i + 3 < q->ndim; i++)
    if (q->dim[i] != k->dim[i]) return false;
  return same_dims(p, Q, Y) && same_dims(p, Q, G) && same_dims(p, Q, DQ) &&
         same_dims(p, K, DK) && same_dims(p, K, DV) &&
         ts_lower_heads_fit(&p->of[Q], &p->of[K], &p->of[V]);
}

static bool describe(Problem *p, TsLayoutFn *layout, void *arg) {
  const TsAttr *attr = p->n->attr;
  if (!find_operands(p, layout, arg)) return false;
  TsDtype d = (TsDtype)p->n->in[0]->meta.dtype;
  if (d != TS_DT_bf16 && d != TS_DT_f16) return false;
  const int64_t *q = p->of[Q].dim, *k = p->of[K].dim;
  bool causal = attr[0].i;
  int64_t window = ts_sched_attention_window(p->n);
  p->x = ts_gpu_attention_grad(d, (int)q[3], causal, window);
  p->x.scale = attr[2].type == TS_ATTR_f ? attr[2].f : 1 / sqrt((double)q[3]);
  return p->x.scale > 0 && !(attr[4].i && k[2] != q[2]) &&
         (causal ? k[2] >= q[2] && window >= 0 : !window);
}

/* ---- steps */
/* What is written comes behind all that is read. */
static int param_of(const Problem *p, int operand) {
  static const int order[ALL] = {Q, K, V, Y, G, MASK, SINK, DQ, DK, DV, DSINK};
  int at = 0;
  for (int i = 0; i < ALL && order[i] != operand; i++) at += p->value[order[i]] != NULL;
  return at;
}

static int64_t bytes_of(const Problem *p, int i, int64_t each) {
  const int64_t *n = p->of[i].dim;
  return n[0] * n[1] * n[2] * n[3] * each;
}

static int64_t blocks_of(const Problem *p) {
  const int64_t *q = p->of[Q].dim;
  return ts_gpu_attention_grad_blocks(&p->x, q[0] * q[1], q[2]);
}

static void temporaries(Problem *p) {
  const int64_t *q = p->of[Q].dim;
  int64_t heads = q[0] * q[1], blocks = blocks_of(p);
  TsTileSequence *to = p->sequence;
  const TsNode *forward = p->value[Y]->node;
  bool pair = forward && ts_lower_attention_pair(forward, p->n);
  uint64_t name = pair ? ts_lower_attention_name(forward) : 0;
  p->y = ts_tile_sequence_temp(to, bytes_of(p, Q, 2), false);
  p->lse = ts_tile_sequence_shared(to, heads * q[2] * 4, name, false);
  p->lse2 = ts_tile_sequence_temp(to, blocks * p->x.rows * 4, false);
  p->delta = ts_tile_sequence_temp(to, blocks * p->x.rows * 4, false);
  if (!p->nsm) return;
  p->sums = ts_tile_sequence_temp(to, bytes_of(p, Q, 4), false);
  p->turn = ts_tile_sequence_temp(to, blocks * 4, true);
  p->counter = ts_tile_sequence_temp(to, 4, true);
}

static void set_layout(const Problem *p, TsTile *k, int param, int operand) {
  if (k) ts_lower_heads_set_layout(&p->of[operand], k->param[param]);
}

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

/* The argument that has it. What is laid out for each key all read, other masks those who run
 * the forward pass and by warps make dq, and the gradients transposed. */
static int add_mask(Problem *p, const TsGpuMask *m, bool transposed, TsError *err) {
  bool line = m->dim[2] == 1, always = line || transposed || !p->nsm;
  int *is = &p->mask[transposed && !line];
  if (*is) return *is;
  int at = ts_lower_mask_step(p->sequence, m, &p->from, p->x.dtype, transposed && !line,
                              param_of(p, MASK), always ? 0 : p->lse, err);
  if (at != INT_MIN) *is = at;
  return at;
}

/* How the forward pass is made where the logarithms are wanted. */
static TsGpuAttention forward_of(const Problem *p) {
  TsDtype d = p->x.dtype;
  bool causal = p->x.causal, sink = p->value[SINK];
  TsGpuAttention x = ts_gpu_attention(d, p->x.d, causal, p->x.window, sink);
  ts_gpu_attention_fit(&x, p->of[Q].dim[2], p->value[MASK] != NULL);
  if (!p->nsm)
    x = ts_gpu_attention_by_warps(d, p->x.d, causal, p->x.window, sink, p->gpu.target->name,
                                  p->gpu.target->shared_bytes);
  x.scale = p->x.scale;
  return x;
}

/* By warps tiles of all kernels are as large, or half. */
static TsGpuMask mask_of(const Problem *p, int rows, bool transposed) {
  enum { LARGEST = 128 };
  return ts_gpu_mask(&p->from, p->of[Q].dim[2], p->of[K].dim[2], p->nsm ? rows : LARGEST,
                     transposed);
}

static bool add_forward(Problem *p, TsError *err) {
  const int64_t *q = p->of[Q].dim, *k = p->of[K].dim;
  TsGpuAttention x = forward_of(p);
  int64_t heads = q[0] * q[1], tiles = ts_gpu_attention_tiles(&x, heads, q[2]);
  int64_t g = ts_gpu_attention_heads(&x, heads, k[0] * k[1], k[2]);
  int64_t dim[] = {q[0], q[1], k[1], q[2], k[2], g, p->nsm ? at_most(tiles, p->nsm) : tiles};
  int arg[8] = {param_of(p, Q), param_of(p, K), param_of(p, V)}, n = 3;
  if (p->value[MASK]) {
    x.mask = mask_of(p, x.rows, false);
    if ((arg[n++] = add_mask(p, &x.mask, false, err)) == INT_MIN) return false;
  }
  if (p->value[SINK]) arg[n++] = param_of(p, SINK);
  arg[n++] = p->y, arg[n++] = p->lse, arg[n] = p->counter;
  TsTile *t = ts_tile_gpu_attention(&x, err);
  set_layout(p, t, 0, Q), set_layout(p, t, 1, K), set_layout(p, t, 2, V);
  if (!ts_tile_sequence_add(p->sequence, t, arg, dim)) return false;
  p->sequence->step[p->sequence->n - 1].unless = p->lse;
  return true;
}

static TsGpuHeads heads_of(const Problem *p, int operand) {
  const TsLowerHeads *of = &p->of[operand];
  TsGpuHeads h = {.stride = of->plain ? NULL : of->stride};
  memcpy(h.dim, of->dim, sizeof h.dim);
  return h;
}

static bool add_begin(Problem *p, TsError *err) {
  TsGpuHeads h[2] = {heads_of(p, G), heads_of(p, Y)};
  int64_t dim[TS_ATTENTION_BEGIN_SIZES];
  ts_gpu_attention_begin_sizes(&p->x, &h[0], &h[1], dim);
  int arg[] = {param_of(p, G), param_of(p, Y), p->lse, p->lse2, p->delta};
  return ts_tile_sequence_add(p->sequence,
                              ts_tile_gpu_attention_begin(&p->x, &h[0], &h[1], err), arg, dim);
}

static bool add_grad(Problem *p, TsError *err) {
  const int64_t *q = p->of[Q].dim, *k = p->of[K].dim;
  int64_t j = k[0] * k[1];
  /* In turn none may wait for another one. */
  int64_t most = p->in_turn ? 1 : p->nsm, tiles = ts_gpu_attention_grad_tiles(&p->x, j, k[2]);
  int64_t dim[] = {q[0],
                   q[1],
                   k[1],
                   q[2],
                   k[2],
                   blocks_of(p),
                   ts_gpu_attention_grad_heads(&p->x, j, q[2]),
                   at_most(tiles, most)};
  int arg[12] = {param_of(p, Q), param_of(p, K), param_of(p, V)}, at = 3;
  if (p->value[MASK]) {
    p->x.mask = mask_of(p, p->x.rows, true);
    if ((arg[at++] = add_mask(p, &p->x.mask, true, err)) == INT_MIN) return false;
  }
  int rest[] = {param_of(p, G),  p->lse2,         p->delta, p->sums,
                param_of(p, DK), param_of(p, DV), p->turn,  p->counter};
  memcpy(arg + at, rest, sizeof rest);
  TsTile *t = ts_tile_gpu_attention_grad(&p->x, err);
  set_layout(p, t, 0, Q), set_layout(p, t, 1, K), set_layout(p, t, 2, V),
      set_layout(p, t, at, G);
  set_layout(p, t, at + 4, DK), set_layout(p, t, at + 5, DV);
  return ts_tile_sequence_add(p->sequence, t, arg, dim);
}

/* By warps: one of the two kernels. */
static bool add_half(Problem *p, bool of_queries, TsError *err) {
  const int64_t *q = p->of[Q].dim, *k = p->of[K].dim;
  int64_t n = q[0] * q[1], j = k[0] * k[1], l = ts_gpu_attention_grad_own(&p->x, n, q[2]);
  int64_t tiles = of_queries ? l : ts_gpu_attention_grad_tiles(&p->x, j, k[2]), near;
  TsGpuAttention f = forward_of(p);
  near = of_queries ? ts_gpu_attention_heads(&f, n, j, k[2])
                    : ts_gpu_attention_grad_heads(&p->x, j, q[2]);
  int64_t dim[] = {q[0], q[1], k[1], q[2], k[2], l, near, tiles};
  int arg[10] = {param_of(p, Q), param_of(p, K), param_of(p, V)}, at = 3;
  if (p->value[MASK]) {
    p->x.mask = mask_of(p, 0, !of_queries);
    if ((arg[at++] = add_mask(p, &p->x.mask, !of_queries, err)) == INT_MIN) return false;
  }
  int rest[] = {param_of(p, G), p->lse2, p->delta, param_of(p, of_queries ? DQ : DK),
                param_of(p, DV)};
  memcpy(arg + at, rest, sizeof rest);
  TsTile *t = (of_queries ? ts_tile_gpu_attention_grad_queries
                          : ts_tile_gpu_attention_grad_keys)(&p->x, err);
  set_layout(p, t, 0, Q), set_layout(p, t, 1, K), set_layout(p, t, 2, V),
      set_layout(p, t, at, G);
  set_layout(p, t, at + 3, of_queries ? DQ : DK);
  if (!of_queries) set_layout(p, t, at + 4, DV);
  return ts_tile_sequence_add(p->sequence, t, arg, dim);
}

static bool add_end(Problem *p, TsError *err) {
  int64_t n = bytes_of(p, Q, 1);
  int arg[] = {p->sums, param_of(p, DQ)};
  TsGpuHeads h = heads_of(p, DQ);
  return ts_tile_sequence_add(p->sequence, ts_tile_gpu_attention_end(&p->x, &h, err), arg,
                              h.stride ? NULL : &n);
}

static bool add_sink(Problem *p, TsError *err) {
  const int64_t *q = p->of[Q].dim;
  int64_t lines = blocks_of(p) * p->x.rows / (q[0] * q[1]);
  int arg[] = {p->lse2, p->delta, param_of(p, SINK), param_of(p, DSINK)};
  if (!p->value[SINK]) return true;
  return ts_tile_sequence_add(p->sequence, ts_tile_gpu_attention_sink(q[0], q[1], lines, err),
                              arg, NULL);
}

static void add_params(Problem *p, TsTile *k, int from, int to, int sink) {
  TsTileType line = ts_tile_vector(TS_DT_f32, p->of[Q].dim[1]);
  for (int i = from; i < to; i++) {
    TsTileType t = ts_tile_type(p->x.dtype, 4, p->of[i].dim);
    ts_tile_param(k, NULL, &t, i >= DQ);
  }
  if (p->value[MASK] && sink == SINK) ts_lower_mask_param(k, &p->from);
  if (p->value[sink]) ts_tile_param(k, NULL, &line, sink == DSINK);
}

static TsTile *whole(Problem *p, TsError *err) {
  TsTile *k = ts_tile_new("attention_grad");
  if (k) add_params(p, k, Q, DQ, SINK), add_params(p, k, DQ, OPERANDS, DSINK);
  if (!k || k->failed || !(p->sequence = ts_tile_sequence(k))) {
    ts_tile_free(k);
    return ts_error_memory(err), NULL;
  }
  temporaries(p);
  if (add_forward(p, err) && add_begin(p, err) &&
      (p->nsm ? add_grad(p, err) && add_end(p, err)
              : add_half(p, false, err) && add_half(p, true, err)) &&
      add_sink(p, err))
    return k;
  ts_tile_free(k);
  return NULL;
}

/* On GPUs without a copy engine. */
static bool by_warps(Problem *p, const TsSched *s, double work) {
  double scale = p->x.scale;
  if (!ts_lower_warps(s, work, &p->gpu)) return false;
  p->x = ts_gpu_attention_grad_by_warps(p->x.dtype, p->x.d, p->x.causal, p->x.window,
                                        p->gpu.target->name, p->gpu.target->shared_bytes);
  p->x.scale = scale;
  return true;
}

int ts_lower_attention_grad(const TsSched *s, const TsGroup *group, TsLayoutFn *layout,
                            void *arg, TsSchedKernel *out, TsError *err) {
  Problem p = {.n = group->node[0], .in_turn = s->simulated};
  bool strict = s->profile == TS_PROFILE_strict;
  if (strict || group->nnode != 1 || !describe(&p, layout, arg)) return 0;
  /* Five products, where attention has two. */
  double work = 4 * (double)bytes_of(&p, Q, p.of[K].dim[2]);
  p.nsm = ts_lower_roles(s, work);
  if (!p.nsm && !by_warps(&p, s, work)) return 0;
  memset(out, 0, sizeof *out);
  if (!(out->tile = whole(&p, err))) return ts_lower_refused(err);
  for (int i = 0; i < ALL; i++)
    if (p.value[i]) out->value[param_of(&p, i)] = p.value[i];
  return 1;
}
