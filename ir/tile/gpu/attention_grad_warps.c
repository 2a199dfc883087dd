/* See ir/tile/gpu/attention_grad_warps.h.
 *
 * A tile has two matrices of its own, which stay in shared memory, and two others go by in
 * blocks. Of keys its own are k and v, the others q and g; of queries it is the other way
 * round. So one step serves both: scores and g v' of 16 own rows a warp and of a block of the
 * others, [keys, queries] or [queries, keys]; as they come out of the unit they are the left
 * operands of the sums dk += s' q and dv += p' g, or dq += s k.
 *
 * Others have two slots: the block behind is copied while one is multiplied, and warps meet
 * once a step. Heads of 128 have blocks of 32: their sums take half of a thread's registers, and
 * larger blocks of the rest would leave nothing.
 *
 * Of queries, which have one sum, its own stay in registers; shared memory is what both kernels
 * wait for. Of keys there is no room for them.
 *
 * Rejected: dq in the kernel of keys, added up in memory as the other form does. Blocks would
 * have to wait for one another in an order that the hardware does not promise to start them in,
 * or the sums would be in any order; scores twice are 7 products instead of 5. */
#include "ir/tile/gpu/attention_grad_warps.h"

#include "ir/tile/gpu/attention_grad_state.h"
#include "ir/tile/gpu/heads.h"

enum { WARP_ROWS = 16, LINE = 64 /* queries of what comes before */, SLOTS = 2 };

typedef TsTileVal V;

/* What a tile has and what goes by: places in memory, the parameters, which of the heads. */
typedef struct Side {
  V at[2], from[2];
} Side;

typedef struct Warps {
  TsGpuGrad g;
  bool of_queries;
  Side own, other;
  V held[2][TS_GPU_HEADS_STEPS]; /* its own, if they are in registers */
  V tiles, q0, all_head; /* of queries: tiles of a head, the first query, the head of all */
} Warps;

/* One step: which head of queries, which block. */
typedef struct Place {
  V block, head; /* head: of keys which one of the key head */
} Place;

/* Sums; of queries only the first. */
typedef struct Sums {
  V first, second;
} Sums;

static V number(Warps *w, int64_t i) { return ts_gpu_grad_number(&w->g, i); }
static V op2(Warps *w, int op, V x, V y) { return ts_gpu_grad_op2(&w->g, op, x, y); }
static V by(Warps *w, int op, V x, int64_t y) { return ts_gpu_grad_by(&w->g, op, x, y); }

/* ---- parameters, memory */
static void params(Warps *w) {
  TsGpuGrad *a = &w->g;
  TsDtype d = a->x.dtype;
  int64_t size[8];
  ts_gpu_grad_given(a, 4, a->x.own, size);
  if (w->of_queries) {
    a->dq = ts_gpu_grad_heads(a, "dq", d, size[1], size[3], true);
    return;
  }
  a->dk = ts_gpu_grad_heads(a, "dk", d, size[2], size[4], true);
  a->dv = ts_gpu_grad_heads(a, "dv", d, size[2], size[4], true);
}

static void memory(Warps *w) {
  static const char *const names[2][2] = {{"own_0", "own_1"}, {"other_0", "other_1"}};
  const TsGpuAttentionGrad *x = &w->g.x;
  Side of_keys = {.from = {w->g.k, w->g.v}}, of_queries = {.from = {w->g.q, w->g.g}};
  w->own = w->of_queries ? of_queries : of_keys;
  w->other = w->of_queries ? of_keys : of_queries;
  for (int i = 0; i < 2; i++) {
    w->own.at[i] = ts_gpu_heads_room(&w->g.b, names[0][i], x->dtype, 1, x->own, x->d);
    w->other.at[i] = ts_gpu_heads_room(&w->g.b, names[1][i], x->dtype, SLOTS, x->step, x->d);
  }
}

