/* The role of the gradients of attention that multiplies: see ir/tile_gpu_attention_grad.c. */
#include "ir/tile_gpu_attention_grad_state.h"

enum {
  PANEL = 64,
  KEYS = TS_GPU_GRAD_KEYS,
  WARPS = TS_GPU_GRAD_WARPS,
  RING = TS_GPU_GRAD_RING,
  MEETING = 5, /* the named barrier of all groups */
  MOST = 240   /* registers */
};

typedef TsTileVal V;
typedef TsGpuRing Ring;
typedef TsGpuGrad Grad;

static V number(Grad *a, int64_t i) { return ts_gpu_grad_number(a, i); }
static V op2(Grad *a, int op, V x, V y) { return ts_gpu_grad_op2(a, op, x, y); }
static V by(Grad *a, int op, V x, int64_t y) { return ts_gpu_grad_by(a, op, x, y); }

static void advance(Grad *a, Ring *r, int n) { ts_gpu_advance(&a->b, &r->slot, &r->parity, n); }

/* What is carried from step to step: sums, slots, the block of queries. */
typedef struct State {
  V dk, dv, x;   /* x: the scores of the step, under way */
  V block, head; /* of queries; which query head of the key head */
  Ring r, w;     /* of queries, of dq */
} State;

enum { CARRIED = 9 };

static V constant(Grad *a, double v, V like) {
  return like ? ts_gpu_all(&a->b, v, &like->type) : NULL;
}
static V narrow(Grad *a, V x) { return x ? ts_tile_cast(&a->b, x, a->x.dtype) : NULL; }

/* x y' for this tile's x: [keys, queries]. */
static V scores(Grad *a, V x, V y, V slot) {
  V acc = ts_gpu_zeros(&a->b, KEYS, a->x.rows);
  V z = ts_gpu_mma(&a->b, ts_gpu_operand(&a->b, x, number(a, 0), false),
                   ts_gpu_operand(&a->b, y, slot, true), acc);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

static V add_rows(Grad *a, V p, V y, V slot, V sum) {
  V z = ts_gpu_mma(&a->b, p, ts_gpu_operand(&a->b, y, slot, false), sum);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

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
  V key = along(a, KEYS), query = along(a, a->x.rows);
  if (!key || !query || !like) return NULL;
  TsTileType tile = like->type;
  tile.dtype = TS_DT_i64;
  V end = ts_gpu_spread(b, op2(a, TS_OP_sub, a->t, a->n0), &key->type, 0);
  V none = ts_gpu_spread(b, number(a, FAR), &key->type, 0);
  V r = ts_tile_op3(b, TS_OP_where, op2(a, TS_OP_lt, key, end), key, none);
  V apart = op2(a, TS_OP_sub, op2(a, TS_OP_add, m0, a->ahead), a->n0);
  V at = raised(a, query, apart), limit = at;
  if (!a->x.causal) limit = ts_gpu_spread(b, number(a, FAR - 1), &query->type, 0);
  V seen = op2(a, TS_OP_le, ts_gpu_spread(b, r, &tile, 0), ts_gpu_spread(b, limit, &tile, 1));
  if (!a->x.window) return seen;
  V low = raised(a, at, number(a, -a->x.window));
  return op2(
      a, TS_OP_logical_and, seen,
      op2(a, TS_OP_gt, ts_gpu_spread(b, key, &tile, 0), ts_gpu_spread(b, low, &tile, 1)));
}

/* Whether a query of the block does not see all keys of the tile. */
static V is_partial(Grad *a, V m0) {
  V end = by(a, TS_OP_add, a->n0, KEYS), position = op2(a, TS_OP_add, m0, a->ahead);
  V partial = op2(a, TS_OP_gt, end, a->t);
  if (a->x.causal)
    partial =
        op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_gt, by(a, TS_OP_sub, end, 1), position));
  if (a->x.window) {
    V lowest = by(a, TS_OP_add, position, a->x.rows - 1 - a->x.window);
    partial = op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_le, a->n0, lowest));
  }
  return partial;
}

