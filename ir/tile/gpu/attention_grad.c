/* The explicit form of the gradients of attention: see ir/tile/gpu/attention_grad.h.
 *
 * A tile is 128 keys and values of one head, which stay in shared memory while blocks of
 * queries and of gradients g go by; two groups of four warps have 64 keys each. What is
 * multiplied is transposed: scores and their gradients are [keys, queries], so that as they come
 * out of the unit they are operands of the sums dv += p' g and dk += s' q without leaving
 * registers. For dq they go through shared memory, which all groups read: dq [queries, D] += s
 * k is divided among groups by columns.
 *
 * The scores of a step are begun in the step before, so that the unit has work while dq goes to
 * shared memory, and the end of a tile leaves its keys to the next one before it stores sums,
 * through the memory of the gradients of scores. Heads of 64 leave registers and memory to do
 * more of a step beside another one: ir/tile/gpu/attention_grad_overlap.c.
 *
 * dq of a block of queries is made of all tiles that see it. It is added up in f32 in device
 * memory by the copy engine, in increasing order of the keys: `turn` says how many key blocks
 * are in. Two roles of one thread take the blocks in turns, so that one waits for its turn and
 * the writes while the other begins. All tiles of a head go through the queries in one
 * direction, a step apart, and hardly wait; the first one writes instead of adding, so that
 * nobody fills dq with zeros. Tiles are claimed in an order in which each waits only for those
 * that were claimed before it.
 *
 * Of a block of queries all heads come before the next block: were it the other way round,
 * tiles that see few blocks of a head would wait for those that see many before the next one.
 *
 * Rejected: two kernels, one of which has tiles of queries and makes dq alone. It needs no
 * order and no f32, and computes the scores and their gradients twice: 0.84-0.94 of the speed.
 * Additions in any order are 5% faster, and give other bits at every run. */
#include <math.h>

#include "ir/tile/gpu/attention_grad_state.h"
#include "ir/tile/gpu/heads.h"

enum {
  PATTERN = 128,
  PANEL = 64,
  KEYS = TS_GPU_GRAD_KEYS,
  WARPS = TS_GPU_GRAD_WARPS,
  RING = TS_GPU_GRAD_RING,
  LOADS = 1, /* warps */
  FEWEST = 24
};

typedef TsTileVal V;
typedef TsGpuRing Ring;
typedef TsGpuGrad Grad;

static V number(Grad *a, int64_t i) { return ts_gpu_grad_number(a, i); }
static V op2(Grad *a, int op, V x, V y) { return ts_gpu_grad_op2(a, op, x, y); }
static V by(Grad *a, int op, V x, int64_t y) { return ts_gpu_grad_by(a, op, x, y); }

/* ---- parameters, sizes, memory */
V ts_gpu_grad_heads(Grad *a, const char *name, TsDtype d, int64_t heads, int64_t rows,
                    bool written) {
  TsTileType t = ts_tile_type(d, 4, (int64_t[]){ts_tile_dim(0), heads, rows, a->x.d});
  return ts_tile_param(a->b.k, name, &t, written);
}

void ts_gpu_grad_given(Grad *a, int rank, int64_t rows, int64_t size[8]) {
  static const char *const names[] = {"B", "H", "J", "S", "T", "L", "G", "P"};
  TsTile *k = a->b.k;
  TsDtype d = a->x.dtype;
  int64_t dim[4] = {1, 1, 1, 1};
  for (int i = 0; i < 8; i++) size[i] = ts_tile_size(k, names[i]);
  dim[rank - 2] = size[5], dim[rank - 1] = rows;
  TsTileType line = ts_tile_type(TS_DT_f32, rank, dim);
  a->q = ts_gpu_grad_heads(a, "q", d, size[1], size[3], false);
  a->k = ts_gpu_grad_heads(a, "k", d, size[2], size[4], false);
  a->v = ts_gpu_grad_heads(a, "v", d, size[2], size[4], false);
  if (a->x.mask.some) a->mask = ts_gpu_mask_param(k, &a->x.mask, d);
  a->g = ts_gpu_grad_heads(a, "g", d, size[1], size[3], false);
  a->lse = ts_tile_param(k, "lse", &line, false);
  a->delta = ts_tile_param(k, "delta", &line, false);
}