/* ---- tiles */
/* The last queries of all heads first. */
static void tile_of_queries(Warps *w, V t) {
  TsGpuGrad *a = &w->g;
  TsGpuSeen seen = {a->x.causal, a->x.window, a->x.own, a->x.step};
  V row, all = op2(w, TS_OP_mul, a->nb, a->h), span = op2(w, TS_OP_mul, w->tiles, a->near);
  ts_gpu_heads_tile(&a->b, t, a->near, span, all, &row, &w->all_head);
  a->batch = ts_gpu_named(op2(w, TS_OP_floordiv, w->all_head, a->h), "batch");
  V head = op2(w, TS_OP_sub, w->all_head, op2(w, TS_OP_mul, a->batch, a->h));
  a->key_head = ts_gpu_named(op2(w, TS_OP_floordiv, head, a->each), "key_head");
  row = op2(w, TS_OP_sub, by(w, TS_OP_sub, w->tiles, 1), row);
  w->q0 = ts_gpu_named(by(w, TS_OP_mul, row, a->x.own), "q0");
  ts_gpu_heads_seen(&a->b, &seen, op2(w, TS_OP_add, w->q0, a->offset),
                    ts_gpu_div_up(&a->b, a->t, a->x.step), &a->first, &a->count);
}

/* The query head of a step, of its batch's ones. */
static V head_of(Warps *w, const Place *p) {
  TsGpuGrad *a = &w->g;
  if (!w->of_queries) return ts_gpu_grad_query_head(a, p->head);
  return op2(w, TS_OP_sub, w->all_head, op2(w, TS_OP_mul, a->batch, a->h));
}

static V first_query(Warps *w, const Place *p) {
  return w->of_queries ? w->q0 : by(w, TS_OP_mul, p->block, w->g.x.step);
}

/* ---- copies */
static void copy_side(Warps *w, const Side *s, V slot, V head, V row) {
  for (int i = 0; i < 2; i++)
    ts_gpu_heads_copy(&w->g.b, s->at[i], slot, s->from[i], w->g.batch, head, row);
}

static void copy_own(Warps *w) {
  TsGpuGrad *a = &w->g;
  V zero = number(w, 0);
  if (w->of_queries)
    copy_side(w, &w->own, zero, head_of(w, NULL), w->q0);
  else
    copy_side(w, &w->own, zero, a->key_head, a->n0);
}

static void copy_step(Warps *w, const Place *p, V slot) {
  V row = by(w, TS_OP_mul, p->block, w->g.x.step);
  copy_side(w, &w->other, slot, w->of_queries ? w->g.key_head : head_of(w, p), row);
}

/* ---- a step */
/* A number of each query, to all keys. */
static V line(Warps *w, V memory, const Place *p, V like) {
  TsGpuGrad *a = &w->g;
  int64_t own = a->x.own;
  V zero = number(w, 0), query = first_query(w, p);
  V tile = by(w, TS_OP_floordiv, query, own), all = w->all_head;
  if (!like || !memory) return NULL;
  if (!w->of_queries) all = op2(w, TS_OP_add, op2(w, TS_OP_mul, a->batch, a->h), head_of(w, p));
  V row = op2(w, TS_OP_add, op2(w, TS_OP_mul, all, w->tiles), tile);
  V col = op2(w, TS_OP_sub, query, by(w, TS_OP_mul, tile, own));
  TsTileType t = ts_gpu_fragment(TS_DT_f32, like->type.dim[!w->of_queries], 0);
  V x =
      ts_tile_load(&a->b, memory, (V[]){zero, zero, row, w->of_queries ? zero : col}, &t, NULL);
  return ts_gpu_spread(&a->b, x, &like->type, !w->of_queries);
}

static bool holds(const Warps *w) { return w->of_queries; }

static V product(Warps *w, int i, V slot) {
  return ts_gpu_heads_scores(&w->g.b, w->own.at[i], number(w, 0), holds(w) ? w->held[i] : NULL,
                             w->other.at[i], slot);
}

static V probabilities(Warps *w, const Place *p, V slot) {
  TsGpuGrad *a = &w->g;
  V x = product(w, 0, slot), m0 = first_query(w, p);
  if (w->of_queries) a->n0 = by(w, TS_OP_mul, p->block, a->x.step);
  if (a->x.mask.some)
    x = ts_gpu_mask_add(&a->b, &a->x.mask, a->mask, a->batch, head_of(w, p), m0, a->n0,
                        a->keys_axis, x, a->x.scale);
  return ts_gpu_grad_exponentials(a, x, line(w, a->lse, p, x), m0);
}

