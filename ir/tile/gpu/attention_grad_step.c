/* What a step of the gradients of attention is made of, for the roles that multiply: see
 * ir/tile/gpu/attention_grad.c. */
#include "ir/tile/gpu/attention_grad_state.h"

enum { PANEL = 64, KEYS = TS_GPU_GRAD_KEYS };

typedef TsTileVal V;
typedef TsGpuRing Ring;
typedef TsGpuGrad Grad;

static V number(Grad *a, int64_t i) { return ts_gpu_grad_number(a, i); }
static V op2(Grad *a, int op, V x, V y) { return ts_gpu_grad_op2(a, op, x, y); }
static V by(Grad *a, int op, V x, int64_t y) { return ts_gpu_grad_by(a, op, x, y); }

static V constant(Grad *a, double v, V like) {
  return like ? ts_gpu_all(&a->b, v, &like->type) : NULL;
}
V ts_gpu_grad_narrow(Grad *a, V x) { return x ? ts_tile_cast(&a->b, x, a->x.dtype) : NULL; }

/* ---- products */
V ts_gpu_grad_scores(Grad *a, V x, V at, V y, V slot) {
  V acc = ts_gpu_zeros(&a->b, KEYS, a->x.rows);
  V z = ts_gpu_mma(&a->b, ts_gpu_operand(&a->b, x, at, false),
                   ts_gpu_operand(&a->b, y, slot, true), acc);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

V ts_gpu_grad_next_scores(Grad *a, V at, const Ring *r, V more) {
  TsTileRegion *before = ts_gpu_when(&a->b, more);
  ts_gpu_await(&a->b, a->full_q, r->slot, r->parity);
  a->b.at = before;
  return ts_gpu_grad_scores(a, a->sk, at, a->sq, r->slot);
}

V ts_gpu_grad_add_rows(Grad *a, V p, V y, V slot, V sum) {
  V z = ts_gpu_mma(&a->b, p, ts_gpu_operand(&a->b, y, slot, false), sum);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

V ts_gpu_grad_of_queries(Grad *a, V at, V slot) {
  V acc = ts_gpu_zeros(&a->b, a->x.rows, a->x.d);
  V z = ts_gpu_mma(&a->b, ts_gpu_operand(&a->b, a->ss, slot, true),
                   ts_gpu_operand(&a->b, a->sk, at, false), acc);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

/* ---- probabilities and their gradients */
/* A number of each query, to all keys. */
static V line(Grad *a, V memory, V slot, V like) {
  if (!memory || !like) return NULL;
  TsTileType t = ts_gpu_fragment(TS_DT_f32, a->x.rows, 0);
  V x = ts_tile_load(&a->b, memory, (V[]){slot, number(a, 0)}, &t, NULL);
  return ts_gpu_spread(&a->b, x, &like->type, 1);
}

static V along(Grad *a, int64_t n) {
  TsTileType t = ts_gpu_fragment(TS_DT_i64, n, 0);
  return ts_gpu_give(&a->b, TS_TILE_iota, TS_GPU_PLAIN, TS_GPU_SET({"axis", ts_gpu_whole(0)}),
                     &t);
}

static V raised(Grad *a, V x, V by_scalar) {
  return x ? op2(a, TS_OP_add, x, ts_gpu_spread(&a->b, by_scalar, &x->type, 0)) : NULL;
}

/* Key r of the tile and query c of the block, both from 0. A key that there is not lies behind
 * all queries. */
static V visible(Grad *a, V m0, V like) {
  enum { FAR = 1 << 29 };
  TsTileBuild *b = &a->b;
  if (!like) return NULL;
  int keys = a->keys_axis, queries = 1 - keys;
  V key = along(a, like->type.dim[keys]), query = along(a, like->type.dim[queries]);
  if (!key || !query) return NULL;
  TsTileType tile = like->type;
  tile.dtype = TS_DT_i64;
  V end = ts_gpu_spread(b, op2(a, TS_OP_sub, a->t, a->n0), &key->type, 0);
  V none = ts_gpu_spread(b, number(a, FAR), &key->type, 0);
  V r = ts_tile_op3(b, TS_OP_where, op2(a, TS_OP_lt, key, end), key, none);
  V apart = op2(a, TS_OP_sub, op2(a, TS_OP_add, m0, a->offset), a->n0);
  V at = a->x.causal ? raised(a, query, apart) : NULL, limit = at; /* a window is causal */
  if (!a->x.causal) limit = ts_gpu_spread(b, number(a, FAR - 1), &query->type, 0);
  V seen = op2(a, TS_OP_le, ts_gpu_spread(b, r, &tile, keys),
               ts_gpu_spread(b, limit, &tile, queries));
  if (!a->x.window) return seen;
  V low = raised(a, at, number(a, -a->x.window));
  return op2(a, TS_OP_logical_and, seen,
             op2(a, TS_OP_gt, ts_gpu_spread(b, key, &tile, keys),
                 ts_gpu_spread(b, low, &tile, queries)));
}

/* Whether a query of the block does not see all keys of the tile. */
static V is_partial(Grad *a, V m0, const int64_t *dim) {
  int64_t keys = dim[a->keys_axis], queries = dim[1 - a->keys_axis];
  V end = by(a, TS_OP_add, a->n0, keys), position = op2(a, TS_OP_add, m0, a->offset);
  V partial = op2(a, TS_OP_gt, end, a->t);
  if (a->x.causal)
    partial =
        op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_gt, by(a, TS_OP_sub, end, 1), position));
  if (a->x.window) {
    V lowest = by(a, TS_OP_add, position, queries - 1 - a->x.window);
    partial = op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_le, a->n0, lowest));
  }
  return partial;
}