static void params(Grad *a) {
  TsTile *k = a->b.k;
  int64_t size[8];
  ts_gpu_grad_given(a, 2, a->x.rows, size);
  TsTileType turns = ts_tile_vector(TS_DT_i32, size[5]), one = ts_tile_vector(TS_DT_i32, 1);
  a->dq = ts_gpu_grad_heads(a, "dq", TS_DT_f32, size[1], size[3], true);
  a->dk = ts_gpu_grad_heads(a, "dk", a->x.dtype, size[2], size[4], true);
  a->dv = ts_gpu_grad_heads(a, "dv", a->x.dtype, size[2], size[4], true);
  a->turn = ts_tile_param(k, "turn", &turns, true);
  a->counter = ts_tile_param(k, "counter", &one, true);
}

void ts_gpu_grad_sizes(Grad *a) {
  TsTileBuild *b = &a->b;
  V *to[] = {&a->nb, &a->h, &a->j, &a->s, &a->t, &a->l, &a->near, &a->p};
  static const char *const names[] = {"b", "h", "j", "s", "t", "l", "near", "p"};
  for (int i = 0; i < 8; i++) *to[i] = ts_gpu_size(b, i, names[i]);
  a->blocks = ts_gpu_named(ts_gpu_div_up(b, a->s, ts_gpu_grad_rows(a)), "blocks");
  a->keys = ts_gpu_named(ts_gpu_div_up(b, a->t, ts_gpu_grad_keys(a)), "keys");
  a->heads = ts_gpu_named(op2(a, TS_OP_mul, a->nb, a->j), "heads");
  a->total = ts_gpu_named(op2(a, TS_OP_mul, a->keys, a->heads), "total");
  a->span = ts_gpu_named(op2(a, TS_OP_mul, a->keys, a->near), "span");
  ts_gpu_order(b->k, "heads", 0);
  a->offset = ts_gpu_named(op2(a, TS_OP_sub, a->t, a->s), "offset");
  a->each = ts_gpu_named(op2(a, TS_OP_floordiv, a->h, a->j), "each");
}

static V panels(Grad *a, const char *name, TsDtype d, int n, int64_t rows, int64_t cols) {
  return ts_gpu_shared(&a->b, name, d, 3, (int64_t[]){n, rows, cols}, PATTERN);
}

static void memory(Grad *a) {
  TsTileBuild *b = &a->b;
  TsDtype d = a->x.dtype;
  int n = a->x.stages, rows = a->x.rows;
  int64_t lines[2] = {n, rows};
  int tiles = ts_gpu_grad_slots(a);
  a->sk = panels(a, "sk", d, tiles, KEYS, a->x.d);
  a->sv = panels(a, "sv", d, tiles, KEYS, a->x.d);
  a->sq = panels(a, "sq", d, n, rows, a->x.d);
  a->sg = panels(a, "sg", d, n, rows, a->x.d);
  a->ss = panels(a, "ss", d, RING, KEYS, rows);
  a->sdq = panels(a, "sdq", TS_DT_f32, RING, rows, a->x.d);
  if (a->x.overlap) a->so = panels(a, "so", d, 2, KEYS, a->x.d);
  a->slse = ts_gpu_shared(b, "slse", TS_DT_f32, 2, lines, 0);
  a->sdelta = ts_gpu_shared(b, "sdelta", TS_DT_f32, 2, lines, 0);
  a->box = ts_gpu_shared(b, "box", TS_DT_i64, 1, (int64_t[]){tiles}, 0);
  a->full_kv = ts_gpu_barriers(b, "full_kv", tiles, 1);
  a->empty_kv = ts_gpu_barriers(b, "empty_kv", tiles, 1);
  a->seen = ts_gpu_barriers(b, "seen", tiles, RING);
  a->full_q = ts_gpu_barriers(b, "full_q", n, 1);
  a->empty_q = ts_gpu_barriers(b, "empty_q", n, 1);
  a->full_g = ts_gpu_barriers(b, "full_g", n, 1);
  a->empty_g = ts_gpu_barriers(b, "empty_g", n, 1);
  a->full_dq = ts_gpu_barriers(b, "full_dq", RING, 1);
  a->empty_dq = ts_gpu_barriers(b, "empty_dq", RING, 1);
  if (a->x.overlap) a->full_s = ts_gpu_barriers(b, "full_s", RING, 1);
}