static void step(Warps *w, const Place *p, V slot, Sums *s) {
  TsTileBuild *b = &w->g.b;
  V e = probabilities(w, p, slot);
  if (!w->of_queries) s->second = ts_gpu_heads_add(b, e, w->other.at[1], slot, s->second);
  V y = product(w, 1, slot);
  V less = op2(w, TS_OP_sub, y, line(w, w->g.delta, p, y));
  s->first = ts_gpu_heads_add(b, op2(w, TS_OP_mul, e, less), w->other.at[0], slot, s->first);
}

/* ---- all steps */
static Place first_place(Warps *w) {
  V zero = number(w, 0);
  if (w->of_queries) return (Place){w->g.first, zero};
  return (Place){ts_gpu_grad_block(&w->g, zero), zero};
}

static Place next_place(Warps *w, const Place *p) {
  Place next = *p;
  if (w->of_queries)
    next.block = by(w, TS_OP_add, p->block, 1);
  else
    ts_gpu_grad_next_head(&w->g, p->block, by(w, TS_OP_add, p->head, 1), &next.block,
                          &next.head);
  return next;
}

static void round_of(Warps *w, V i, V steps, const Place *p, const Place *next, Sums *s) {
  TsTileBuild *b = &w->g.b;
  V slot = by(w, TS_OP_bitwise_and, i, 1);
  ts_gpu_wait(b, 0, 0);
  ts_gpu_heads_meet(b, 2 * w->g.x.own);
  TsTileRegion *before = ts_gpu_when(b, op2(w, TS_OP_lt, by(w, TS_OP_add, i, 1), steps));
  copy_step(w, next, by(w, TS_OP_bitwise_xor, slot, 1));
  b->at = before;
  ts_gpu_commit(b, 0);
  step(w, p, slot, s);
}

/* Its own of a tile, which all steps read. */
static void hold(Warps *w) {
  TsTileBuild *b = &w->g.b;
  ts_gpu_wait(b, 0, 1);
  ts_gpu_heads_meet(b, 2 * w->g.x.own);
  for (int i = 0; i < 2; i++) ts_gpu_heads_hold(b, w->own.at[i], number(w, 0), w->held[i]);
}

static void all_steps(Warps *w, Sums *s) {
  TsGpuGrad *a = &w->g;
  V steps = w->of_queries ? a->count : op2(w, TS_OP_mul, a->count, a->each), out[4];
  Place p = first_place(w);
  copy_own(w);
  ts_gpu_commit(&a->b, 0);
  copy_step(w, &p, number(w, 0));
  ts_gpu_commit(&a->b, 0);
  if (holds(w)) hold(w);
  V begin[4] = {p.block, p.head, s->first, s->second};
  int n = w->of_queries ? 3 : 4;
  TsTileLoop l =
      ts_tile_for(&a->b, number(w, 0), by(w, TS_OP_maximum, steps, 1), 1, false, n, begin);
  if (!l.stmt) return;
  p = (Place){l.carry[0], l.carry[1]};
  *s = (Sums){l.carry[2], w->of_queries ? NULL : l.carry[3]};
  Place next = next_place(w, &p);
  round_of(w, l.i, steps, &p, &next, s);
  ts_tile_for_end(&a->b, &l, (V[]){next.block, next.head, s->first, s->second}, out);
  *s = (Sums){out[2], w->of_queries ? NULL : out[3]};
}

/* ---- the kernels */
static void put(Warps *w, V to, V head, V row, V x, double factor) {
  TsTileBuild *b = &w->g.b;
  TsTileAccess edge = {.edge = true};
  if (x && factor != 1) x = op2(w, TS_OP_mul, x, ts_gpu_all(b, factor, &x->type));
  V at[4] = {w->g.batch, head, row, number(w, 0)};
  if (x) ts_tile_store(b, to, at, ts_tile_cast(b, x, w->g.x.dtype), &edge);
}

