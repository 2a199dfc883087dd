/* The role of attention of few queries that multiplies: scores, which of them are seen, softmax,
 * values. See ir/tile/gpu/decode.c. */
#include <math.h>

#include "ir/tile/gpu/decode_state.h"

enum { KEYS = TS_GPU_DECODE_KEYS, ROWS = TS_GPU_DECODE_ROWS };
enum { SUM, LARGER };

typedef TsTileVal V;
typedef TsGpuDecoding Decode;
typedef TsGpuDecodeRing Ring;

/* Of fragments f32[ROWS,D], [ROWS], [ROWS,4]. */
typedef struct State {
  V o, m, l;
} State;

/* ---- scores, and which of them are seen */
/* With a mask of numbers scores are scaled when it is added; one of bools changes no bit of those that are seen. */
static bool scales_first(const Decode *a) { return a->x.mask.some && !a->x.mask.bools; }

static double log2_scale(const Decode *a) {
  return (scales_first(a) ? 1 : a->x.scale) * 1.4426950408889634;
}

static V scores(Decode *a, const Ring *q, const Ring *k) {
  TsTileBuild *b = &a->b;
  V x = ts_gpu_mma(b, ts_gpu_operand(b, a->sq, q->slot, false),
                   ts_gpu_operand(b, a->sk, k->slot, true), ts_gpu_zeros(b, ROWS, KEYS));
  ts_gpu_commit(b, TS_GPU_PRODUCTS);
  return x;
}

static V along(Decode *a, int axis) {
  TsTileType t = ts_gpu_fragment(TS_DT_i64, axis ? KEYS : ROWS, 0);
  return ts_gpu_give(&a->b, TS_TILE_iota, TS_GPU_PLAIN, TS_GPU_SET({"axis", ts_gpu_whole(0)}),
                     &t);
}

static V spread_index(Decode *a, V x, V like) {
  return x && like ? ts_tile_broadcast(&a->b, x, &like->type, NULL) : NULL;
}

/* The last key that a row sees, from the block's first one on, by row; the same for all if
 * there is one query or no order. */
static V limits(Decode *a, V k0) {
  V last = op2(a, TS_OP_sub, by(a, TS_OP_sub, a->seen, 1), k0), row;
  bool ordered = (a->x.causal || a->x.window) && a->x.queries > 1;
  if (!(row = along(a, 0))) return NULL;
  if (!ordered) return spread_index(a, last, row);
  V n = spread_index(a, number(a, a->x.queries), row);
  V in = op2(a, TS_OP_mod, row, n);
  V least = spread_index(a, by(a, TS_OP_sub, last, a->x.queries - 1), row);
  return op2(a, TS_OP_add, least, in);
}

static V whole(Decode *a, V x, int axis) {
  TsTileType t = ts_gpu_fragment(TS_DT_i64, ROWS, KEYS);
  return x ? ts_gpu_spread(&a->b, x, &t, axis) : NULL;
}

static V visible(Decode *a, V k0) {
  V col = whole(a, along(a, 1), 1), at = limits(a, k0), last = at;
  if (!a->x.causal && a->x.queries > 1) {
    last = spread_index(a, op2(a, TS_OP_sub, by(a, TS_OP_sub, a->seen, 1), k0), at);
  }
  V seen = op2(a, TS_OP_le, col, whole(a, last, 0));
  if (!a->x.window) return seen;
  V window = a->low ? NULL : spread_index(a, number(a, a->x.window), at);
  V below = a->low ? spread_index(a, by(a, TS_OP_sub, op2(a, TS_OP_sub, a->low, k0), 1), at)
                   : op2(a, TS_OP_sub, at, window);
  V low = whole(a, below, 0);
  return op2(a, TS_OP_logical_and, seen, op2(a, TS_OP_gt, col, low));
}

V ts_gpu_decode_is_partial(Decode *a, V k0) {
  int hidden = a->x.causal ? a->x.queries - 1 : 0;
  V end = by(a, TS_OP_sub, a->seen, hidden);
  V partial = op2(a, TS_OP_gt, by(a, TS_OP_add, k0, KEYS), end);
  if (!a->x.window) return partial;
  V low = a->low ? by(a, TS_OP_sub, a->low, 1) : by(a, TS_OP_sub, a->seen, a->x.window + 1);
  return op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_le, k0, low));
}