/* ---- tiles */
/* The blocks of queries that some key of the tile is seen by, at least one. */
static void queries_of(Grad *a) {
  V last = by(a, TS_OP_sub, a->blocks, 1), end = a->blocks, first = number(a, 0);
  V before = op2(a, TS_OP_sub, a->n0, a->offset); /* the first query behind the first key */
  if (a->x.causal) {
    first = by(a, TS_OP_maximum, by(a, TS_OP_floordiv, before, ts_gpu_grad_rows(a)), 0);
    first = op2(a, TS_OP_minimum, first, last);
  }
  if (a->x.window) {
    V edge = by(a, TS_OP_add, before, ts_gpu_grad_keys(a) - 2 + a->x.window);
    end = by(a, TS_OP_add, by(a, TS_OP_floordiv, edge, ts_gpu_grad_rows(a)), 1);
    end = op2(a, TS_OP_minimum, end, a->blocks);
    end = op2(a, TS_OP_maximum, end, by(a, TS_OP_add, first, 1));
  }
  a->first = ts_gpu_named(first, "first");
  a->count = ts_gpu_named(op2(a, TS_OP_sub, end, first), "count");
}

void ts_gpu_grad_tile(Grad *a, V t) {
  V head;
  ts_gpu_heads_tile(&a->b, t, a->near, a->span, a->heads, &a->number, &head);
  a->number = ts_gpu_named(a->number, "number");
  a->batch = ts_gpu_named(op2(a, TS_OP_floordiv, head, a->j), "batch");
  a->key_head =
      ts_gpu_named(op2(a, TS_OP_sub, head, op2(a, TS_OP_mul, a->batch, a->j)), "key_head");
  a->n0 = ts_gpu_named(by(a, TS_OP_mul, a->number, ts_gpu_grad_keys(a)), "n0");
  queries_of(a);
}

/* Query head e of the tile's key head, and where its blocks begin among all. */
V ts_gpu_grad_query_head(Grad *a, V e) {
  return op2(a, TS_OP_add, op2(a, TS_OP_mul, a->key_head, a->each), e);
}
static V blocks_of(Grad *a, V head) {
  V all = op2(a, TS_OP_add, op2(a, TS_OP_mul, a->batch, a->h), head);
  return op2(a, TS_OP_mul, all, a->blocks);
}

V ts_gpu_grad_block(Grad *a, V j) {
  V end = op2(a, TS_OP_add, a->first, a->count);
  return op2(a, TS_OP_sub, by(a, TS_OP_sub, end, 1), j);
}

int ts_gpu_grad_slots(const Grad *a) { return a->x.overlap ? 2 : 1; }

V ts_gpu_grad_slot(Grad *a, const Ring *kv) { return a->x.overlap ? kv->slot : number(a, 0); }

void ts_gpu_grad_next_tile(Grad *a, Ring *kv) {
  if (a->x.overlap)
    ts_gpu_advance(&a->b, &kv->slot, &kv->parity, 2);
  else
    kv->parity = by(a, TS_OP_bitwise_xor, kv->parity, 1);
}