static void tile(Warps *w) {
  TsGpuGrad *a = &w->g;
  Sums s = {ts_gpu_zeros(&a->b, a->x.own, a->x.d), NULL};
  if (!w->of_queries) s.second = ts_gpu_zeros(&a->b, a->x.own, a->x.d);
  all_steps(w, &s);
  if (w->of_queries) {
    put(w, a->dq, head_of(w, NULL), w->q0, s.first, a->x.scale);
  } else {
    put(w, a->dk, a->key_head, a->n0, s.first, a->x.scale);
    put(w, a->dv, a->key_head, a->n0, s.second, 1);
  }
  ts_gpu_wait(&a->b, 0, 0);
}

static void body(Warps *w) {
  TsGpuGrad *a = &w->g;
  TsTileBuild *b = &a->b;
  ts_gpu_grad_sizes(a);
  w->tiles = ts_gpu_named(ts_gpu_div_up(b, a->s, a->x.own), "tiles");
  TsTileLoop grid = ts_tile_for(b, number(w, 0), a->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  memory(w);
  TsTileRegion *before = ts_gpu_role(b, "mma", a->x.own / WARP_ROWS);
  if (w->of_queries)
    tile_of_queries(w, grid.i);
  else
    ts_gpu_grad_tile(a, grid.i);
  tile(w);
  b->at = before;
  ts_tile_for_end(b, &grid, NULL, NULL);
}

static bool legal(const TsGpuAttentionGrad *x) {
  bool narrow = x->dtype == TS_DT_bf16 || x->dtype == TS_DT_f16;
  return narrow && (x->d == 64 || x->d == 128) && (x->own == 64 || x->own == 128) &&
         (x->step == 32 || x->step == 64) && x->rows == LINE && x->window >= 0 &&
         (x->causal || !x->window) && x->scale > 0 && x->warps;
}

static void head(const Warps *w) {
  TsTile *k = w->g.b.k;
  const TsGpuAttentionGrad *x = &w->g.x;
  k->form = TS_FORM_explicit;
  k->target = x->warps;
  k->ntile = 3;
  k->tile[0] = w->of_queries ? x->own : x->step, k->tile[1] = w->of_queries ? x->step : x->own;
  k->tile[2] = x->d;
  k->stages = SLOTS;
  k->threads = 2 * x->own;
}

static TsTile *kernel(const TsGpuAttentionGrad *x, bool of_queries, TsError *err) {
  if (!legal(x))
    return ts_error_set(err, TS_ERR_argument, "no gradients of attention of %s by warps",
                        ts_dtype_name(x->dtype)),
           NULL;
  TsTile *k = ts_tile_new(of_queries ? "attention_grad_queries" : "attention_grad_keys");
  if (!k) return ts_error_memory(err), NULL;
  Warps w = {.g = {.x = *x, .b = ts_tile_build(k)}, .of_queries = of_queries};
  w.g.keys_axis = of_queries;
  params(&w);
  head(&w);
  if (!k->failed) body(&w);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}

TsTile *ts_tile_gpu_attention_grad_keys(const TsGpuAttentionGrad *x, TsError *err) {
  return kernel(x, false, err);
}

TsTile *ts_tile_gpu_attention_grad_queries(const TsGpuAttentionGrad *x, TsError *err) {
  return kernel(x, true, err);
}

/* Blocks of four warps where two of them have room in a processor, else one of eight. */
TsGpuAttentionGrad ts_gpu_attention_grad_by_warps(TsDtype dtype, int d, bool causal,
                                                  int64_t window, const char *target,
                                                  int64_t shared) {
  TsGpuAttentionGrad x = ts_gpu_attention_grad(dtype, d, causal, window);
  x.warps = target, x.overlap = x.held = false, x.stages = SLOTS;
  x.step = d == 64 ? 64 : 32;
  int64_t bytes = (int64_t)2 * 2 * d * (64 + SLOTS * x.step);
  x.own = 2 * bytes <= shared ? 64 : 128;
  return x;
}

int64_t ts_gpu_attention_grad_own(const TsGpuAttentionGrad *x, int64_t n, int64_t s) {
  return n * ((s + x->own - 1) / x->own);
}
