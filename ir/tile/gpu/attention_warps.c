/* Attention by warps of a GPU without a copy engine (sm_80 and later): see
 * ir/tile/gpu/attention.h.
 *
 * A block does one tile. Its warps have 16 rows each and copy what all of them read, by
 * cp.async: there is room for one block of keys and one of values. Values of a block come while
 * its scores are multiplied, keys of the next one while probabilities and values are. So copies
 * run beside everything, with a third of the shared memory that two stages would take: other
 * blocks of the processor fill what is left of the time.
 *
 * Scores and probabilities lie in registers as those of the other unit do, and what is done
 * with them is the same code; the chain of a product is that of 16 numbers along k at a time,
 * in order. The first block of keys is no case of its own: with sums of 0 and the least maximum
 * a round gives what a first round would.
 *
 * Rejected: tiles of 32 rows a warp, which read shared memory half as often. Scores, sums and
 * probabilities of heads of 128 do not fit into the registers of a thread then. */
#include <float.h>

#include "ir/tile/gpu/attention_state.h"
#include "ir/tile/gpu/heads.h"

enum { KEYS = TS_GPU_KEYS };

typedef TsTileVal V;
typedef TsGpuAttend Attention;
typedef TsGpuAttendRows State;

static V number(Attention *a, int64_t i) { return ts_tile_index(&a->b, i); }
static V op2(Attention *a, int op, V x, V y) { return ts_tile_op2(&a->b, op, x, y); }

static V line(Attention *a, double v) {
  TsTileType t = ts_gpu_fragment(TS_DT_f32, a->x.rows, 0);
  return ts_gpu_all(&a->b, v, &t);
}

/* ---- memory of the block */
static V room(Attention *a, const char *name, int64_t rows) {
  return ts_gpu_heads_room(&a->b, name, a->x.dtype, 1, rows, a->x.d);
}

static void copy(Attention *a, V to, V from, V head, V row) {
  ts_gpu_heads_copy(&a->b, to, number(a, 0), from, a->batch, head, row);
}

static void meet(Attention *a) { ts_gpu_heads_meet(&a->b, 2 * a->x.rows); }

/* All but the last copies are there, of all threads. */
static void await(Attention *a) {
  ts_gpu_wait(&a->b, 0, 1);
  meet(a);
}

static void copy_keys(Attention *a, V j) {
  copy(a, a->sk, a->k, a->key_head, ts_gpu_attend_keys_at(a, j));
}

/* ---- products */
static V scores(Attention *a) {
  V zero = number(a, 0);
  return ts_gpu_heads_scores(&a->b, a->sq, zero, NULL, a->sk, zero);
}

static V add_values(Attention *a, V p, V o) {
  return ts_gpu_heads_add(&a->b, p, a->sv, number(a, 0), o);
}

/* ---- blocks of keys */
static void next_block(Attention *a, State *s, V j) {
  TsTileBuild *b = &a->b;
  V factor = NULL, later = ts_gpu_by(b, TS_OP_add, j, 1);
  copy(a, a->sv, a->v, a->key_head, ts_gpu_attend_keys_at(a, j));
  ts_gpu_commit(b, 0);
  await(a);
  V x = scores(a);
  meet(a);
  TsTileRegion *before = ts_gpu_when(b, op2(a, TS_OP_lt, later, a->count));
  copy_keys(a, later);
  b->at = before;
  ts_gpu_commit(b, 0);
  V p = ts_gpu_attend_next(a, ts_gpu_attend_masked(a, x, j), s, &factor);
  if (!factor || !s->o) return;
  s->o = op2(a, TS_OP_mul, s->o, ts_gpu_spread(b, factor, &s->o->type, 0));
  await(a);
  s->o = add_values(a, p, s->o);
  meet(a);
}

static void all_blocks(Attention *a, State *s) {
  TsTileBuild *b = &a->b;
  V least = line(a, a->x.mask.some ? -FLT_MAX : -1e30), out[3] = {NULL};
  TsTileType four = ts_gpu_fragment(TS_DT_f32, a->x.rows, 4);
  V first[3] = {ts_gpu_zeros(b, a->x.rows, a->x.d), least, ts_gpu_all(b, 0, &four)};
  TsTileLoop l = ts_tile_for(b, number(a, 0), a->count, 1, false, 3, first);
  if (!l.stmt) return;
  *s = (State){l.carry[0], l.carry[1], l.carry[2]};
  next_block(a, s, l.i);
  ts_tile_for_end(b, &l, (V[]){s->o, s->m, s->l}, out);
  *s = (State){out[0], out[1], out[2]};
}

static void tile(Attention *a) {
  TsTileBuild *b = &a->b;
  State s = {0};
  TsTileAccess edge = {.edge = true};
  copy(a, a->sq, a->q, a->head, a->q0);
  copy_keys(a, number(a, 0));
  ts_gpu_commit(b, 0);
  all_blocks(a, &s);
  V factor = ts_gpu_attend_finish(a, &s);
  if (!factor || !s.o) return;
  V y = op2(a, TS_OP_mul, s.o, ts_gpu_spread(b, factor, &s.o->type, 0));
  V at[4] = {a->batch, a->head, a->q0, number(a, 0)};
  ts_tile_store(b, a->y, at, ts_tile_cast(b, y, a->x.dtype), &edge);
  ts_gpu_wait(b, 0, 0);
}

void ts_gpu_attend_by_warps(Attention *a) {
  TsTileBuild *b = &a->b;
  ts_gpu_attend_sizes(a);
  TsTileLoop grid = ts_tile_for(b, number(a, 0), a->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  a->sq = room(a, "sq", a->x.rows);
  a->sk = room(a, "sk", KEYS);
  a->sv = room(a, "sv", KEYS);
  TsTileRegion *before = ts_gpu_role(b, "mma", a->x.rows / 16);
  ts_gpu_attend_tile(a, grid.i);
  tile(a);
  b->at = before;
  ts_tile_for_end(b, &grid, NULL, NULL);
}