static void advance(Grad *a, Ring *r, int n) { ts_gpu_advance(&a->b, &r->slot, &r->parity, n); }

/* ---- role load */
static void expect(Grad *a, V full, V slot, int64_t bytes) {
  ts_gpu_say(&a->b, TS_TILE_expect, TS_GPU_IN(full, slot),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_arrive(&a->b, full, slot);
}

static void fetch(Grad *a, V to, V from, V full, V slot, V head, V row) {
  ts_gpu_fetch(&a->b, to, from, full, slot, a->batch, head, row);
}

/* One number of each query. */
static void fetch_line(Grad *a, V to, V from, V full, V slot, V block) {
  V zero = number(a, 0);
  if (!to) return;
  ts_gpu_say(&a->b, TS_TILE_copy_bulk, TS_GPU_IN(to, from, full, slot, slot, zero, block, zero),
             TS_GPU_SET({"shape", ts_gpu_list(1, to->type.dim + 1)}), NULL);
}

static void fetch_step(Grad *a, V head, V base, V j, const Ring *r) {
  TsTileBuild *b = &a->b;
  V block = ts_gpu_grad_block(a, j), row = by(a, TS_OP_mul, block, a->x.rows);
  if (!a->sq) return;
  int64_t bytes = ts_gpu_slot_bytes(a->sq) + 4 * a->x.rows;
  block = op2(a, TS_OP_add, base, block);
  ts_gpu_await(b, a->empty_q, r->slot, r->parity);
  expect(a, a->full_q, r->slot, bytes);
  fetch(a, a->sq, a->q, a->full_q, r->slot, head, row);
  fetch_line(a, a->slse, a->lse, a->full_q, r->slot, block);
  ts_gpu_await(b, a->empty_g, r->slot, r->parity);
  expect(a, a->full_g, r->slot, bytes);
  fetch(a, a->sg, a->g, a->full_g, r->slot, head, row);
  fetch_line(a, a->sdelta, a->delta, a->full_g, r->slot, block);
}

/* Step j of all heads. */
static void fetch_steps(Grad *a, V j, Ring *r) {
  V out[2], begin[2] = {r->slot, r->parity};
  TsTileLoop l = ts_tile_for(&a->b, number(a, 0), a->each, 1, false, 2, begin);
  if (!l.stmt) return;
  V head = ts_gpu_grad_query_head(a, l.i);
  *r = (Ring){l.carry[0], l.carry[1]};
  fetch_step(a, head, blocks_of(a, head), j, r);
  advance(a, r, a->x.stages);
  ts_tile_for_end(&a->b, &l, (V[]){r->slot, r->parity}, out);
  *r = (Ring){out[0], out[1]};
}

static void post(Grad *a, V slot, V t) { ts_tile_store(&a->b, a->box, &slot, t, NULL); }

static void await_box(Grad *a, const Ring *kv) {
  V slot = ts_gpu_grad_slot(a, kv);
  ts_gpu_await(&a->b, a->empty_kv, slot, kv->parity);
  ts_gpu_await(&a->b, a->seen, slot, kv->parity);
}

static void fetch_tile(Grad *a, V t, const Ring *kv, Ring *r) {
  V zero = number(a, 0), begin[2] = {r->slot, r->parity}, out[2];
  V slot = ts_gpu_grad_slot(a, kv);
  await_box(a, kv);
  post(a, slot, t);
  if (!a->sk) return;
  expect(a, a->full_kv, slot, 2 * ts_gpu_slot_bytes(a->sk));
  fetch(a, a->sk, a->k, a->full_kv, slot, a->key_head, a->n0);
  fetch(a, a->sv, a->v, a->full_kv, slot, a->key_head, a->n0);
  TsTileLoop l = ts_tile_for(&a->b, zero, a->count, 1, false, 2, begin);
  if (!l.stmt) return;
  *r = (Ring){l.carry[0], l.carry[1]};
  fetch_steps(a, l.i, r);
  ts_tile_for_end(&a->b, &l, (V[]){r->slot, r->parity}, out);
  *r = (Ring){out[0], out[1]};
}

/* The next tile is claimed late: who is behind takes less. */
static void load_role(Grad *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "load", LOADS);
  ts_gpu_registers(b, FEWEST);
  V one = number(a, 1), zero = number(a, 0);
  TsGpuRepeat l = ts_gpu_repeat(b, 5, (V[]){a->block, zero, one, zero, one});
  if (!l.stmt) return;
  V t = l.carry[0];
  Ring kv = {l.carry[1], l.carry[2]}, r = {l.carry[3], l.carry[4]};
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  ts_gpu_grad_tile(a, t);
  fetch_tile(a, t, &kv, &r);
  V next = ts_gpu_give(b, TS_TILE_claim, TS_GPU_IN(a->counter, number(a, 0), a->total),
                       TS_GPU_PLAIN, &scalar);
  next = op2(a, TS_OP_add, next, a->p);
  ts_gpu_grad_next_tile(a, &kv);
  ts_gpu_repeat_end(b, &l, op2(a, TS_OP_lt, next, a->total),
                    (V[]){next, kv.slot, kv.parity, r.slot, r.parity});
  if (b->k->failed) return;
  kv = (Ring){l.stmt->out[1], l.stmt->out[2]};
  await_box(a, &kv);
  post(a, ts_gpu_grad_slot(a, &kv), number(a, -1));
  ts_gpu_arrive(b, a->full_kv, ts_gpu_grad_slot(a, &kv));
  b->at = before;
}