static V masked(Grad *a, V p, V m0) {
  TsTileBuild *b = &a->b;
  V partial = is_partial(a, m0);
  if (!p || !partial) return NULL;
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

static V probabilities(Grad *a, V x, V slot, V m0) {
  V less = line(a, a->slse, slot, x);
  if (!less) return NULL;
  V e = ts_tile_op3(&a->b, TS_OP_fma, x, constant(a, a->x.scale * 1.4426950408889634, x),
                    ts_tile_op1(&a->b, TS_OP_neg, less));
  if (!e) return NULL;
  return masked(a, ts_gpu_give(&a->b, TS_TILE_ex2, TS_GPU_IN(e), TS_GPU_PLAIN, &e->type), m0);
}

/* All groups. */
static void meet(Grad *a) {
  ts_gpu_say(&a->b, TS_TILE_barrier, TS_GPU_PLAIN,
             TS_GPU_SET({"name", ts_gpu_whole(MEETING)}, {"threads", ts_gpu_whole(32 * WARPS)}),
             NULL);
}

/* Gradients of the scores, for the products of all groups. */
static void share(Grad *a, V slot, V s) {
  TsTileBuild *b = &a->b;
  V zero = number(a, 0);
  if (s) ts_tile_store(b, a->ss, (V[]){slot, zero, zero}, s, NULL);
  ts_gpu_async_fence(b);
  meet(a);
}

static V of_queries(Grad *a, V slot) {
  V acc = ts_gpu_zeros(&a->b, a->x.rows, a->x.d);
  V z = ts_gpu_mma(&a->b, ts_gpu_operand(&a->b, a->ss, slot, true),
                   ts_gpu_operand(&a->b, a->sk, number(a, 0), false), acc);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

/* dq of the step to a role that adds. */
static void give_away(Grad *a, V dq, const Ring *w) {
  TsTileBuild *b = &a->b;
  V zero = number(a, 0);
  ts_gpu_await(b, a->empty_dq, w->slot, w->parity);
  if (dq) ts_tile_store(b, a->sdq, (V[]){w->slot, zero, zero}, dq, NULL);
  ts_gpu_async_fence(b);
  ts_gpu_say(b, TS_TILE_arrive, TS_GPU_IN(a->full_dq, w->slot),
             TS_GPU_SET({"apart", (TsAttr){.type = TS_ATTR_bool, .i = true}}), NULL);
}

static V slot_before(Grad *a, V slot) {
  V first = by(a, TS_OP_eq, slot, 0);
  return ts_tile_op3(&a->b, TS_OP_where, first, number(a, a->x.stages - 1),
                     by(a, TS_OP_sub, slot, 1));
}

/* Scores of the next step; behind the last one those of anything. */
static V next_scores(Grad *a, const Ring *r, V more) {
  TsTileRegion *before = ts_gpu_when(&a->b, more);
  ts_gpu_await(&a->b, a->full_q, r->slot, r->parity);
  a->b.at = before;
  return scores(a, a->sk, a->sq, r->slot);
}

static void step(Grad *a, State *s, V i, V steps) {
  TsTileBuild *b = &a->b;
  V slot = s->r.slot, m0 = by(a, TS_OP_mul, s->block, a->x.rows);
  ts_gpu_await(b, a->full_g, slot, s->r.parity);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  V y = scores(a, a->sv, a->sg, slot);
  TsTileRegion *before = ts_gpu_when(b, by(a, TS_OP_gt, i, 0));
  ts_gpu_arrive(b, a->empty_q, slot_before(a, slot));
  b->at = before;
  V p = probabilities(a, s->x, slot, m0);
  s->dv = add_rows(a, narrow(a, p), a->sg, slot, s->dv);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  V delta = line(a, a->sdelta, slot, y);
  V ds = narrow(a, op2(a, TS_OP_mul, p, op2(a, TS_OP_sub, y, delta)));
  share(a, s->w.slot, ds);
  V dq = of_queries(a, s->w.slot);
  s->dk = add_rows(a, ds, a->sq, slot, s->dk);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  ts_gpu_arrive(b, a->empty_g, slot);
  advance(a, &s->r, a->x.stages);
  s->x = next_scores(a, &s->r, op2(a, TS_OP_lt, by(a, TS_OP_add, i, 1), steps));
  give_away(a, dq, &s->w);
  advance(a, &s->w, RING);
}

static void carried(const State *s, V *to) {
  V all[CARRIED] = {s->dk,     s->dv,       s->x,      s->block,   s->head,
                    s->r.slot, s->r.parity, s->w.slot, s->w.parity};
  for (int i = 0; i < CARRIED; i++) to[i] = all[i];
}
static State state_of(const V *v) {
  return (State){v[0], v[1], v[2], v[3], v[4], {v[5], v[6]}, {v[7], v[8]}};
}

/* All blocks, of each all query heads of the key head. */
static void all_steps(Grad *a, State *s) {
  V last = ts_gpu_grad_block(a, number(a, 0)), all[CARRIED];
  V steps = by(a, TS_OP_maximum, op2(a, TS_OP_mul, a->count, a->each), 1);
  s->block = last, s->head = number(a, 0);
  ts_gpu_await(&a->b, a->full_q, s->r.slot, s->r.parity);
  s->x = scores(a, a->sk, a->sq, s->r.slot);
  carried(s, all);
  TsTileLoop l = ts_tile_for(&a->b, number(a, 0), steps, 1, false, CARRIED, all);
  if (!l.stmt) return;
  *s = state_of(l.carry);
  V block = s->block, head = by(a, TS_OP_add, s->head, 1);
  step(a, s, l.i, steps);
  V over = op2(a, TS_OP_eq, head, a->each);
  s->head = ts_tile_op3(&a->b, TS_OP_where, over, number(a, 0), head);
  s->block = op2(a, TS_OP_sub, block, ts_tile_cast(&a->b, over, TS_DT_i64));
  carried(s, all);
  V out[CARRIED];
  ts_tile_for_end(&a->b, &l, all, out);
  *s = state_of(out);
}

/* A panel of sums through slot `slot` of the memory of gradients, which nobody reads now. */
static void put_panel(Grad *a, V x, int col, int slot, double factor) {
  V zero = number(a, 0), part = ts_gpu_span(&a->b, x, col, PANEL);
  if (factor != 1) part = op2(a, TS_OP_mul, part, constant(a, factor, part));
  if (part)
    ts_tile_store(&a->b, a->ss, (V[]){number(a, slot), zero, zero}, narrow(a, part), NULL);
}

static void send_panel(Grad *a, V to, int col, int slot) {
  V zero = number(a, 0);
  int64_t shape[2] = {KEYS, PANEL};
  if (!a->ss) return;
  ts_gpu_say(&a->b, TS_TILE_store_bulk,
             TS_GPU_IN(to, a->ss, a->batch, a->key_head, a->n0, number(a, col), number(a, slot),
                       zero, zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
  ts_gpu_commit(&a->b, TS_GPU_STORES);
}

static void send_panels(Grad *a, V to0, V to1, int col1) {
  ts_gpu_async_fence(&a->b);
  ts_gpu_plain(&a->b, TS_TILE_sync);
  send_panel(a, to0, 0, 0), send_panel(a, to1, col1, 1);
  ts_gpu_wait(&a->b, TS_GPU_STORES, 0);
  ts_gpu_plain(&a->b, TS_TILE_sync);
}

/* The keys' memory is free for the next tile before. */
static void store_sums(Grad *a, const State *s) {
  double scale = a->x.scale;
  if (a->x.d == PANEL) {
    put_panel(a, s->dv, 0, 0, 1), put_panel(a, s->dk, 0, 1, scale);
    send_panels(a, a->dv, a->dk, 0);
    return;
  }
  put_panel(a, s->dv, 0, 0, 1), put_panel(a, s->dv, PANEL, 1, 1);
  send_panels(a, a->dv, a->dv, PANEL);
  put_panel(a, s->dk, 0, 0, scale), put_panel(a, s->dk, PANEL, 1, scale);
  send_panels(a, a->dk, a->dk, PANEL);
}

static void one_tile(Grad *a, Ring *r, Ring *w) {
  TsTileBuild *b = &a->b;
  State s = {.r = *r, .w = *w};
  s.dk = ts_gpu_zeros(b, KEYS, a->x.d), s.dv = ts_gpu_zeros(b, KEYS, a->x.d);
  all_steps(a, &s);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_q, slot_before(a, s.r.slot));
  ts_gpu_arrive(b, a->empty_kv, number(a, 0));
  meet(a); /* all groups have read the gradients of scores */
  store_sums(a, &s);
  *r = s.r, *w = s.w;
}

void ts_gpu_grad_mma(Grad *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "mma", WARPS);
  ts_gpu_registers(b, MOST);
  V zero = number(a, 0), one = number(a, 1);
  V begin[6] = {ts_gpu_grad_receive(a, zero), one, zero, zero, zero, one};
  TsGpuRepeat l = ts_gpu_repeat(b, 6, begin);
  if (!l.stmt) return;
  V parity = l.carry[1];
  Ring r = {l.carry[2], l.carry[3]}, w = {l.carry[4], l.carry[5]};
  ts_gpu_grad_tile(a, l.carry[0]);
  one_tile(a, &r, &w);
  V next = ts_gpu_grad_receive(a, parity), turned = by(a, TS_OP_bitwise_xor, parity, 1);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, turned, r.slot, r.parity, w.slot, w.parity});
  ts_gpu_wait(b, TS_GPU_STORES, 0);
  b->at = before;
}
