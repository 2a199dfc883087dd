/* The role of the gradients of attention that multiplies: see ir/tile/gpu/attention_grad.c. */
#include "ir/tile/gpu/attention_grad_state.h"

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

static void step(Grad *a, State *s, V i, V steps) {
  TsTileBuild *b = &a->b;
  V slot = s->r.slot, m0 = by(a, TS_OP_mul, s->block, a->x.rows), zero = number(a, 0);
  ts_gpu_await(b, a->full_g, slot, s->r.parity);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  V y = ts_gpu_grad_scores(a, a->sv, zero, a->sg, slot);
  TsTileRegion *before = ts_gpu_when(b, by(a, TS_OP_gt, i, 0));
  ts_gpu_arrive(b, a->empty_q, ts_gpu_grad_before(a, slot));
  b->at = before;
  V p = ts_gpu_grad_probabilities(a, s->x, slot, m0, s->head);
  s->dv = ts_gpu_grad_add_rows(a, ts_gpu_grad_narrow(a, p), a->sg, slot, s->dv);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  V ds = ts_gpu_grad_differences(a, p, y, slot);
  share(a, s->w.slot, ds);
  V dq = ts_gpu_grad_of_queries(a, zero, s->w.slot);
  s->dk = ts_gpu_grad_add_rows(a, ds, a->sq, slot, s->dk);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  ts_gpu_arrive(b, a->empty_g, slot);
  advance(a, &s->r, a->x.stages);
  V more = op2(a, TS_OP_lt, by(a, TS_OP_add, i, 1), steps);
  s->x = ts_gpu_grad_next_scores(a, zero, &s->r, more);
  ts_gpu_grad_give_away(a, dq, &s->w);
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
  s->x = ts_gpu_grad_scores(a, a->sk, number(a, 0), a->sq, s->r.slot);
  carried(s, all);
  TsTileLoop l = ts_tile_for(&a->b, number(a, 0), steps, 1, false, CARRIED, all);
  if (!l.stmt) return;
  *s = state_of(l.carry);
  V block = s->block, head = by(a, TS_OP_add, s->head, 1);
  step(a, s, l.i, steps);
  ts_gpu_grad_next_head(a, block, head, &s->block, &s->head);
  carried(s, all);
  V out[CARRIED];
  ts_tile_for_end(&a->b, &l, all, out);
  *s = state_of(out);
}

/* Through the memory of gradients, which nobody reads now. */
static void send_panels(Grad *a, V to0, V to1, int col1) {
  ts_gpu_async_fence(&a->b);
  ts_gpu_plain(&a->b, TS_TILE_sync);
  ts_gpu_grad_send(a, to0, a->ss, 0, 0), ts_gpu_grad_send(a, to1, a->ss, col1, 1);
  ts_gpu_wait(&a->b, TS_GPU_STORES, 0);
  ts_gpu_plain(&a->b, TS_TILE_sync);
}

static void put(Grad *a, V x, int col, int slot, double factor) {
  ts_gpu_grad_put(a, a->ss, x, col, slot, factor);
}

/* The keys' memory is free for the next tile before. */
static void store_sums(Grad *a, const State *s) {
  double scale = a->x.scale;
  if (a->x.d == PANEL) {
    put(a, s->dv, 0, 0, 1), put(a, s->dk, 0, 1, scale);
    send_panels(a, a->dv, a->dk, 0);
    return;
  }
  put(a, s->dv, 0, 0, 1), put(a, s->dv, PANEL, 1, 1);
  send_panels(a, a->dv, a->dv, PANEL);
  put(a, s->dk, 0, 0, scale), put(a, s->dk, PANEL, 1, scale);
  send_panels(a, a->dk, a->dk, PANEL);
}

static void one_tile(Grad *a, Ring *r, Ring *w) {
  TsTileBuild *b = &a->b;
  State s = {.r = *r, .w = *w};
  s.dk = ts_gpu_zeros(b, KEYS, a->x.d), s.dv = ts_gpu_zeros(b, KEYS, a->x.d);
  all_steps(a, &s);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_q, ts_gpu_grad_before(a, s.r.slot));
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
  Ring kv = {zero, zero}, r, w;
  V first = ts_gpu_grad_receive(a, &kv);
  TsGpuRepeat l = ts_gpu_repeat(b, 7, (V[]){first, zero, zero, zero, zero, zero, one});
  if (!l.stmt) return;
  kv = (Ring){l.carry[1], l.carry[2]};
  r = (Ring){l.carry[3], l.carry[4]}, w = (Ring){l.carry[5], l.carry[6]};
  ts_gpu_grad_tile(a, l.carry[0]);
  if (a->x.overlap)
    ts_gpu_grad_tile_overlap(a, &kv, &r, &w);
  else
    one_tile(a, &r, &w);
  ts_gpu_grad_next_tile(a, &kv);
  V next = ts_gpu_grad_receive(a, &kv);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, kv.slot, kv.parity, r.slot, r.parity, w.slot, w.parity});
  ts_gpu_wait(b, TS_GPU_STORES, 0);
  b->at = before;
}