V ts_gpu_grad_receive(Grad *a, const Ring *kv) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  V slot = ts_gpu_grad_slot(a, kv);
  ts_gpu_await(&a->b, a->full_kv, slot, kv->parity);
  return ts_tile_load(&a->b, a->box, &slot, &scalar, NULL);
}

/* ---- roles that add */
/* The first and the last key block that some query of the block sees. */
static V first_keys(Grad *a, V block) {
  if (!a->x.window) return number(a, 0);
  V at = op2(a, TS_OP_add, by(a, TS_OP_mul, block, a->x.rows), a->offset);
  at = by(a, TS_OP_maximum, by(a, TS_OP_add, at, 1 - a->x.window), 0);
  return by(a, TS_OP_floordiv, at, KEYS);
}
static V last_keys(Grad *a, V block) {
  V last = by(a, TS_OP_sub, a->keys, 1);
  if (!a->x.causal) return last;
  V at = by(a, TS_OP_add, by(a, TS_OP_mul, block, a->x.rows), a->x.rows - 1);
  at = by(a, TS_OP_floordiv, op2(a, TS_OP_add, at, a->offset), KEYS);
  return op2(a, TS_OP_minimum, at, last);
}

static void send(Grad *a, int slot, V head, V block, bool add) {
  V zero = number(a, 0), row = by(a, TS_OP_mul, block, a->x.rows);
  if (!a->sdq) return;
  ts_gpu_say(&a->b, TS_TILE_store_bulk,
             TS_GPU_IN(a->dq, a->sdq, a->batch, head, row, zero, number(a, slot), zero, zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, a->sdq->type.dim + 1)},
                        {"add", (TsAttr){.type = TS_ATTR_bool, .i = add}}),
             NULL);
}

/* When it is this tile's turn; the first one makes what the others add to. */
static void send_in_turn(Grad *a, int slot, V head, V block, V at, V begins) {
  TsTileBuild *b = &a->b;
  TsTileStmt *s = ts_gpu_say(b, TS_TILE_if, TS_GPU_IN(begins), TS_GPU_PLAIN, NULL);
  TsTileRegion *before = b->at;
  if (!s) return;
  b->at = s->region[0];
  send(a, slot, head, block, false);
  b->at = s->region[1];
  ts_gpu_say(b, TS_TILE_until, TS_GPU_IN(a->turn, at, a->number), TS_GPU_PLAIN, NULL);
  send(a, slot, head, block, true);
  b->at = before;
  ts_gpu_commit(b, TS_GPU_STORES);
}

