/* The explicit form of attention for a GPU with a copy engine: see ir/tile/gpu/attention.h.
 *
 * A block has two roles. `load` is one thread that claims tiles (queries of one head) from a
 * counter of the device and keeps the copy engine busy: the queries, then keys and values block
 * by block, keys one block ahead. `mma` multiplies: groups of four warps with 64 queries each.
 * The number of the tile goes through shared memory, counted by the barrier of the queries; -1
 * ends it. Claiming balances tiles of different lengths: with `causal` the longest come first.
 *
 * A round of the loop over key blocks begins the products of queries and these keys, then those
 * of the probabilities and values of the block before; while these still run, the scores become
 * probabilities. So the matrix unit works under the exponentials. The queries' memory is free
 * for the next tile behind the last scores.
 *
 * With `apart` each group of warps goes only as far as its own rows see, then keeps its turns
 * and leaves memory to the next blocks until the tile ends: a tile of 192 rows has more hidden
 * pairs than three of 64, and behind the last query a group has none. Blocks that a row does
 * not see change none of its bits, so that the interpreter, which runs groups as one, goes on
 * to the end.
 *
 * Scores stay as they are, the maximum too; p = 2^(x c - m c) with c = scale log2 e is one
 * fused multiply-add and one instruction. The maximum begins at -1e30, so that rows that see
 * nothing have p = 0 and not NaN: a block that hides all its keys changes no bit. With a mask
 * scores are scaled when it is added, and the maximum is subtracted before the exponent is
 * scaled to base 2: numbers of a mask may be the least of their type, which no product of
 * theirs may be, and a row of them has equal probabilities. Sums of p
 * stay with the thread that has the columns, four for each row, until the end. */
#include <math.h>

#include "ir/tile/gpu/attention_state.h"

enum { PATTERN = 128, PANEL = 64, KEYS = TS_GPU_KEYS, LOAD_WARPS = 4 };

typedef TsTileVal V;
typedef TsGpuAttend Attention;
typedef TsGpuAttendRing Ring;
typedef TsGpuAttendRows State;

static V number(Attention *a, int64_t i) { return ts_tile_index(&a->b, i); }
static V op2(Attention *a, int op, V x, V y) { return ts_tile_op2(&a->b, op, x, y); }
static V by(Attention *a, int op, V x, int64_t y) { return ts_gpu_by(&a->b, op, x, y); }

/* ---- memory */
static V stages(Attention *a, const char *name, int n, int64_t rows) {
  int64_t dim[3] = {n, rows, a->x.d};
  return ts_gpu_shared(&a->b, name, a->x.dtype, 3, dim, PATTERN);
}

static void memory(Attention *a) {
  TsTileBuild *b = &a->b;
  int n = a->x.stages;
  a->sq = stages(a, "sq", 1, a->x.rows);
  a->so = stages(a, "so", 1, a->x.rows);
  a->sk = stages(a, "sk", n, KEYS);
  a->sv = stages(a, "sv", n, KEYS);
  a->box = ts_gpu_shared(b, "box", TS_DT_i64, 1, (int64_t[]){1}, 0);
  a->full_q = ts_gpu_barriers(b, "full_q", 1, 1);
  a->empty_q = ts_gpu_barriers(b, "empty_q", 1, 1);
  a->full_k = ts_gpu_barriers(b, "full_k", n, 1);
  a->empty_k = ts_gpu_barriers(b, "empty_k", n, 1);
  a->full_v = ts_gpu_barriers(b, "full_v", n, 1);
  a->empty_v = ts_gpu_barriers(b, "empty_v", n, 1);
}

/* ---- tiles */
/* Of the group whose first row of the tile is `below`. */
static V blocks_of_group(Attention *a, int below) {
  V row = by(a, TS_OP_add, a->q0, below), n = a->count;
  if (a->x.causal) {
    V last = by(a, TS_OP_add, op2(a, TS_OP_add, row, a->offset), TS_GPU_GROUP_ROWS - 1);
    last = op2(a, TS_OP_sub, by(a, TS_OP_floordiv, last, KEYS), a->first);
    n = by(a, TS_OP_maximum, op2(a, TS_OP_minimum, n, by(a, TS_OP_add, last, 1)), 1);
  }
  return ts_tile_op3(&a->b, TS_OP_where, op2(a, TS_OP_lt, row, a->s), n, number(a, 1));
}

