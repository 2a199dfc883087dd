/* Steps of the gradients of attention with heads of 64, whose sums leave registers for more
 * products under way: see ir/tile/gpu/attention_grad.c.
 *
 * A step with all its products one behind the other leaves the matrix unit idle while
 * probabilities and gradients are computed, and computation idle while it waits for products.
 * So a step begins what the next one needs and ends what the one before has left:
 *
 *   g v' of the step, dq of the step before    run beside probabilities
 *   dv                                         beside gradients of scores
 *   scores of the next step, dk                beside what dq does on its way to memory
 *
 * Groups of warps meet at no place: gradients of scores are counted by a barrier, a whole step
 * before they are read. Keys and values of two tiles have room, so that those of the next one
 * come early, and sums leave through memory of their own while it begins.
 *
 * The bits are those of the other form: each sum is made of the same products in the same
 * order.
 *
 * Rejected: dv and the next scores under way across the end of a round as well. The assembler
 * then counts groups of products no longer and does them one after another (C7514, C7520); with
 * dk alone it does, and the wait for the other two comes when they are as good as done. */
#include "ir/tile/gpu/attention_grad_state.h"

enum { KEYS = TS_GPU_GRAD_KEYS, RING = TS_GPU_GRAD_RING };

typedef TsTileVal V;
typedef TsGpuRing Ring;
typedef TsGpuGrad Grad;

static V number(Grad *a, int64_t i) { return ts_gpu_grad_number(a, i); }
static V op2(Grad *a, int op, V x, V y) { return ts_gpu_grad_op2(a, op, x, y); }
static V by(Grad *a, int op, V x, int64_t y) { return ts_gpu_grad_by(a, op, x, y); }

static void advance(Grad *a, Ring *r, int n) { ts_gpu_advance(&a->b, &r->slot, &r->parity, n); }

/* What is carried from step to step. */
typedef struct State {
  V dk, dv, x;   /* sums; the scores of the step; all under way */
  V block, head; /* of queries; which query head of the key head */
  Ring r;        /* of queries */
  Ring w, past;  /* of gradients of scores and of dq: of this step, of the one before */
  V v;           /* values of the tile in registers, or nothing */
} State;

enum { CARRIED = 12 };

static void carried(const State *s, V *to) {
  V all[CARRIED] = {s->dk,       s->dv,        s->x,           s->block,
                    s->head,     s->r.slot,    s->r.parity,    s->w.slot,
                    s->w.parity, s->past.slot, s->past.parity, s->v};
  for (int i = 0; i < CARRIED; i++) to[i] = all[i];
}
static State state_of(const V *v) {
  return (State){v[0],         v[1],         v[2],          v[3], v[4],
                 {v[5], v[6]}, {v[7], v[8]}, {v[9], v[10]}, v[11]};
}

/* Gradients of scores of the step before are there. Its dq's slot has the parity before. */
static void await_differences(Grad *a, const Ring *past) {
  ts_gpu_await(&a->b, a->full_s, past->slot, by(a, TS_OP_bitwise_xor, past->parity, 1));
}

static void share(Grad *a, V slot, V s) {
  TsTileBuild *b = &a->b;
  V zero = number(a, 0);
  if (s) ts_tile_store(b, a->ss, (V[]){slot, zero, zero}, s, NULL);
  ts_gpu_async_fence(b);
  ts_gpu_say(b, TS_TILE_arrive, TS_GPU_IN(a->full_s, slot),
             TS_GPU_SET({"apart", (TsAttr){.type = TS_ATTR_bool, .i = true}}), NULL);
}

/* v g' of the step. */
static V against_values(Grad *a, const State *s, V at) {
  if (!a->x.held) return ts_gpu_grad_scores(a, a->sv, at, a->sg, s->r.slot);
  V z = ts_gpu_mma(&a->b, s->v, ts_gpu_operand(&a->b, a->sg, s->r.slot, true),
                   ts_gpu_zeros(&a->b, KEYS, a->x.rows));
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return z;
}

/* Two slots of gradients are enough: who writes one again has seen that all groups wrote the
 * other, which they do behind their dq of this one. The first step multiplies what lies there
 * for nothing, since products do not stand in branches. */
