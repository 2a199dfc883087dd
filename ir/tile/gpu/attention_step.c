/* What attention on a matrix unit is made of, whatever brings its operands: parameters, which
 * tile a number is, which pairs a block hides, probabilities, what ends a row. See
 * ir/tile/gpu/attention.c. */
#include <float.h>
#include <math.h>

#include "ir/tile/gpu/attention_state.h"
#include "ir/tile/gpu/heads.h"

enum { KEYS = TS_GPU_KEYS };

typedef TsTileVal V;
typedef TsGpuAttend Attention;
typedef TsGpuAttendRows State;

static V number(Attention *a, int64_t i) { return ts_tile_index(&a->b, i); }
static V op2(Attention *a, int op, V x, V y) { return ts_tile_op2(&a->b, op, x, y); }
static V by(Attention *a, int op, V x, int64_t y) { return ts_gpu_by(&a->b, op, x, y); }

/* ---- parameters, sizes */
static V heads_of(Attention *a, const char *name, int64_t heads, int64_t rows, bool written) {
  TsTileType t = ts_tile_type(a->x.dtype, 4, (int64_t[]){ts_tile_dim(0), heads, rows, a->x.d});
  return ts_tile_param(a->b.k, name, &t, written);
}

void ts_gpu_attend_params(Attention *a) {
  static const char *const names[] = {"B", "H", "J", "S", "T", "G", "P"};
  TsTile *k = a->b.k;
  int64_t size[7];
  for (int i = 0; i < 7; i++) size[i] = ts_tile_size(k, names[i]);
  a->q = heads_of(a, "q", size[1], size[3], false);
  a->k = heads_of(a, "k", size[2], size[4], false);
  a->v = heads_of(a, "v", size[2], size[4], false);
  TsTileType line = ts_tile_vector(TS_DT_f32, size[1]), one = ts_tile_vector(TS_DT_i32, 1);
  TsTileType logs = ts_tile_type(TS_DT_f32, 3, (int64_t[]){size[0], size[1], size[3]});
  if (a->x.mask.some) a->mask = ts_gpu_mask_param(k, &a->x.mask, a->x.dtype);
  if (a->x.sink) a->sink = ts_tile_param(k, "sink", &line, false);
  a->y = heads_of(a, "y", size[1], size[3], true);
  if (a->x.alone) return;
  a->lse = ts_tile_param(k, "lse", &logs, true);
  if (!a->x.warps) a->counter = ts_tile_param(k, "counter", &one, true);
}

void ts_gpu_attend_sizes(Attention *a) {
  TsTileBuild *b = &a->b;
  V *to[] = {&a->nb, &a->h, &a->j, &a->s, &a->t, &a->g, &a->p};
  static const char *const names[] = {"b", "h", "j", "s", "t", "g", "p"};
  for (int i = 0; i < 7; i++) *to[i] = ts_gpu_size(b, i, names[i]);
  a->n = ts_gpu_named(op2(a, TS_OP_mul, a->nb, a->h), "n");
  a->tiles = ts_gpu_named(ts_gpu_div_up(b, a->s, a->x.rows), "tiles");
  a->total = ts_gpu_named(op2(a, TS_OP_mul, a->tiles, a->n), "total");
  a->blocks = ts_gpu_named(ts_gpu_div_up(b, a->t, KEYS), "blocks");
  a->span = ts_gpu_named(op2(a, TS_OP_mul, a->tiles, a->g), "span");
  ts_gpu_order(b->k, "heads", 0);
  a->offset = ts_gpu_named(op2(a, TS_OP_sub, a->t, a->s), "offset");
  a->each = ts_gpu_named(op2(a, TS_OP_floordiv, a->h, a->j), "each");
}

/* ---- tiles */
/* The key blocks that some row of the tile sees; at least one. */
static void blocks_of(Attention *a) {
  TsGpuSeen x = {a->x.causal, a->x.window, a->x.rows, KEYS};
  V position = op2(a, TS_OP_add, a->q0, a->offset);
  ts_gpu_heads_seen(&a->b, &x, position, a->blocks, &a->first, &a->count);
}

/* Of number t: groups of heads, in a group the last queries of all heads first. */
void ts_gpu_attend_tile(Attention *a, V t) {
  V row;
  ts_gpu_heads_tile(&a->b, t, a->g, a->span, a->n, &row, &a->all_head);
  a->all_head = ts_gpu_named(a->all_head, "all");
  a->batch = ts_gpu_named(op2(a, TS_OP_floordiv, a->all_head, a->h), "batch");
  a->head =
      ts_gpu_named(op2(a, TS_OP_sub, a->all_head, op2(a, TS_OP_mul, a->batch, a->h)), "head");
  a->key_head = ts_gpu_named(op2(a, TS_OP_floordiv, a->head, a->each), "key_head");
  row = op2(a, TS_OP_sub, by(a, TS_OP_sub, a->tiles, 1), row);
  a->q0 = ts_gpu_named(by(a, TS_OP_mul, row, a->x.rows), "q0");
  blocks_of(a);
}