static void groups_of(Attention *a) {
  V of[4];
  a->mine = a->count;
  if (!a->x.apart) return;
  for (int i = 0; i < a->x.rows / TS_GPU_GROUP_ROWS; i++)
    of[i] = blocks_of_group(a, i * TS_GPU_GROUP_ROWS);
  a->mine = ts_gpu_named(ts_gpu_attend_own(a, of), "mine");
}

static void advance(Attention *a, Ring *r) {
  ts_gpu_advance(&a->b, &r->slot, &r->parity, a->x.stages);
}

/* ---- role load */
static void fetch(Attention *a, V to, V from, V full, V empty, const Ring *r, V head, V row) {
  TsTileBuild *b = &a->b;
  if (!to) return;
  ts_gpu_await(b, empty, r->slot, r->parity);
  ts_gpu_say(b, TS_TILE_expect, TS_GPU_IN(full, r->slot),
             TS_GPU_SET({"bytes", ts_gpu_whole(ts_gpu_slot_bytes(to))}), NULL);
  ts_gpu_arrive(b, full, r->slot);
  ts_gpu_fetch(b, to, from, full, r->slot, a->batch, head, row);
}

static void fetch_keys(Attention *a, Ring *r, V j) {
  fetch(a, a->sk, a->k, a->full_k, a->empty_k, r, a->key_head, ts_gpu_attend_keys_at(a, j));
  advance(a, r);
}

static void fetch_values(Attention *a, Ring *r, V j) {
  fetch(a, a->sv, a->v, a->full_v, a->empty_v, r, a->key_head, ts_gpu_attend_keys_at(a, j));
  advance(a, r);
}

static void post(Attention *a, V t) {
  ts_tile_store(&a->b, a->box, (V[]){number(a, 0)}, t, NULL);
}

/* Queries, then keys one block ahead of the values. */
static void fetch_tile(Attention *a, V t, V parity, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V zero = number(a, 0), out[4];
  ts_gpu_await(b, a->empty_q, zero, parity);
  post(a, t);
  ts_gpu_say(b, TS_TILE_expect, TS_GPU_IN(a->full_q, zero),
             TS_GPU_SET({"bytes", ts_gpu_whole(ts_gpu_slot_bytes(a->sq))}), NULL);
  ts_gpu_arrive(b, a->full_q, zero);
  ts_gpu_fetch(b, a->sq, a->q, a->full_q, zero, a->batch, a->head, a->q0);
  fetch_keys(a, k, zero);
  V first[4] = {k->slot, k->parity, v->slot, v->parity};
  TsTileLoop l = ts_tile_for(b, number(a, 1), a->count, 1, false, 4, first);
  if (!l.stmt) return;
  *k = (Ring){l.carry[0], l.carry[1]}, *v = (Ring){l.carry[2], l.carry[3]};
  fetch_keys(a, k, l.i);
  fetch_values(a, v, by(a, TS_OP_sub, l.i, 1));
  ts_tile_for_end(b, &l, (V[]){k->slot, k->parity, v->slot, v->parity}, out);
  *k = (Ring){out[0], out[1]}, *v = (Ring){out[2], out[3]};
  fetch_values(a, v, by(a, TS_OP_sub, a->count, 1));
}

static V next_tile(Attention *a) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  V next = ts_gpu_give(&a->b, TS_TILE_claim, TS_GPU_IN(a->counter, number(a, 0), a->total),
                       TS_GPU_PLAIN, &scalar);
  return op2(a, TS_OP_add, next, a->p);
}

/* Fetches tile t, and claims the next one beside it. The first one, that nobody claims, is
 * fetched before the launch in front of this one is over, whose claims go first. */
static V fetch_and_claim(Attention *a, V t, V parity, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V is_first = op2(a, TS_OP_lt, t, a->p);
  TsTileType type[5] = {t->type, k->slot->type, k->parity->type, v->slot->type,
                        v->parity->type};
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &is_first, NULL, 5, type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  for (int early = 0; early < 2; early++) {
    Ring key = *k, value = *v;
    V next = NULL;
    b->at = s->region[early];
    if (early) next = next_tile(a);
    fetch_tile(a, t, parity, &key, &value);
    if (!early) ts_gpu_plain(b, TS_TILE_await_launch);
    if (!early) next = next_tile(a);
    ts_gpu_say(b, TS_TILE_yield,
               TS_GPU_IN(next, key.slot, key.parity, value.slot, value.parity), TS_GPU_PLAIN,
               NULL);
  }
  b->at = before;
  *k = (Ring){s->out[1], s->out[2]}, *v = (Ring){s->out[3], s->out[4]};
  return s->out[0];
}