/* One number for each key of the batch. */
static V with_mask(Decode *a, V x, V k0) {
  V zero = number(a, 0), batch = a->batch;
  return ts_gpu_mask_add(&a->b, &a->x.mask, a->mask, batch, zero, zero, k0, 1, x,
                         scales_first(a) ? a->x.scale : 1);
}

static V masked(Decode *a, V x, V i) {
  TsTileBuild *b = &a->b;
  V k0 = ts_gpu_decode_keys_at(a, i), partial = ts_gpu_decode_is_partial(a, k0);
  if (a->x.mask.some) x = with_mask(a, x, k0);
  if (!x || !partial) return NULL;
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &partial, NULL, 1, &x->type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  b->at = s->region[0];
  V y = ts_tile_op3(b, TS_OP_where, visible(a, k0), x, ts_gpu_decode_constant(a, -INFINITY, x));
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(y), TS_GPU_PLAIN, NULL);
  b->at = s->region[1];
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(x), TS_GPU_PLAIN, NULL);
  b->at = before;
  return s->out[0];
}

/* ---- softmax */
static V quarter(Decode *a, V x, int of) {
  TsTileType t = ts_gpu_fragment(TS_DT_f32, ROWS, 4);
  return ts_gpu_give(&a->b, TS_TILE_quarter, TS_GPU_IN(x),
                     TS_GPU_SET({"of", ts_gpu_choice(of)}), &t);
}

static V row(Decode *a, V x, int of) {
  TsTileType t = ts_gpu_fragment(TS_DT_f32, ROWS, 0);
  return ts_gpu_give(&a->b, TS_TILE_row, TS_GPU_IN(x), TS_GPU_SET({"of", ts_gpu_choice(of)}),
                     &t);
}

static V scaled(Decode *a, V x) {
  return op2(a, TS_OP_mul, x, ts_gpu_decode_constant(a, log2_scale(a), x));
}

static V probabilities(Decode *a, V x, V m) {
  V less = ts_tile_op1(&a->b, TS_OP_neg, scaled(a, m));
  return ts_gpu_ex2(&a->b, fma3(a, x, ts_gpu_decode_constant(a, log2_scale(a), x),
                                ts_gpu_decode_spread(a, less, x)));
}

/* The largest score begins at -1e30: rows that see nothing have probabilities of 0, not NaN. */
static V soften_first(Decode *a, V x, State *s) {
  V m = row(a, quarter(a, x, LARGER), LARGER);
  s->m = ts_gpu_larger(&a->b, m, ts_gpu_decode_constant(a, -1e30, m));
  V p = probabilities(a, x, s->m);
  s->l = quarter(a, p, SUM);
  return ts_gpu_decode_narrow(a, p);
}

/* factor: what sums so far are to be multiplied by. */
static V soften(Decode *a, V x, State *s, V *factor) {
  V m = ts_gpu_larger(&a->b, row(a, quarter(a, x, LARGER), LARGER), s->m);
  V p = probabilities(a, x, m);
  *factor = ts_gpu_ex2(&a->b, scaled(a, op2(a, TS_OP_sub, s->m, m)));
  s->l = fma3(a, s->l, ts_gpu_decode_spread(a, *factor, s->l), quarter(a, p, SUM));
  s->m = m;
  return p;
}

/* ---- blocks of keys */
static V add_values(Decode *a, V p, V o, const Ring *v) {
  V y = ts_gpu_mma(&a->b, p, ts_gpu_operand(&a->b, a->sv, v->slot, false), o);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return y;
}

/* Behind the last scores this role no longer reads the queries. */
static void leave_queries(Decode *a, V last, const Ring *q) {
  TsTileRegion *before = ts_gpu_when(&a->b, last);
  ts_gpu_arrive(&a->b, a->empty_q, q->slot);
  a->b.at = before;
}

static V first_block(Decode *a, State *s, const Ring *q, Ring *k) {
  TsTileBuild *b = &a->b;
  ts_gpu_await(b, a->full_k, k->slot, k->parity);
  V x = scores(a, q, k);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_k, k->slot);
  leave_queries(a, by(a, TS_OP_eq, a->count, 1), q);
  ts_gpu_decode_advance(a, k, a->x.stages);
  V p = soften_first(a, masked(a, x, number(a, 0)), s);
  s->o = ts_gpu_zeros(b, ROWS, a->x.d);
  return p;
}