V ts_gpu_attend_own(Attention *a, const V *of) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  return ts_gpu_give(&a->b, TS_TILE_own, a->x.rows / TS_GPU_GROUP_ROWS, of, TS_GPU_PLAIN, &t);
}

/* Of the first row of this group; run as one, of the tile. */
static V position_of(Attention *a) {
  V position = op2(a, TS_OP_add, a->q0, a->offset), of[4];
  if (!a->x.apart) return position;
  for (int i = 0; i < a->x.rows / TS_GPU_GROUP_ROWS; i++)
    of[i] = number(a, -i * TS_GPU_GROUP_ROWS);
  return op2(a, TS_OP_sub, position, ts_gpu_attend_own(a, of));
}

/* First key of block j of the tile. */
V ts_gpu_attend_keys_at(Attention *a, V j) {
  return by(a, TS_OP_mul, op2(a, TS_OP_add, a->first, j), KEYS);
}

/* ---- which pairs are seen */
static double log2_scale(const Attention *a) {
  return (a->x.mask.some ? 1 : a->x.scale) * 1.4426950408889634;
}

static V constant(Attention *a, double v, V like) {
  return like ? ts_gpu_all(&a->b, v, &like->type) : NULL;
}

static V along(Attention *a, int axis, V like) {
  TsTileType t = ts_gpu_fragment(TS_DT_i64, a->x.rows, axis ? KEYS : 0);
  (void)like;
  return ts_gpu_give(&a->b, TS_TILE_iota, TS_GPU_PLAIN,
                     TS_GPU_SET({"axis", ts_gpu_whole(axis)}), &t);
}

/* Column j of the block is seen up to the row's limit, and above another one. */
static V visible(Attention *a, V k0, V x) {
  TsTileBuild *b = &a->b;
  V col = along(a, 1, x), row = along(a, 0, x);
  if (!col || !row) return NULL;
  const TsTileType *line = &row->type, *tile = &col->type;
  V last = op2(a, TS_OP_sub, by(a, TS_OP_sub, a->t, 1), k0);
  V limit = ts_gpu_spread(b, last, line, 0), seen;
  V from = op2(a, TS_OP_sub, op2(a, TS_OP_add, a->q0, a->offset), k0);
  V at = op2(a, TS_OP_add, row, ts_gpu_spread(b, from, line, 0));
  if (a->x.causal) limit = op2(a, TS_OP_minimum, limit, at);
  seen = op2(a, TS_OP_le, col, ts_gpu_spread(b, limit, tile, 0));
  if (!a->x.window) return seen;
  V width = ts_gpu_spread(b, number(a, a->x.window), line, 0);
  V above = ts_gpu_spread(b, op2(a, TS_OP_sub, at, width), tile, 0);
  return op2(a, TS_OP_logical_and, seen, op2(a, TS_OP_gt, col, above));
}

/* Whether a row of the group does not see all of the block. */
static V is_partial(Attention *a, V k0) {
  V end = by(a, TS_OP_add, k0, KEYS), position = op2(a, TS_OP_add, a->q0, a->offset);
  V partial = op2(a, TS_OP_gt, end, a->t);
  if (a->x.causal)
    partial = op2(a, TS_OP_logical_or, partial,
                  op2(a, TS_OP_gt, by(a, TS_OP_sub, end, 1), position_of(a)));
  if (a->x.window) {
    V lowest = by(a, TS_OP_add, position, a->x.rows - 1 - a->x.window);
    partial = op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_le, k0, lowest));
  }
  return partial;
}

V ts_gpu_attend_masked(Attention *a, V x, V j) {
  TsTileBuild *b = &a->b;
  V k0 = ts_gpu_attend_keys_at(a, j), partial = is_partial(a, k0);
  if (a->x.mask.some)
    x = ts_gpu_mask_add(b, &a->x.mask, a->mask, a->batch, a->head, a->q0, k0, 1, x, a->x.scale);
  if (!x || !partial) return NULL;
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &partial, NULL, 1, &x->type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  b->at = s->region[0];
  V y = ts_tile_op3(b, TS_OP_where, visible(a, k0, x), x, constant(a, -INFINITY, x));
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(y), TS_GPU_PLAIN, NULL);
  b->at = s->region[1];
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(x), TS_GPU_PLAIN, NULL);
  b->at = before;
  return s->out[0];
}

/* ---- softmax */
enum { SUM, LARGER };