static void hand_on(Grad *a, V at, V ends) {
  V next = by(a, TS_OP_add, a->number, 1);
  next = ts_tile_op3(&a->b, TS_OP_where, ends, number(a, 0), next);
  ts_gpu_wait(&a->b, TS_GPU_WRITES, 0);
  ts_gpu_say(&a->b, TS_TILE_signal, TS_GPU_IN(a->turn, at, next), TS_GPU_PLAIN, NULL);
}

static void add_step(Grad *a, int slot, V head, V base, V j) {
  TsTileBuild *b = &a->b;
  V block = ts_gpu_grad_block(a, j), at = op2(a, TS_OP_add, base, block);
  V from = first_keys(a, block), to = last_keys(a, block);
  V begins = op2(a, TS_OP_eq, a->number, from), ends = op2(a, TS_OP_eq, a->number, to);
  V inside = op2(a, TS_OP_logical_and, op2(a, TS_OP_ge, a->number, from),
                 op2(a, TS_OP_le, a->number, to));
  TsTileRegion *before = NULL;
  if (a->x.window) before = ts_gpu_when(b, inside);
  send_in_turn(a, slot, head, block, at, begins);
  if (a->x.window) b->at = before;
  ts_gpu_wait(b, TS_GPU_STORES, 0);
  ts_gpu_arrive(b, a->empty_dq, number(a, slot));
  if (a->x.window) before = ts_gpu_when(b, inside);
  hand_on(a, at, ends);
  if (a->x.window) b->at = before;
}

/* Every other head's step j; odd: whether the first one is the other role's. */
static void add_steps(Grad *a, int slot, V j, V odd, V *parity) {
  V out[1], from = by(a, TS_OP_bitwise_xor, odd, slot);
  TsTileLoop l = ts_tile_for(&a->b, from, a->each, RING, false, 1, parity);
  if (!l.stmt) return;
  V head = ts_gpu_grad_query_head(a, l.i), base = blocks_of(a, head);
  ts_gpu_await(&a->b, a->full_dq, number(a, slot), l.carry[0]);
  add_step(a, slot, head, base, j);
  ts_tile_for_end(&a->b, &l, (V[]){by(a, TS_OP_bitwise_xor, l.carry[0], 1)}, out);
  *parity = out[0];
}

static void add_tile(Grad *a, int slot, V *odd, V *parity) {
  V begin[2] = {*odd, *parity}, out[2];
  TsTileLoop l = ts_tile_for(&a->b, number(a, 0), a->count, 1, false, 2, begin);
  if (!l.stmt) return;
  V p = l.carry[1];
  add_steps(a, slot, l.i, l.carry[0], &p);
  V more = by(a, TS_OP_bitwise_and, a->each, 1);
  V next = op2(a, TS_OP_bitwise_xor, l.carry[0], more);
  ts_tile_for_end(&a->b, &l, (V[]){next, p}, out);
  *odd = out[0], *parity = out[1];
}

static void add_role(Grad *a, int slot) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, slot ? "add_odd" : "add_even", slot ? 3 - LOADS : 1);
  ts_gpu_registers(b, FEWEST);
  V zero = number(a, 0);
  Ring kv = {zero, zero};
  V first = ts_gpu_grad_receive(a, &kv);
  TsGpuRepeat l = ts_gpu_repeat(b, 5, (V[]){first, zero, zero, zero, zero});
  if (!l.stmt) return;
  kv = (Ring){l.carry[1], l.carry[2]};
  V odd = l.carry[3], parity = l.carry[4];
  ts_gpu_grad_tile(a, l.carry[0]);
  add_tile(a, slot, &odd, &parity);
  ts_gpu_arrive(b, a->seen, ts_gpu_grad_slot(a, &kv));
  ts_gpu_grad_next_tile(a, &kv);
  V next = ts_gpu_grad_receive(a, &kv);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, kv.slot, kv.parity, odd, parity});
  b->at = before;
}