static V masked(Grad *a, V p, V m0) {
  TsTileBuild *b = &a->b;
  V partial = p ? is_partial(a, m0, p->type.dim) : NULL;
  if (!partial) return NULL;
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &partial, NULL, 1, &p->type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  b->at = s->region[0];
  V y = ts_tile_op3(b, TS_OP_where, visible(a, m0, p), p, constant(a, 0, p));
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(y), TS_GPU_PLAIN, NULL);
  b->at = s->region[1];
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(p), TS_GPU_PLAIN, NULL);
  b->at = before;
  return s->out[0];
}

/* x scale + mask, of query head `of` of the key head. */
static V with_mask(Grad *a, V x, V m0, V of) {
  V head = ts_gpu_grad_query_head(a, of);
  return ts_gpu_mask_add(&a->b, &a->x.mask, a->mask, a->batch, head, m0, a->n0, 0, x,
                         a->x.scale);
}

V ts_gpu_grad_exponentials(Grad *a, V x, V less, V m0) {
  double scale = a->x.mask.some ? 1 : a->x.scale;
  if (!x || !less) return NULL;
  V e = ts_tile_op3(&a->b, TS_OP_fma, x, constant(a, scale * 1.4426950408889634, x),
                    ts_tile_op1(&a->b, TS_OP_neg, less));
  if (!e) return NULL;
  return masked(a, ts_gpu_ex2(&a->b, e), m0);
}

V ts_gpu_grad_probabilities(Grad *a, V x, V slot, V m0, V of) {
  if (a->x.mask.some) x = with_mask(a, x, m0, of);
  return ts_gpu_grad_exponentials(a, x, line(a, a->slse, slot, x), m0);
}

V ts_gpu_grad_differences(Grad *a, V p, V y, V slot) {
  V delta = line(a, a->sdelta, slot, y);
  return ts_gpu_grad_narrow(a, op2(a, TS_OP_mul, p, op2(a, TS_OP_sub, y, delta)));
}

/* ---- to memory */
void ts_gpu_grad_give_away(Grad *a, V dq, const Ring *w) {
  TsTileBuild *b = &a->b;
  V zero = number(a, 0);
  ts_gpu_await(b, a->empty_dq, w->slot, w->parity);
  if (dq) ts_tile_store(b, a->sdq, (V[]){w->slot, zero, zero}, dq, NULL);
  ts_gpu_async_fence(b);
  ts_gpu_say(b, TS_TILE_arrive, TS_GPU_IN(a->full_dq, w->slot),
             TS_GPU_SET({"apart", (TsAttr){.type = TS_ATTR_bool, .i = true}}), NULL);
}

V ts_gpu_grad_before(Grad *a, V slot) {
  V first = by(a, TS_OP_eq, slot, 0);
  return ts_tile_op3(&a->b, TS_OP_where, first, number(a, a->x.stages - 1),
                     by(a, TS_OP_sub, slot, 1));
}

void ts_gpu_grad_put(Grad *a, V to, V x, int col, int slot, double factor) {
  V zero = number(a, 0), part = ts_gpu_span(&a->b, x, col, PANEL);
  if (factor != 1) part = op2(a, TS_OP_mul, part, constant(a, factor, part));
  if (part)
    ts_tile_store(&a->b, to, (V[]){number(a, slot), zero, zero}, ts_gpu_grad_narrow(a, part),
                  NULL);
}

void ts_gpu_grad_send(Grad *a, V to, V from, int col, int slot) {
  V zero = number(a, 0);
  int64_t shape[2] = {KEYS, PANEL};
  if (!from) return;
  ts_gpu_say(&a->b, TS_TILE_store_bulk,
             TS_GPU_IN(to, from, a->batch, a->key_head, a->n0, number(a, col), number(a, slot),
                       zero, zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
  ts_gpu_commit(&a->b, TS_GPU_STORES);
}

void ts_gpu_grad_next_head(Grad *a, V block, V head, V *next_block, V *next_head) {
  V over = op2(a, TS_OP_eq, head, a->each);
  *next_head = ts_tile_op3(&a->b, TS_OP_where, over, number(a, 0), head);
  *next_block = op2(a, TS_OP_sub, block, ts_tile_cast(&a->b, over, TS_DT_i64));
}