/* Where the sums of the chunk go that a block of the part is in. */
static V place_of(Decode *a, V block, const Ring *done) {
  V chunk = op2(a, TS_OP_floordiv, op2(a, TS_OP_add, a->first, block), a->c);
  V n = op2(a, TS_OP_sub, op2(a, TS_OP_mul, a->head, a->chunks), a->from);
  return ts_gpu_decode_choose(a, a->folded, ts_gpu_decode_own_place(a, done->slot),
                              op2(a, TS_OP_add, n, chunk));
}

void ts_gpu_decode_leave(Decode *a, V place, V o, V exponent, V sum) {
  TsTileAccess edge = {.edge = true};
  V zero = number(a, 0);
  if (!o || !sum || !exponent) return;
  ts_tile_store(&a->b, a->part, (V[]){place, zero, zero}, o, &edge);
  ts_tile_store(&a->b, a->exponent, (V[]){place, zero}, exponent, &edge);
  ts_tile_store(&a->b, a->sum, (V[]){place, zero}, sum, &edge);
}

/* One arrival for all threads behind the sums. */
static void tell(Decode *a, const Ring *done) {
  ts_gpu_plain(&a->b, TS_TILE_sync);
  ts_gpu_arrive(&a->b, a->done, done->slot);
}

/* Sums of the chunk that a block of the part is in to scratch; if chunks are folded, to where
 * those of a chunk before were, which are read by then. */
static void leave_chunk(Decode *a, V block, const State *s, const Ring *done) {
  V place = place_of(a, block, done);
  ts_gpu_plain(&a->b, TS_TILE_await_launch);
  ts_gpu_decode_leave(a, place, s->o, scaled(a, s->m), row(a, s->l, SUM));
}

static void leave_between(Decode *a, V block, const State *s, const Ring *done) {
  TsTileRegion *before = ts_gpu_when(&a->b, a->folded);
  ts_gpu_await(&a->b, a->read, done->slot, done->parity);
  a->b.at = before;
  leave_chunk(a, block, s, done);
  before = ts_gpu_when(&a->b, a->folded);
  tell(a, done);
  a->b.at = before;
}

/* The next slot if something was left in this one. */
static void advance_if(Decode *a, V is, Ring *done) {
  Ring next = *done;
  ts_gpu_decode_advance(a, &next, TS_GPU_DECODE_UNREAD);
  *done = (Ring){ts_gpu_decode_choose(a, is, next.slot, done->slot),
                 ts_gpu_decode_choose(a, is, next.parity, done->parity)};
}

static V if_begins(Decode *a, V begins, double x, V y) {
  if (!y || !begins) return NULL;
  TsTileType t = y->type;
  t.dtype = TS_DT_bool;
  return ts_tile_op3(&a->b, TS_OP_where, ts_tile_broadcast(&a->b, begins, &t, NULL),
                     ts_gpu_decode_constant(a, x, y), y);
}

/* Behind block i: the sums of a chunk that ended before it leave, others are multiplied. */
static V next_sums(Decode *a, V begins, V i, const State *past, V factor, const Ring *done) {
  TsTileBuild *b = &a->b;
  if (!past->o || !factor) return NULL;
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &begins, NULL, 1, &past->o->type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  b->at = s->region[0];
  leave_between(a, by(a, TS_OP_sub, i, 1), past, done);
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(ts_gpu_decode_constant(a, 0, past->o)), TS_GPU_PLAIN,
             NULL);
  b->at = s->region[1];
  V o = op2(a, TS_OP_mul, past->o, ts_gpu_decode_spread(a, factor, past->o));
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(o), TS_GPU_PLAIN, NULL);
  b->at = before;
  return s->out[0];
}