/* ---- the kernel */
static int legal(const TsGpuAttentionGrad *x, TsError *err) {
  bool narrow = x->dtype == TS_DT_bf16 || x->dtype == TS_DT_f16;
  bool fits = narrow && (x->d == 64 || x->d == 128) && x->rows == PANEL && x->stages > 1 &&
              x->stages < 5 && x->window >= 0 && (x->causal || !x->window) && x->scale > 0 &&
              !(x->overlap && x->d != PANEL);
  if (fits) return 0;
  return ts_error_set(err, TS_ERR_argument,
                      "no gradients of attention of %s with heads of %d by %d queries",
                      ts_dtype_name(x->dtype), x->d, x->rows);
}

static void head(const Grad *a) {
  TsTile *k = a->b.k;
  k->form = TS_FORM_explicit;
  k->target = ts_target_with(TS_UNIT_roles)->name;
  k->ntile = 3;
  k->tile[0] = a->x.rows, k->tile[1] = KEYS, k->tile[2] = a->x.d;
  k->stages = a->x.stages;
  k->threads = 32 * (WARPS + LOADS + 1 + (3 - LOADS));
}

static void body(Grad *a) {
  TsTileBuild *b = &a->b;
  ts_gpu_grad_sizes(a);
  TsTileLoop grid = ts_tile_for(b, number(a, 0), a->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  a->block = grid.i;
  memory(a);
  load_role(a);
  for (int i = 0; i < RING; i++) add_role(a, i);
  ts_gpu_grad_mma(a);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_attention_grad(const TsGpuAttentionGrad *x, TsError *err) {
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("attention_grad");
  if (!k) return ts_error_memory(err), NULL;
  Grad a = {.x = *x, .b = ts_tile_build(k)};
  params(&a);
  head(&a);
  if (!k->failed) body(&a);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}

TsGpuAttentionGrad ts_gpu_attention_grad(TsDtype dtype, int d, bool causal, int64_t window) {
  TsGpuAttentionGrad x = {.dtype = dtype, .d = d, .causal = causal, .window = window};
  x.scale = 1 / sqrt(d);
  x.rows = 64;
  x.stages = d == 64 ? 3 : 2;
  x.overlap = x.held = d == 64;
  return x;
}

/* As many as fill the device with few tiles of each, which wait for one another; fewer where
 * what they read again and again would leave the second cache: of each some query heads. Of
 * short ones more: tiles of a head that begin together begin one behind the other, which takes
 * as long as some steps, and short heads have few of them. */
int64_t ts_gpu_attention_grad_heads(const TsGpuAttentionGrad *x, int64_t j, int64_t s) {
  enum { FEW = 8, MANY = 16, SHORT = 4 << 20 };
  int64_t bytes = s * x->d * 4, fit = bytes ? 67200000 / bytes : j;
  int64_t many = bytes && SHORT / (bytes / 4) > MANY ? SHORT / (bytes / 4) : MANY;
  if (fit < FEW) fit = FEW;
  if (fit > many) fit = many;
  return fit > j ? j : fit;
}

int64_t ts_gpu_attention_grad_tiles(const TsGpuAttentionGrad *x, int64_t j, int64_t t) {
  int64_t keys = x->warps ? x->own : KEYS;
  return j * ((t + keys - 1) / keys);
}

int64_t ts_gpu_attention_grad_blocks(const TsGpuAttentionGrad *x, int64_t n, int64_t s) {
  int64_t own = x->warps ? x->own : x->rows;
  return n * ((s + own - 1) / own) * (own / x->rows);
}