static V quarter(Attention *a, V x, int of) {
  if (!x) return NULL;
  TsTileType t = ts_gpu_fragment(TS_DT_f32, x->type.dim[0], 4);
  return ts_gpu_give(&a->b, TS_TILE_quarter, TS_GPU_IN(x),
                     TS_GPU_SET({"of", ts_gpu_choice(of)}), &t);
}

static V row(Attention *a, V x, int of) {
  if (!x) return NULL;
  TsTileType t = ts_gpu_fragment(TS_DT_f32, x->type.dim[0], 0);
  return ts_gpu_give(&a->b, TS_TILE_row, TS_GPU_IN(x), TS_GPU_SET({"of", ts_gpu_choice(of)}),
                     &t);
}

static V lg2(Attention *a, V x) {
  return x ? ts_gpu_give(&a->b, TS_TILE_lg2, TS_GPU_IN(x), TS_GPU_PLAIN, &x->type) : NULL;
}

static V scaled(Attention *a, V x) {
  return op2(a, TS_OP_mul, x, constant(a, log2_scale(a), x));
}

static V probabilities(Attention *a, V x, V m) {
  if (!x) return NULL;
  if (a->x.mask.some)
    return ts_gpu_ex2(&a->b,
                      scaled(a, op2(a, TS_OP_sub, x, ts_gpu_spread(&a->b, m, &x->type, 0))));
  V less = ts_tile_op1(&a->b, TS_OP_neg, scaled(a, m));
  return ts_gpu_ex2(&a->b, ts_tile_op3(&a->b, TS_OP_fma, x, constant(a, log2_scale(a), x),
                                       ts_gpu_spread(&a->b, less, &x->type, 0)));
}

/* The first block. */
V ts_gpu_attend_first(Attention *a, V x, State *s) {
  s->m = row(a, quarter(a, x, LARGER), LARGER);
  s->m = ts_gpu_larger(&a->b, s->m, constant(a, a->x.mask.some ? -FLT_MAX : -1e30, s->m));
  V p = probabilities(a, x, s->m);
  s->l = quarter(a, p, SUM);
  return p;
}

/* The others: what the sums so far are to be multiplied by too. */
V ts_gpu_attend_next(Attention *a, V x, State *s, V *factor) {
  V m = ts_gpu_larger(&a->b, row(a, quarter(a, x, LARGER), LARGER), s->m);
  V p = probabilities(a, x, m);
  *factor = ts_gpu_ex2(&a->b, scaled(a, op2(a, TS_OP_sub, s->m, m)));
  if (!s->l || !*factor) return NULL;
  s->l = ts_tile_op3(&a->b, TS_OP_fma, s->l, ts_gpu_spread(&a->b, *factor, &s->l->type, 0),
                     quarter(a, p, SUM));
  s->m = m;
  return p;
}

/* ---- the end of a tile */
/* A logit more in the denominator. What o is to be multiplied by; l and the exponent become
 * those with it. */
static V with_sink(Attention *a, V *u, V *l) {
  TsTileBuild *b = &a->b;
  TsTileType one = ts_tile_scalar(TS_DT_f32);
  V x = ts_tile_load(b, a->sink, &a->head, &one, NULL);
  if (!x || !*u) return NULL;
  x = ts_gpu_spread(b, x, &(*u)->type, 0);
  x = op2(a, TS_OP_mul, x, constant(a, 1.4426950408889634, x));
  V most = ts_gpu_larger(&a->b, *u, x), f = ts_gpu_ex2(&a->b, op2(a, TS_OP_sub, *u, most));
  *l = ts_tile_op3(b, TS_OP_fma, *l, f, ts_gpu_ex2(&a->b, op2(a, TS_OP_sub, x, most)));
  *u = most;
  return f;
}

/* The factor of a row's sums; its logarithm goes to memory. */
V ts_gpu_attend_finish(Attention *a, const State *s) {
  TsTileBuild *b = &a->b;
  V l = row(a, s->l, SUM), u = scaled(a, s->m), one = constant(a, 1, l), zero;
  V part = a->x.sink ? with_sink(a, &u, &l) : one;
  TsTileAccess edge = {.edge = true};
  if (a->lse) {
    V sum = op2(a, TS_OP_add, u, lg2(a, l));
    V lse = op2(a, TS_OP_mul, sum, constant(a, 0.6931471805599453, sum));
    if (!lse) return NULL;
    ts_tile_store(b, a->lse, (V[]){a->batch, a->head, a->q0}, lse, &edge);
  }
  zero = constant(a, 0, l);
  return ts_tile_op3(b, TS_OP_where, op2(a, TS_OP_eq, l, zero), zero,
                     op2(a, TS_OP_div, part, l));
}
