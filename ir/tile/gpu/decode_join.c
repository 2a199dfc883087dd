/* The role of attention of few queries that joins: chunks of a long part as they come, and what
 * the parts of a head left. See ir/tile/gpu/decode.c. */
#include "ir/tile/gpu/decode_state.h"

typedef TsTileVal V;
typedef TsGpuDecoding Decode;
typedef TsGpuDecodeRing Ring;

/* ---- what was left */
enum { UNROLLED = 8 };

/* How many chunks are read together: so that all is in registers. */
static int together(const Decode *a) {
  int64_t each = (int64_t)a->x.rows * a->x.d / (32 * TS_GPU_DECODE_WARPS);
  return each * UNROLLED <= 64 ? UNROLLED : (int)(64 / each);
}

static TsTileType line(const Decode *a) { return ts_gpu_fragment(TS_DT_f32, a->x.rows, 0); }

static V line_of(Decode *a, V memory, V n) {
  TsTileType t = line(a);
  return ts_tile_load(&a->b, memory, (V[]){n, number(a, 0)}, &t, NULL);
}

/* How many sums there are of a head, whose first ones may be folded. */
static V left_of_head(Decode *a, V *folded) {
  V some = op2(a, TS_OP_logical_and, by(a, TS_OP_gt, a->l, 0), by(a, TS_OP_gt, a->n, 1));
  V n = by(a, TS_OP_sub, op2(a, TS_OP_minimum, a->n, a->chunks), 1);
  *folded = ts_gpu_decode_choose(a, some, n, number(a, 0));
  return op2(a, TS_OP_sub, a->chunks, *folded);
}

/* Where the i-th of n sums of the head are; behind the last ones those again. */
static V left_at(Decode *a, V base, V i, V n, V folded) {
  i = op2(a, TS_OP_minimum, i, by(a, TS_OP_sub, n, 1));
  V behind = ts_gpu_decode_choose(a, by(a, TS_OP_gt, i, 0), folded, number(a, 0));
  return op2(a, TS_OP_add, base, op2(a, TS_OP_add, i, behind));
}

static V sink_of(Decode *a, V head) {
  TsTileType t = line(a);
  TsTileAccess edge = {.edge = true};
  V at = op2(a, TS_OP_mod, op2(a, TS_OP_mul, head, a->e), a->h);
  V x = ts_tile_load(&a->b, a->sink, &at, &t, &edge);
  return op2(a, TS_OP_mul, x, ts_gpu_decode_constant(a, 1.4426950408889634, x));
}

/* ---- one after the other */
typedef struct Joined {
  V o, l, most; /* sums, and what they are relative to */
} Joined;

static Joined nothing(Decode *a) {
  TsTileType t = line(a), whole_type = ts_gpu_fragment(TS_DT_f32, a->x.rows, a->x.d);
  return (Joined){ts_tile_const(&a->b, 0, &whole_type), ts_tile_const(&a->b, 0, &t),
                  ts_tile_const(&a->b, -1e30, &t)};
}

static Joined sums_at(Decode *a, V place) {
  TsTileType t = ts_gpu_fragment(TS_DT_f32, a->x.rows, a->x.d);
  V zero = number(a, 0), u = line_of(a, a->exponent, place), l = line_of(a, a->sum, place);
  return (Joined){ts_tile_load(&a->b, a->part, (V[]){place, zero, zero}, &t, NULL), l, u};
}

/* Always one after the other, from the head's first chunk on: it changes no bit where a part
 * of them is folded. x->o NULL: sums of nothing but x->l. */
static Joined join_one(Decode *a, const Joined *s, const Joined *x) {
  V most = ts_gpu_larger(&a->b, s->most, x->most);
  V f = ts_gpu_ex2(&a->b, op2(a, TS_OP_sub, s->most, most)),
    g = ts_gpu_ex2(&a->b, op2(a, TS_OP_sub, x->most, most));
  V l = fma3(a, x->l, g, op2(a, TS_OP_mul, s->l, f));
  V o = op2(a, TS_OP_mul, s->o, ts_gpu_decode_spread(a, f, s->o));
  if (x->o) o = fma3(a, x->o, ts_gpu_decode_spread(a, g, x->o), o);
  return (Joined){o, l, most};
}

static V if_all(Decode *a, V is, V x, V y) {
  if (!x) return NULL;
  TsTileType t = x->type;
  t.dtype = TS_DT_bool;
  return ts_gpu_decode_choose(a, ts_tile_broadcast(&a->b, is, &t, NULL), x, y);
}

/* Sums of the head in order, several loads under way. */
static Joined join_all(Decode *a) {
  TsTileBuild *b = &a->b;
  Joined s = nothing(a), x[UNROLLED];
  V first[3] = {s.o, s.l, s.most}, out[3], folded;
  V base = op2(a, TS_OP_mul, a->head, a->chunks), all = left_of_head(a, &folded);
  int n = together(a);
  TsTileLoop loop = ts_tile_for(b, number(a, 0), all, n, false, 3, first);
  if (!loop.stmt) return s;
  s = (Joined){loop.carry[0], loop.carry[1], loop.carry[2]};
  for (int i = 0; i < n; i++)
    x[i] = sums_at(a, left_at(a, base, by(a, TS_OP_add, loop.i, i), all, folded));
  for (int i = 0; i < n; i++) {
    V is = op2(a, TS_OP_lt, by(a, TS_OP_add, loop.i, i), all);
    Joined y = join_one(a, &s, &x[i]);
    s = (Joined){if_all(a, is, y.o, s.o), if_all(a, is, y.l, s.l),
                 if_all(a, is, y.most, s.most)};
  }
  ts_tile_for_end(b, &loop, (V[]){s.o, s.l, s.most}, out);
  return (Joined){out[0], out[1], out[2]};
}