static void step(Grad *a, State *s, V i, V steps, V at) {
  TsTileBuild *b = &a->b;
  V slot = s->r.slot, m0 = by(a, TS_OP_mul, s->block, a->x.rows);
  V later = by(a, TS_OP_gt, i, 0), used = ts_gpu_grad_before(a, slot);
  ts_gpu_await(b, a->full_g, slot, s->r.parity);
  V y = against_values(a, s, at);
  TsTileRegion *before = ts_gpu_when(b, later);
  await_differences(a, &s->past);
  b->at = before;
  V dq = ts_gpu_grad_of_queries(a, at, s->past.slot);
  V p = ts_gpu_grad_probabilities(a, s->x, slot, m0, s->head);
  s->dv = ts_gpu_grad_add_rows(a, ts_gpu_grad_narrow(a, p), a->sg, slot, s->dv);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 2); /* y; dk of the step before */
  before = ts_gpu_when(b, later);
  ts_gpu_arrive(b, a->empty_q, used);
  b->at = before;
  V ds = ts_gpu_grad_differences(a, p, y, slot);
  advance(a, &s->r, a->x.stages);
  V more = op2(a, TS_OP_lt, by(a, TS_OP_add, i, 1), steps);
  s->x = ts_gpu_grad_next_scores(a, at, &s->r, more);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 2); /* dq */
  share(a, s->w.slot, ds);
  before = ts_gpu_when(b, later);
  ts_gpu_grad_give_away(a, dq, &s->past);
  b->at = before;
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0); /* dv, the next scores */
  ts_gpu_arrive(b, a->empty_g, slot);
  s->dk = ts_gpu_grad_add_rows(a, ds, a->sq, slot, s->dk);
  s->past = s->w;
  advance(a, &s->w, RING);
}

static void all_steps(Grad *a, State *s, V at) {
  V all[CARRIED], out[CARRIED];
  V steps = by(a, TS_OP_maximum, op2(a, TS_OP_mul, a->count, a->each), 1);
  s->block = ts_gpu_grad_block(a, number(a, 0)), s->head = number(a, 0);
  s->past = s->w;
  ts_gpu_await(&a->b, a->full_q, s->r.slot, s->r.parity);
  s->x = ts_gpu_grad_scores(a, a->sk, at, a->sq, s->r.slot);
  ts_gpu_wait(&a->b, TS_GPU_PRODUCTS, 0);
  TsTileType values = ts_gpu_fragment(a->x.dtype, KEYS, a->x.d);
  V place[3] = {at, number(a, 0), number(a, 0)};
  s->v = a->x.held ? ts_tile_load(&a->b, a->sv, place, &values, NULL) : number(a, 0);
  carried(s, all);
  TsTileLoop l = ts_tile_for(&a->b, number(a, 0), steps, 1, false, CARRIED, all);
  if (!l.stmt) return;
  *s = state_of(l.carry);
  V block = s->block, head = by(a, TS_OP_add, s->head, 1);
  step(a, s, l.i, steps, at);
  ts_gpu_grad_next_head(a, block, head, &s->block, &s->head);
  carried(s, all);
  ts_tile_for_end(&a->b, &l, all, out);
  *s = state_of(out);
}

/* Through memory of their own, which the sums of the tile before have left. */
static void store_sums(Grad *a, const State *s) {
  TsTileBuild *b = &a->b;
  ts_gpu_wait(b, TS_GPU_STORES, 0);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_grad_put(a, a->so, s->dv, 0, 0, 1);
  ts_gpu_grad_put(a, a->so, s->dk, 0, 1, a->x.scale);
  ts_gpu_async_fence(b);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_grad_send(a, a->dv, a->so, 0, 0), ts_gpu_grad_send(a, a->dk, a->so, 0, 1);
}

void ts_gpu_grad_tile_overlap(Grad *a, const Ring *kv, Ring *r, Ring *w) {
  TsTileBuild *b = &a->b;
  State s = {.r = *r, .w = *w};
  s.dk = ts_gpu_zeros(b, KEYS, a->x.d), s.dv = ts_gpu_zeros(b, KEYS, a->x.d);
  all_steps(a, &s, kv->slot);
  await_differences(a, &s.past);
  V dq = ts_gpu_grad_of_queries(a, kv->slot, s.past.slot);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1); /* dv, dk */
  V used = ts_gpu_grad_before(a, s.r.slot);
  ts_gpu_arrive(b, a->empty_q, used);
  store_sums(a, &s);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_kv, kv->slot);
  ts_gpu_grad_give_away(a, dq, &s.past);
  *r = s.r, *w = s.w;
}