static void load_role(Attention *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "load", LOAD_WARPS);
  ts_gpu_registers(b, a->x.rows == 128 ? 40 : 32);
  V one = number(a, 1), zero = number(a, 0);
  V first[6] = {a->block, one, zero, one, zero, one};
  TsGpuRepeat l = ts_gpu_repeat(b, 6, first);
  if (!l.stmt) return;
  V t = l.carry[0], parity = l.carry[1];
  Ring k = {l.carry[2], l.carry[3]}, v = {l.carry[4], l.carry[5]};
  ts_gpu_attend_tile(a, t);
  V next = fetch_and_claim(a, t, parity, &k, &v);
  V transposed = by(a, TS_OP_bitwise_xor, parity, 1);
  ts_gpu_repeat_end(b, &l, op2(a, TS_OP_lt, next, a->total),
                    (V[]){next, transposed, k.slot, k.parity, v.slot, v.parity});
  if (b->k->failed) return;
  ts_gpu_await(b, a->empty_q, zero, l.stmt->out[1]);
  post(a, number(a, -1));
  ts_gpu_arrive(b, a->full_q, zero);
  b->at = before;
}

/* ---- role mma: the scores of a block */

static V scores(Attention *a, const Ring *k) {
  TsTileBuild *b = &a->b;
  V acc = ts_gpu_zeros(b, a->x.rows, KEYS);
  V q = ts_gpu_operand(b, a->sq, number(a, 0), false);
  V keys = ts_gpu_operand(b, a->sk, k->slot, true);
  V x = ts_gpu_mma(b, q, keys, acc);
  ts_gpu_commit(b, TS_GPU_PRODUCTS);
  return x;
}

/* ---- role mma: blocks of keys */
static V narrow(Attention *a, V x) { return x ? ts_tile_cast(&a->b, x, a->x.dtype) : NULL; }

static V add_values(Attention *a, V p, V o, const Ring *v) {
  V y = ts_gpu_mma(&a->b, p, ts_gpu_operand(&a->b, a->sv, v->slot, false), o);
  ts_gpu_commit(&a->b, TS_GPU_PRODUCTS);
  return y;
}

/* Behind the last scores nobody reads the queries. */
static void leave_queries(Attention *a, V last) {
  TsTileRegion *before = ts_gpu_when(&a->b, last);
  ts_gpu_arrive(&a->b, a->empty_q, number(a, 0));
  a->b.at = before;
}

static V first_block(Attention *a, State *s, Ring *k) {
  TsTileBuild *b = &a->b;
  ts_gpu_await(b, a->full_k, k->slot, k->parity);
  V x = scores(a, k);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_k, k->slot);
  leave_queries(a, by(a, TS_OP_eq, a->mine, 1));
  advance(a, k);
  V p = narrow(a, ts_gpu_attend_first(a, ts_gpu_attend_masked(a, x, number(a, 0)), s));
  s->o = ts_gpu_zeros(b, a->x.rows, a->x.d);
  return p;
}

static V next_block(Attention *a, State *s, V p, V j, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V factor = NULL;
  ts_gpu_await(b, a->full_k, k->slot, k->parity);
  if (a->x.turns) ts_gpu_turn(b, false);
  V x = scores(a, k);
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  s->o = add_values(a, p, s->o, v);
  if (a->x.turns) ts_gpu_turn(b, true);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  ts_gpu_arrive(b, a->empty_k, k->slot);
  leave_queries(a, op2(a, TS_OP_eq, by(a, TS_OP_add, j, 1), a->mine));
  p = ts_gpu_attend_next(a, ts_gpu_attend_masked(a, x, j), s, &factor);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  if (!factor || !s->o) return NULL;
  s->o = op2(a, TS_OP_mul, s->o, ts_gpu_spread(b, factor, &s->o->type, 0));
  advance(a, k), advance(a, v);
  return narrow(a, p);
}