/* The first block of a chunk has products under way beside those of the chunk before. */
static V next_block(Decode *a, State *s, V p, V i, const Ring *q, Ring *k, Ring *v,
                    Ring *done) {
  TsTileBuild *b = &a->b;
  V factor = NULL;
  V at = op2(a, TS_OP_mod, op2(a, TS_OP_add, a->first, i), a->c);
  V begins = by(a, TS_OP_eq, at, 0);
  ts_gpu_await(b, a->full_k, k->slot, k->parity);
  if (a->x.pages.size) { /* before products are under way, that a branch would end */
    ts_gpu_await(b, a->full_v, v->slot, v->parity);
    ts_gpu_decode_blank(a, v->slot, by(a, TS_OP_sub, i, 1));
  }
  V x = scores(a, q, k);
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  s->o = add_values(a, p, s->o, v);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  ts_gpu_arrive(b, a->empty_k, k->slot);
  leave_queries(a, op2(a, TS_OP_eq, by(a, TS_OP_add, i, 1), a->count), q);
  State past = *s;
  s->m = if_begins(a, begins, -1e30, s->m), s->l = if_begins(a, begins, 0, s->l);
  p = soften(a, masked(a, x, i), s, &factor);
  ts_gpu_await(b, a->full_v, v->slot, v->parity); /* is over: keeps the wait below behind it */
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  s->o = next_sums(a, begins, i, &past, factor, done);
  advance_if(a, op2(a, TS_OP_logical_and, begins, a->folded), done);
  ts_gpu_decode_advance(a, k, a->x.stages), ts_gpu_decode_advance(a, v, a->x.stages);
  return ts_gpu_decode_narrow(
      a, p); /* behind the products that still read the last ones' registers */
}

/* Of the part. */
static void all_blocks(Decode *a, const Ring *q, Ring *k, Ring *v, Ring *done) {
  TsTileBuild *b = &a->b;
  State s = {0};
  V p = first_block(a, &s, q, k), out[10];
  V first[10] = {s.o,       s.m,     s.l,       p,          k->slot,
                 k->parity, v->slot, v->parity, done->slot, done->parity};
  TsTileLoop l = ts_tile_for(b, number(a, 1), a->count, 1, false, 10, first);
  if (!l.stmt) return;
  s = (State){l.carry[0], l.carry[1], l.carry[2]};
  *k = (Ring){l.carry[4], l.carry[5]}, *v = (Ring){l.carry[6], l.carry[7]};
  *done = (Ring){l.carry[8], l.carry[9]};
  p = next_block(a, &s, l.carry[3], l.i, q, k, v, done);
  ts_tile_for_end(
      b, &l,
      (V[]){s.o, s.m, s.l, p, k->slot, k->parity, v->slot, v->parity, done->slot, done->parity},
      out);
  s = (State){out[0], out[1], out[2]};
  *k = (Ring){out[4], out[5]}, *v = (Ring){out[6], out[7]}, *done = (Ring){out[8], out[9]};
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  ts_gpu_decode_blank(a, v->slot, by(a, TS_OP_sub, a->count, 1));
  s.o = add_values(a, out[3], s.o, v);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  ts_gpu_decode_advance(a, v, a->x.stages);
  ts_gpu_await(b, a->read, done->slot, done->parity);
  leave_chunk(a, by(a, TS_OP_sub, a->count, 1), &s, done);
  tell(a, done);
  ts_gpu_decode_advance(a, done, TS_GPU_DECODE_UNREAD);
}

void ts_gpu_decode_mma(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "mma", TS_GPU_DECODE_WARPS);
  ts_gpu_registers(b, 232);
  if (a->x.last) ts_gpu_plain(b, TS_TILE_await_launch);
  V zero = number(a, 0);
  Ring q = {zero, zero}, k, v, done;
  V first[9] = {
      ts_gpu_decode_receive(a, &q), zero, zero, zero, zero, zero, zero, zero, number(a, 1)};
  TsGpuRepeat l = ts_gpu_repeat(b, 9, first);
  if (!l.stmt) return;
  V n = l.carry[0];
  q = (Ring){l.carry[1], l.carry[2]}, k = (Ring){l.carry[3], l.carry[4]};
  v = (Ring){l.carry[5], l.carry[6]}, done = (Ring){l.carry[7], l.carry[8]};
  ts_gpu_decode_split_of(a, n);
  ts_gpu_decode_text_of(a);
  all_blocks(a, &q, &k, &v, &done);
  ts_gpu_decode_advance(a, &q, TS_GPU_DECODE_SLOTS);
  V next = ts_gpu_decode_receive(a, &q);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, q.slot, q.parity, k.slot, k.parity, v.slot, v.parity, done.slot,
                          done.parity});
  b->at = before;
}