static void join(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileAccess edge = {.edge = true};
  V zero = number(a, 0);
  Joined s = join_all(a);
  V none = ts_gpu_decode_constant(a, 0, s.l), one = ts_gpu_decode_constant(a, 1, s.l);
  if (a->x.sink) s = join_one(a, &s, &(Joined){NULL, one, sink_of(a, a->head)});
  V factor = ts_tile_op3(b, TS_OP_where, op2(a, TS_OP_eq, s.l, none), none,
                         op2(a, TS_OP_div, one, s.l));
  V y = ts_gpu_decode_narrow(a, op2(a, TS_OP_mul, s.o, ts_gpu_decode_spread(a, factor, s.o)));
  if (y) ts_tile_store(b, a->y, (V[]){a->head, zero, zero}, y, &edge);
}

/* ---- the role */
/* The chunks of a part as they come become one, at the place of the first one: sums of many
 * chunks do not go through memory, but through places that the second cache keeps. */
static void fold(Decode *a, const Ring *first_done, V *slot, V *parity) {
  TsTileBuild *b = &a->b;
  Joined s = nothing(a);
  V first[5] = {s.o, s.l, s.most, first_done->slot, first_done->parity}, out[5];
  V end = by(a, TS_OP_sub, op2(a, TS_OP_add, a->first, op2(a, TS_OP_add, a->count, a->c)), 1);
  V n = op2(a, TS_OP_sub, op2(a, TS_OP_floordiv, end, a->c), a->from);
  TsTileLoop l = ts_tile_for(b, number(a, 0), n, 1, false, 5, first);
  if (!l.stmt) return;
  s = (Joined){l.carry[0], l.carry[1], l.carry[2]};
  Ring done = {l.carry[3], l.carry[4]};
  ts_gpu_await(b, a->done, done.slot, done.parity);
  Joined x = sums_at(a, ts_gpu_decode_own_place(a, done.slot));
  s = join_one(a, &s, &x);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_arrive(b, a->read, done.slot);
  ts_gpu_decode_advance(a, &done, TS_GPU_DECODE_UNREAD);
  ts_tile_for_end(b, &l, (V[]){s.o, s.l, s.most, done.slot, done.parity}, out);
  ts_gpu_decode_leave(a, op2(a, TS_OP_mul, a->head, a->chunks), out[0], out[2], out[1]);
  *slot = out[3], *parity = out[4];
}

/* Waits for the part. */
static void read_split(Decode *a, Ring *done) {
  TsTileBuild *b = &a->b;
  if (!a->folded) return;
  TsTileType type[2] = {done->slot->type, done->parity->type};
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &a->folded, NULL, 2, type);
  if (!s) return;
  TsTileRegion *before = b->at;
  Ring next = *done;
  b->at = s->region[0];
  fold(a, done, &next.slot, &next.parity);
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(next.slot, next.parity), TS_GPU_PLAIN, NULL);
  b->at = s->region[1];
  next = *done;
  ts_gpu_await(b, a->done, next.slot, next.parity);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_arrive(b, a->read, next.slot);
  ts_gpu_decode_advance(a, &next, TS_GPU_DECODE_UNREAD);
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(next.slot, next.parity), TS_GPU_PLAIN, NULL);
  b->at = before;
  *done = (Ring){s->out[0], s->out[1]};
}

/* Counts a part; whether it was the last one of its head. */
static V is_last(Decode *a, V head) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  V before = ts_gpu_give(&a->b, TS_TILE_claim, TS_GPU_IN(a->heads, head, a->splits),
                         TS_GPU_PLAIN, &scalar);
  return op2(a, TS_OP_eq, before, by(a, TS_OP_sub, a->splits, 1));
}

void ts_gpu_decode_join(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role_with_lanes(b, "join", TS_GPU_DECODE_WARPS);
  ts_gpu_registers(b, a->x.pages.size ? 232 - TS_GPU_DECODE_SPARED : 232);
  if (a->x.last) ts_gpu_plain(b, TS_TILE_await_launch);
  V zero = number(a, 0);
  Ring q = {zero, zero}, done;
  TsGpuRepeat l =
      ts_gpu_repeat(b, 5, (V[]){ts_gpu_decode_receive(a, &q), zero, zero, zero, zero});
  if (!l.stmt) return;
  q = (Ring){l.carry[1], l.carry[2]}, done = (Ring){l.carry[3], l.carry[4]};
  ts_gpu_plain(b, TS_TILE_sync); /* all warps have read the number */
  ts_gpu_arrive(b, a->empty_q, q.slot);
  ts_gpu_decode_advance(a, &q, TS_GPU_DECODE_SLOTS);
  ts_gpu_decode_split_of(a, l.carry[0]);
  read_split(a, &done);
  TsTileRegion *outside = ts_gpu_when(b, is_last(a, a->head));
  join(a);
  b->at = outside;
  V next = ts_gpu_decode_receive(a, &q);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, q.slot, q.parity, done.slot, done.parity});
  b->at = before;
}