static V all_blocks(Attention *a, State *s, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V p = first_block(a, s, k), out[8];
  V first[8] = {s->o, s->m, s->l, p, k->slot, k->parity, v->slot, v->parity};
  TsTileLoop l = ts_tile_for(b, number(a, 1), a->mine, 1, false, 8, first);
  if (!l.stmt) return NULL;
  *s = (State){l.carry[0], l.carry[1], l.carry[2]};
  *k = (Ring){l.carry[4], l.carry[5]}, *v = (Ring){l.carry[6], l.carry[7]};
  p = next_block(a, s, l.carry[3], l.i, k, v);
  V next[8] = {s->o, s->m, s->l, p, k->slot, k->parity, v->slot, v->parity};
  ts_tile_for_end(b, &l, next, out);
  *s = (State){out[0], out[1], out[2]};
  *k = (Ring){out[4], out[5]}, *v = (Ring){out[6], out[7]};
  return out[3];
}

/* ---- role mma: the end of a tile */

static void store_tile(Attention *a, V o, V factor) {
  TsTileBuild *b = &a->b;
  V zero = number(a, 0);
  int64_t shape[2] = {a->x.rows, a->x.d};
  if (!o || !factor) return;
  ts_gpu_plain(b, TS_TILE_sync);
  for (int c = 0; c < a->x.d; c += PANEL) {
    V part = ts_gpu_span(b, o, c, PANEL);
    if (!part) return;
    part = op2(a, TS_OP_mul, part, ts_gpu_spread(b, factor, &part->type, 0));
    ts_tile_store(b, a->so, (V[]){zero, zero, number(a, c)}, narrow(a, part), NULL);
  }
  ts_gpu_async_fence(b);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_say(b, TS_TILE_store_bulk,
             TS_GPU_IN(a->y, a->so, a->batch, a->head, a->q0, zero, zero, zero, zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
  ts_gpu_commit(b, TS_GPU_STORES);
}

/* Blocks that other groups see: this one keeps its turns and leaves the memory to the next
 * ones. All its threads wait, so that none of them is a whole ring behind. */
static void pass_blocks(Attention *a, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V first[4] = {k->slot, k->parity, v->slot, v->parity}, out[4];
  if (!a->x.apart) return;
  TsTileLoop l = ts_tile_for(b, a->mine, a->count, 1, false, 4, first);
  if (!l.stmt) return;
  *k = (Ring){l.carry[0], l.carry[1]}, *v = (Ring){l.carry[2], l.carry[3]};
  ts_gpu_await(b, a->full_k, k->slot, k->parity);
  if (a->x.turns)
    ts_gpu_turn(b, false), ts_gpu_turn(b, true);
  else
    ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_arrive(b, a->empty_k, k->slot);
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  advance(a, k), advance(a, v);
  ts_tile_for_end(b, &l, (V[]){k->slot, k->parity, v->slot, v->parity}, out);
  *k = (Ring){out[0], out[1]}, *v = (Ring){out[2], out[3]};
}

static void one_tile(Attention *a, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  State s = {0};
  groups_of(a);
  V p = all_blocks(a, &s, k, v);
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  ts_gpu_plain(b, TS_TILE_await_launch);
  V o = add_values(a, p, s.o, v);
  V factor = ts_gpu_attend_finish(a, &s);
  ts_gpu_wait(b, TS_GPU_STORES, 0);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  advance(a, v);
  pass_blocks(a, k, v);
  store_tile(a, o, factor);
}

/* Number of the next tile, of which the queries are there. */
static V receive(Attention *a, V parity) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  V zero = number(a, 0);
  ts_gpu_await(&a->b, a->full_q, zero, parity);
  return ts_tile_load(&a->b, a->box, &zero, &scalar, NULL);
}

static void mma_role(Attention *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "mma", a->x.rows / 16);
  ts_gpu_registers(b, a->x.rows == 128 ? 232 : 160);
  V zero = number(a, 0);
  V first[6] = {receive(a, zero), number(a, 1), zero, zero, zero, zero};
  TsGpuRepeat l = ts_gpu_repeat(b, 6, first);
  if (!l.stmt) return;
  V parity = l.carry[1];
  Ring k = {l.carry[2], l.carry[3]}, v = {l.carry[4], l.carry[5]};
  ts_gpu_attend_tile(a, l.carry[0]);
  one_tile(a, &k, &v);
  V next = receive(a, parity), transposed = by(a, TS_OP_bitwise_xor, parity, 1);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, transposed, k.slot, k.parity, v.slot, v.parity});
  ts_gpu_wait(b, TS_GPU_STORES, 0);
  b->at = before;
}

/* ---- the kernel */
static int legal(const TsGpuAttention *x, TsError *err) {
  bool narrow = x->dtype == TS_DT_bf16 || x->dtype == TS_DT_f16;
  bool tile = x->warps ? x->rows == 64 || x->rows == 128
                       : x->rows == 128 || (x->rows == 192 && x->d == 64);
  bool fits = narrow && (x->d == 64 || x->d == 128) && tile && x->window >= 0 && x->scale > 0 &&
              (x->warps ? !x->apart : x->stages > 1 && x->stages < 5);
  if (fits) return 0;
  return ts_error_set(err, TS_ERR_argument,
                      "no attention of %s with heads of %d in tiles of %d queries",
                      ts_dtype_name(x->dtype), x->d, x->rows);
}

static void head(const Attention *a) {
  TsTile *k = a->b.k;
  k->form = TS_FORM_explicit;
  k->target = a->x.warps ? a->x.warps : ts_target_with(TS_UNIT_roles)->name;
  k->ntile = 3;
  k->tile[0] = a->x.rows, k->tile[1] = KEYS, k->tile[2] = a->x.d;
  k->stages = a->x.stages;
  k->threads = 32 * (a->x.rows / 16 + (a->x.warps ? 0 : LOAD_WARPS));
}

static void body(Attention *a) {
  TsTileBuild *b = &a->b;
  TsTileType one = ts_tile_vector(TS_DT_i32, 1);
  ts_gpu_attend_sizes(a);
  if (a->x.alone)
    a->counter = ts_gpu_named(ts_tile_alloc(b, TS_SPACE_scratch, &one), "counter");
  TsTileLoop grid = ts_tile_for(b, number(a, 0), a->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  a->block = grid.i;
  memory(a);
  load_role(a);
  mma_role(a);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_attention(const TsGpuAttention *x, TsError *err) {
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("attention");
  if (!k) return ts_error_memory(err), NULL;
  Attention a = {.x = *x, .b = ts_tile_build(k)};
  ts_gpu_attend_params(&a);
  head(&a);
  if (!k->failed) (x->warps ? ts_gpu_attend_by_warps : body)(&a);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}

TsGpuAttention ts_gpu_attention(TsDtype dtype, int d, bool causal, int64_t window, bool sink) {
  TsGpuAttention x = {.dtype = dtype, .d = d, .causal = causal, .window = window, .sink = sink};
  x.scale = 1 / sqrt(d);
  x.rows = d == 64 ? 192 : 128;
  x.turns = x.apart = d == 64;
  x.stages = 2;
  return x;
}

/* Blocks of four warps where two of them have room in a processor, else one of eight. */
TsGpuAttention ts_gpu_attention_by_warps(TsDtype dtype, int d, bool causal, int64_t window,
                                         bool sink, const char *target, int64_t shared) {
  TsGpuAttention x = ts_gpu_attention(dtype, d, causal, window, sink);
  int64_t bytes = 2 * d * (64 + 2 * KEYS);
  x.warps = target, x.rows = 2 * bytes <= shared ? 64 : 128;
  x.turns = x.apart = false, x.stages = 1;
  return x;
}

/* Tiles of 192 rows are 1.17 times as fast, but of a causal head of 1024 queries they take 32
 * blocks of 192 x 128, tiles of 128 rows 36 of 128 x 128. With a mask they have too few
 * registers. */
void ts_gpu_attention_fit(TsGpuAttention *x, int64_t s, bool masked) {
  enum { FEW = 1280, LOW = 128 };
  bool low = s <= LOW || (x->causal && s <= FEW);
  if (x->d == 64 && (masked || low)) x->rows = LOW, x->apart = false;
}

/* Keys and values of heads that stand together are about half of the second cache. Without
 * causal all tiles are equally long, and one head after the other is as good. */
int64_t ts_gpu_attention_heads(const TsGpuAttention *x, int64_t n, int64_t j, int64_t t) {
  int64_t each = n / j, bytes = t * x->d * 4, fit = bytes ? 24000000 / bytes : n;
  if (!x->causal) return 1;
  int64_t heads = (fit < 1 ? 1 : fit) * each;
  return heads > n ? n : heads;
}

int64_t ts_gpu_attention_tiles(const TsGpuAttention *x, int64_t n, int64_t s) {
  return n * ((s + x->rows - 1) / x->rows);
}
