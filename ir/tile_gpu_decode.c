/* The explicit form of attention of few queries: see ir/tile_gpu_decode.h.
 *
 * A block has three roles. `load` is one thread that claims parts (chunks of one key head) and
 * keeps two rings full, of keys and of values; query rows have two slots, so that it is a whole
 * part ahead. `mma` are four warps with 64 rows, of which the queries are the first ones: the
 * matrix unit has time, since a block of keys takes three times as long to come as to multiply.
 * A chunk's sums, not yet divided, go to scratch with the exponent they are relative to and the
 * sum of the probabilities. How many chunks a part has changes no bit: few where blocks would
 * have nothing to do, many where they are busy all the same. The scores of a chunk's first
 * block are multiplied beside the last values of the chunk before, so that a part goes on as if
 * it were one chunk; what a chunk has of its own begins anew.
 *
 * `join` counts the parts of each head. The block that brings the last one reads all chunks, in
 * order, and writes the result: no second kernel, and no block waits for another. What it reads
 * is seen by it because those who wrote counted behind a fence. */
#include "ir/tile_gpu_decode.h"

#include <math.h>

#include "ir/tile_gpu_build.h"

enum { PATTERN = 128, KEYS = TS_GPU_DECODE_KEYS, ROWS = TS_GPU_DECODE_ROWS, WARPS = 4 };
enum { AHEAD = 2 /* slots of queries */, DONE = AHEAD + 1 /* parts that may be unread */ };
enum { SUM, LARGER };

typedef TsTileVal V;

typedef struct Decode {
  TsGpuDecode x;
  TsTileBuild b;
  V q, k, v, mask, sink, y;      /* parameters */
  V j, e, t, c, n, h, p;         /* sizes */
  V blocks, from, chunks, total; /* blocks of keys; the first chunk, how many; all parts */
  V parts;                       /* of a head */
  V block;                       /* the number of this one */
  V part, exponent, sum;         /* scratch: [room,rows,D], [room,rows] twice */
  V counter, heads;              /* of parts claimed, and done by head */
  V sq, sk, sv, box;             /* memory of the block */
  V full_q, empty_q, full_k, empty_k, full_v, empty_v, done;
  V head, first, count; /* of this part: its head, its blocks of keys */
} Decode;

typedef struct Ring {
  V slot, parity;
} Ring;

/* Of fragments f32[ROWS,D], [ROWS], [ROWS,4]. */
typedef struct State {
  V o, m, l;
} State;

static V number(Decode *a, int64_t i) { return ts_tile_index(&a->b, i); }
static V op2(Decode *a, int op, V x, V y) { return ts_tile_op2(&a->b, op, x, y); }
static V by(Decode *a, int op, V x, int64_t y) { return ts_gpu_by(&a->b, op, x, y); }
static V fma3(Decode *a, V x, V y, V z) { return ts_tile_op3(&a->b, TS_OP_fma, x, y, z); }

static V constant(Decode *a, double v, V like) {
  return like ? ts_gpu_all(&a->b, v, &like->type) : NULL;
}

/* ---- parameters, sizes, memory */
static V matrix(Decode *a, const char *name, int64_t n, int64_t rows, bool written) {
  TsTileType t = ts_tile_type(a->x.dtype, 3, (int64_t[]){n, rows, a->x.d});
  return ts_tile_param(a->b.k, name, &t, written);
}

static void params(Decode *a) {
  static const char *const names[] = {"J", "E", "T", "C", "N", "H", "P"};
  TsTile *k = a->b.k;
  int64_t size[7];
  for (int i = 0; i < 7; i++) size[i] = ts_tile_size(k, names[i]);
  a->q = matrix(a, "q", size[0], size[1], false);
  a->k = matrix(a, "k", size[0], size[2], false);
  a->v = matrix(a, "v", size[0], size[2], false);
  TsTileType line = ts_tile_vector(TS_DT_f32, size[5]);
  if (a->x.mask.some) a->mask = ts_gpu_mask_param(k, &a->x.mask, a->x.dtype);
  if (a->x.sink) a->sink = ts_tile_param(k, "sink", &line, false);
  a->y = matrix(a, "y", size[0], size[1], true);
}

/* The block of keys that the first query sees first. */
static V lowest_block(Decode *a) {
  if (!a->x.window) return number(a, 0);
  V low = by(a, TS_OP_sub, a->t, a->x.queries + a->x.window - 1);
  return by(a, TS_OP_floordiv, by(a, TS_OP_maximum, low, 0), KEYS);
}

static void sizes(Decode *a) {
  static const char *const names[] = {"j", "e", "t", "c", "n", "h", "p"};
  V *to[] = {&a->j, &a->e, &a->t, &a->c, &a->n, &a->h, &a->p};
  for (int i = 0; i < 7; i++) *to[i] = ts_gpu_size(&a->b, i, names[i]);
  a->blocks = ts_gpu_named(ts_gpu_div_up(&a->b, a->t, KEYS), "blocks");
  a->from = ts_gpu_named(op2(a, TS_OP_floordiv, lowest_block(a), a->c), "from");
  V end = op2(a, TS_OP_floordiv, by(a, TS_OP_sub, op2(a, TS_OP_add, a->blocks, a->c), 1), a->c);
  a->chunks = ts_gpu_named(op2(a, TS_OP_sub, end, a->from), "chunks");
  end = by(a, TS_OP_sub, op2(a, TS_OP_add, a->chunks, a->n), 1);
  a->parts = ts_gpu_named(op2(a, TS_OP_floordiv, end, a->n), "parts");
  a->total = ts_gpu_named(op2(a, TS_OP_mul, a->parts, a->j), "total");
}

static V scratch(Decode *a, const char *name, TsDtype d, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(d, rank, dim);
  return ts_gpu_named(ts_tile_alloc(&a->b, TS_SPACE_scratch, &t), name);
}

static void device_memory(Decode *a) {
  int64_t dim[3] = {a->x.room, a->x.rows, a->x.d}, one = 1;
  a->part = scratch(a, "part", TS_DT_f32, 3, dim);
  a->exponent = scratch(a, "exponent", TS_DT_f32, 2, dim);
  a->sum = scratch(a, "sum", TS_DT_f32, 2, dim);
  a->heads = scratch(a, "heads", TS_DT_i32, 1, dim);
  a->counter = scratch(a, "counter", TS_DT_i32, 1, &one);
}

static V stages(Decode *a, const char *name, int n, int64_t rows) {
  int64_t dim[3] = {n, rows, a->x.d};
  return ts_gpu_shared(&a->b, name, a->x.dtype, 3, dim, PATTERN);
}

/* The queries' slot is left by both roles that read it. */
static void block_memory(Decode *a) {
  TsTileBuild *b = &a->b;
  int n = a->x.stages;
  a->sq = stages(a, "sq", AHEAD, ROWS);
  a->sk = stages(a, "sk", n, KEYS);
  a->sv = stages(a, "sv", n, KEYS);
  a->box = ts_gpu_shared(b, "box", TS_DT_i64, 1, (int64_t[]){AHEAD}, 0);
  a->full_q = ts_gpu_barriers(b, "full_q", AHEAD, 1);
  a->empty_q = ts_gpu_barriers(b, "empty_q", AHEAD, 2);
  a->full_k = ts_gpu_barriers(b, "full_k", n, 1);
  a->empty_k = ts_gpu_barriers(b, "empty_k", n, 1);
  a->full_v = ts_gpu_barriers(b, "full_v", n, 1);
  a->empty_v = ts_gpu_barriers(b, "empty_v", n, 1);
  a->done = ts_gpu_barriers(b, "done", DONE, 1);
}

/* ---- parts */
static void part_of(Decode *a, V n) {
  a->head = ts_gpu_named(op2(a, TS_OP_floordiv, n, a->parts), "head");
  V in = op2(a, TS_OP_sub, n, op2(a, TS_OP_mul, a->head, a->parts));
  V blocks = op2(a, TS_OP_mul, a->n, a->c), begin = op2(a, TS_OP_mul, a->from, a->c);
  begin = op2(a, TS_OP_add, begin, op2(a, TS_OP_mul, in, blocks));
  V end = op2(a, TS_OP_minimum, op2(a, TS_OP_add, begin, blocks), a->blocks);
  a->first = begin;
  if (a->x.window) a->first = op2(a, TS_OP_maximum, begin, lowest_block(a));
  a->count = ts_gpu_named(op2(a, TS_OP_sub, end, a->first), "count");
}

static void advance(Decode *a, Ring *r, int n) {
  ts_gpu_advance(&a->b, &r->slot, &r->parity, n);
}

static V keys_at(Decode *a, V i) {
  return by(a, TS_OP_mul, op2(a, TS_OP_add, a->first, i), KEYS);
}

/* ---- role load */
static void expect(Decode *a, V barrier, V slot, V memory) {
  if (!memory) return;
  ts_gpu_say(&a->b, TS_TILE_expect, TS_GPU_IN(barrier, slot),
             TS_GPU_SET({"bytes", ts_gpu_whole(ts_gpu_slot_bytes(memory))}), NULL);
  ts_gpu_arrive(&a->b, barrier, slot);
}

static void fetch(Decode *a, V to, V from, V full, V empty, Ring *r, V row) {
  ts_gpu_await(&a->b, empty, r->slot, r->parity);
  expect(a, full, r->slot, to);
  ts_gpu_fetch(&a->b, to, from, full, r->slot, NULL, a->head, row);
  advance(a, r, a->x.stages);
}

static void fetch_keys(Decode *a, Ring *r, V i) {
  fetch(a, a->sk, a->k, a->full_k, a->empty_k, r, keys_at(a, i));
}

static void fetch_values(Decode *a, Ring *r, V i) {
  fetch(a, a->sv, a->v, a->full_v, a->empty_v, r, keys_at(a, i));
}

static void post(Decode *a, V slot, V n) { ts_tile_store(&a->b, a->box, (V[]){slot}, n, NULL); }

/* Queries, then keys one block ahead of the values. */
static void fetch_part(Decode *a, V n, const Ring *q, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V out[4];
  ts_gpu_await(b, a->empty_q, q->slot, q->parity);
  post(a, q->slot, n);
  expect(a, a->full_q, q->slot, a->sq);
  ts_gpu_fetch(b, a->sq, a->q, a->full_q, q->slot, NULL, a->head, number(a, 0));
  fetch_keys(a, k, number(a, 0));
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

static void load_role(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "load", WARPS);
  ts_gpu_registers(b, 40);
  V one = number(a, 1), zero = number(a, 0);
  TsGpuRepeat l = ts_gpu_repeat(b, 7, (V[]){a->block, zero, one, zero, one, zero, one});
  if (!l.stmt) return;
  Ring q = {l.carry[1], l.carry[2]}, k = {l.carry[3], l.carry[4]}, v = {l.carry[5], l.carry[6]};
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  part_of(a, l.carry[0]);
  V next = ts_gpu_give(b, TS_TILE_claim, TS_GPU_IN(a->counter, number(a, 0), a->total),
                       TS_GPU_PLAIN, &scalar);
  next = op2(a, TS_OP_add, next, a->p);
  fetch_part(a, l.carry[0], &q, &k, &v);
  advance(a, &q, AHEAD);
  ts_gpu_repeat_end(b, &l, op2(a, TS_OP_lt, next, a->total),
                    (V[]){next, q.slot, q.parity, k.slot, k.parity, v.slot, v.parity});
  if (b->k->failed) return;
  q = (Ring){l.stmt->out[1], l.stmt->out[2]};
  ts_gpu_await(b, a->empty_q, q.slot, q.parity);
  post(a, q.slot, number(a, -1));
  ts_gpu_arrive(b, a->full_q, q.slot);
  b->at = before;
}

/* The number of the next part, behind whose barrier the queries are too. */
static V receive(Decode *a, const Ring *q) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  ts_gpu_await(&a->b, a->full_q, q->slot, q->parity);
  return ts_tile_load(&a->b, a->box, &q->slot, &scalar, NULL);
}

/* ---- role mma: scores, and which of them are seen */
/* With a mask scores are scaled when it is added. */
static double log2_scale(const Decode *a) {
  return (a->x.mask.some ? 1 : a->x.scale) * 1.4426950408889634;
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
  V last = op2(a, TS_OP_sub, by(a, TS_OP_sub, a->t, 1), k0), row;
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
    last = spread_index(a, op2(a, TS_OP_sub, by(a, TS_OP_sub, a->t, 1), k0), at);
  }
  V seen = op2(a, TS_OP_le, col, whole(a, last, 0));
  if (!a->x.window) return seen;
  V window = spread_index(a, number(a, a->x.window), at);
  V low = whole(a, op2(a, TS_OP_sub, at, window), 0);
  return op2(a, TS_OP_logical_and, seen, op2(a, TS_OP_gt, col, low));
}

/* Whether some row does not see the whole block. */
static V is_partial(Decode *a, V k0) {
  int hidden = a->x.causal ? a->x.queries - 1 : 0;
  V end = by(a, TS_OP_sub, a->t, hidden);
  V partial = op2(a, TS_OP_gt, by(a, TS_OP_add, k0, KEYS), end);
  if (!a->x.window) return partial;
  V low = by(a, TS_OP_sub, a->t, a->x.window + 1);
  return op2(a, TS_OP_logical_or, partial, op2(a, TS_OP_le, k0, low));
}

/* One number for each key of the batch that the key head is of. */
static V with_mask(Decode *a, V x, V k0) {
  V zero = number(a, 0);
  V of = op2(a, TS_OP_floordiv, by(a, TS_OP_mul, a->h, a->x.queries), a->e);
  V batch = op2(a, TS_OP_floordiv, a->head, of);
  return ts_gpu_mask_add(&a->b, &a->x.mask, a->mask, batch, zero, zero, k0, 1, x, a->x.scale);
}

static V masked(Decode *a, V x, V i) {
  TsTileBuild *b = &a->b;
  V k0 = keys_at(a, i), partial = is_partial(a, k0);
  if (a->x.mask.some) x = with_mask(a, x, k0);
  if (!x || !partial) return NULL;
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &partial, NULL, 1, &x->type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  b->at = s->region[0];
  V y = ts_tile_op3(b, TS_OP_where, visible(a, k0), x, constant(a, -INFINITY, x));
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(y), TS_GPU_PLAIN, NULL);
  b->at = s->region[1];
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(x), TS_GPU_PLAIN, NULL);
  b->at = before;
  return s->out[0];
}

/* ---- role mma: softmax */
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

static V ex2(Decode *a, V x) {
  return x ? ts_gpu_give(&a->b, TS_TILE_ex2, TS_GPU_IN(x), TS_GPU_PLAIN, &x->type) : NULL;
}

static V larger(Decode *a, V x, V y) {
  return x ? ts_gpu_give(&a->b, TS_TILE_larger, TS_GPU_IN(x, y), TS_GPU_PLAIN, &x->type) : NULL;
}

static V spread(Decode *a, V x, V like) {
  return x && like ? ts_gpu_spread(&a->b, x, &like->type, 0) : NULL;
}

static V scaled(Decode *a, V x) { return op2(a, TS_OP_mul, x, constant(a, log2_scale(a), x)); }

static V probabilities(Decode *a, V x, V m) {
  V less = ts_tile_op1(&a->b, TS_OP_neg, scaled(a, m));
  return ex2(a, fma3(a, x, constant(a, log2_scale(a), x), spread(a, less, x)));
}

static V narrow(Decode *a, V x) { return x ? ts_tile_cast(&a->b, x, a->x.dtype) : NULL; }

/* The largest score begins at -1e30: rows that see nothing have probabilities of 0, not NaN. */
static V soften_first(Decode *a, V x, State *s) {
  V m = row(a, quarter(a, x, LARGER), LARGER);
  s->m = larger(a, m, constant(a, -1e30, m));
  V p = probabilities(a, x, s->m);
  s->l = quarter(a, p, SUM);
  return narrow(a, p);
}

/* factor: what sums so far are to be multiplied by. */
static V soften(Decode *a, V x, State *s, V *factor) {
  V m = larger(a, row(a, quarter(a, x, LARGER), LARGER), s->m);
  V p = probabilities(a, x, m);
  *factor = ex2(a, scaled(a, op2(a, TS_OP_sub, s->m, m)));
  s->l = fma3(a, s->l, spread(a, *factor, s->l), quarter(a, p, SUM));
  s->m = m;
  return p;
}

/* ---- role mma: blocks of keys */
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
  advance(a, k, a->x.stages);
  V p = soften_first(a, masked(a, x, number(a, 0)), s);
  s->o = ts_gpu_zeros(b, ROWS, a->x.d);
  return p;
}

/* Sums of the chunk that a block of the part is in to scratch. */
static void leave_chunk(Decode *a, V block, const State *s) {
  TsTileBuild *b = &a->b;
  TsTileAccess edge = {.edge = true};
  V zero = number(a, 0), l = row(a, s->l, SUM);
  V chunk = op2(a, TS_OP_floordiv, op2(a, TS_OP_add, a->first, block), a->c);
  V n = op2(a, TS_OP_sub, op2(a, TS_OP_mul, a->head, a->chunks), a->from);
  n = op2(a, TS_OP_add, n, chunk);
  if (!s->o || !l) return;
  ts_tile_store(b, a->part, (V[]){n, zero, zero}, s->o, &edge);
  ts_tile_store(b, a->exponent, (V[]){n, zero}, scaled(a, s->m), &edge);
  ts_tile_store(b, a->sum, (V[]){n, zero}, l, &edge);
}

static V if_begins(Decode *a, V begins, double x, V y) {
  if (!y || !begins) return NULL;
  TsTileType t = y->type;
  t.dtype = TS_DT_bool;
  return ts_tile_op3(&a->b, TS_OP_where, ts_tile_broadcast(&a->b, begins, &t, NULL),
                     constant(a, x, y), y);
}

/* Behind block i: the sums of a chunk that ended before it leave, others are multiplied. */
static V next_sums(Decode *a, V begins, V i, const State *past, V factor) {
  TsTileBuild *b = &a->b;
  if (!past->o || !factor) return NULL;
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &begins, NULL, 1, &past->o->type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  b->at = s->region[0];
  leave_chunk(a, by(a, TS_OP_sub, i, 1), past);
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(constant(a, 0, past->o)), TS_GPU_PLAIN, NULL);
  b->at = s->region[1];
  V o = op2(a, TS_OP_mul, past->o, spread(a, factor, past->o));
  ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(o), TS_GPU_PLAIN, NULL);
  b->at = before;
  return s->out[0];
}

/* The first block of a chunk has products under way beside those of the chunk before. */
static V next_block(Decode *a, State *s, V p, V i, const Ring *q, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V factor = NULL;
  V at = op2(a, TS_OP_mod, op2(a, TS_OP_add, a->first, i), a->c);
  V begins = by(a, TS_OP_eq, at, 0);
  ts_gpu_await(b, a->full_k, k->slot, k->parity);
  V x = scores(a, q, k);
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  s->o = add_values(a, p, s->o, v);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  ts_gpu_arrive(b, a->empty_k, k->slot);
  leave_queries(a, op2(a, TS_OP_eq, by(a, TS_OP_add, i, 1), a->count), q);
  State past = *s;
  s->m = if_begins(a, begins, -1e30, s->m), s->l = if_begins(a, begins, 0, s->l);
  p = soften(a, masked(a, x, i), s, &factor);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  s->o = next_sums(a, begins, i, &past, factor);
  advance(a, k, a->x.stages), advance(a, v, a->x.stages);
  return narrow(a, p); /* behind the products that still read the last ones' registers */
}

/* Of the part; one arrival for all threads behind its last sums. */
static void all_blocks(Decode *a, const Ring *q, Ring *k, Ring *v, Ring *done) {
  TsTileBuild *b = &a->b;
  State s = {0};
  V p = first_block(a, &s, q, k), out[8];
  V first[8] = {s.o, s.m, s.l, p, k->slot, k->parity, v->slot, v->parity};
  TsTileLoop l = ts_tile_for(b, number(a, 1), a->count, 1, false, 8, first);
  if (!l.stmt) return;
  s = (State){l.carry[0], l.carry[1], l.carry[2]};
  *k = (Ring){l.carry[4], l.carry[5]}, *v = (Ring){l.carry[6], l.carry[7]};
  p = next_block(a, &s, l.carry[3], l.i, q, k, v);
  ts_tile_for_end(b, &l, (V[]){s.o, s.m, s.l, p, k->slot, k->parity, v->slot, v->parity}, out);
  s = (State){out[0], out[1], out[2]};
  *k = (Ring){out[4], out[5]}, *v = (Ring){out[6], out[7]};
  ts_gpu_await(b, a->full_v, v->slot, v->parity);
  s.o = add_values(a, out[3], s.o, v);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, a->empty_v, v->slot);
  advance(a, v, a->x.stages);
  leave_chunk(a, by(a, TS_OP_sub, a->count, 1), &s);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_arrive(b, a->done, done->slot);
  advance(a, done, DONE);
}

static void mma_role(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "mma", WARPS);
  ts_gpu_registers(b, 232);
  V zero = number(a, 0);
  Ring q = {zero, zero}, k, v, done;
  V first[8] = {receive(a, &q), zero, zero, zero, zero, zero, zero, zero};
  TsGpuRepeat l = ts_gpu_repeat(b, 8, first);
  if (!l.stmt) return;
  V n = l.carry[0];
  q = (Ring){l.carry[1], l.carry[2]}, k = (Ring){l.carry[3], l.carry[4]};
  v = (Ring){l.carry[5], l.carry[6]}, done = (Ring){l.carry[7], zero};
  part_of(a, n);
  all_blocks(a, &q, &k, &v, &done);
  advance(a, &q, AHEAD);
  V next = receive(a, &q);
  ts_gpu_repeat_end(
      b, &l, by(a, TS_OP_ge, next, 0),
      (V[]){next, q.slot, q.parity, k.slot, k.parity, v.slot, v.parity, done.slot});
  b->at = before;
}

/* ---- role join */
enum { UNROLLED = 8 };

/* How many chunks are read together: so that all is in registers. */
static int together(const Decode *a) {
  int64_t each = (int64_t)a->x.rows * a->x.d / (32 * WARPS);
  return each * UNROLLED <= 64 ? UNROLLED : (int)(64 / each);
}

static TsTileType line(const Decode *a) { return ts_gpu_fragment(TS_DT_f32, a->x.rows, 0); }

static V line_of(Decode *a, V memory, V n) {
  TsTileType t = line(a);
  return ts_tile_load(&a->b, memory, (V[]){n, number(a, 0)}, &t, NULL);
}

/* Chunk i of the head; behind the last one that one again. */
static V chunk_at(Decode *a, V base, V i) {
  V last = by(a, TS_OP_sub, a->chunks, 1);
  return op2(a, TS_OP_add, base, op2(a, TS_OP_minimum, i, last));
}

static V sink_of(Decode *a, V head) {
  TsTileType t = line(a);
  TsTileAccess edge = {.edge = true};
  V at = op2(a, TS_OP_mod, op2(a, TS_OP_mul, head, a->e), a->h);
  V x = ts_tile_load(&a->b, a->sink, &at, &t, &edge);
  return op2(a, TS_OP_mul, x, constant(a, 1.4426950408889634, x));
}

/* The largest exponent of the head's chunks, or `least`. */
static V most_of(Decode *a, V base, V least) {
  TsTileLoop l = ts_tile_for(&a->b, number(a, 0), a->chunks, together(a), false, 1, &least);
  V out;
  if (!l.stmt) return NULL;
  V u[UNROLLED], m = l.carry[0];
  for (int i = 0; i < together(a); i++)
    u[i] = line_of(a, a->exponent, chunk_at(a, base, by(a, TS_OP_add, l.i, i)));
  for (int i = 0; i < together(a); i++) m = larger(a, m, u[i]);
  ts_tile_for_end(&a->b, &l, &m, &out);
  return out;
}

typedef struct Joined {
  V o, l;
} Joined;

/* One chunk more, if there is such a chunk. */
static void join_one(Decode *a, Joined *s, V is, V most, V u, V l, V x) {
  TsTileBuild *b = &a->b;
  V f = ex2(a, op2(a, TS_OP_sub, u, most));
  V sum = fma3(a, l, f, s->l), o = fma3(a, x, spread(a, f, x), s->o);
  if (!sum || !o) return;
  s->l = ts_tile_op3(b, TS_OP_where, ts_tile_broadcast(b, is, &sum->type, NULL), sum, s->l);
  s->o = ts_tile_op3(b, TS_OP_where, ts_tile_broadcast(b, is, &o->type, NULL), o, s->o);
}

/* Chunks in order, several loads under way. */
static Joined join_chunks(Decode *a, V base, V most, Joined s) {
  TsTileBuild *b = &a->b;
  V first[2] = {s.o, s.l}, out[2], u[UNROLLED], l[UNROLLED], x[UNROLLED];
  int n = together(a);
  TsTileLoop loop = ts_tile_for(b, number(a, 0), a->chunks, n, false, 2, first);
  if (!loop.stmt) return s;
  TsTileType t = ts_gpu_fragment(TS_DT_f32, a->x.rows, a->x.d);
  s = (Joined){loop.carry[0], loop.carry[1]};
  for (int i = 0; i < n; i++) {
    V at = chunk_at(a, base, by(a, TS_OP_add, loop.i, i)), zero = number(a, 0);
    u[i] = line_of(a, a->exponent, at), l[i] = line_of(a, a->sum, at);
    x[i] = ts_tile_load(b, a->part, (V[]){at, zero, zero}, &t, NULL);
  }
  for (int i = 0; i < n; i++) {
    V is = op2(a, TS_OP_lt, by(a, TS_OP_add, loop.i, i), a->chunks);
    join_one(a, &s, is, most, u[i], l[i], x[i]);
  }
  ts_tile_for_end(b, &loop, (V[]){s.o, s.l}, out);
  return (Joined){out[0], out[1]};
}

static void join(Decode *a, V head) {
  TsTileBuild *b = &a->b;
  TsTileAccess edge = {.edge = true};
  TsTileType t = line(a), whole_type = ts_gpu_fragment(TS_DT_f32, a->x.rows, a->x.d);
  V base = op2(a, TS_OP_mul, head, a->chunks), zero = number(a, 0);
  V sink = a->x.sink ? sink_of(a, head) : NULL;
  V most = most_of(a, base, a->x.sink ? sink : ts_tile_const(b, -INFINITY, &t));
  Joined s = {ts_tile_const(b, 0, &whole_type), ts_tile_const(b, 0, &t)};
  if (a->x.sink) s.l = ex2(a, op2(a, TS_OP_sub, sink, most));
  s = join_chunks(a, base, most, s);
  V none = constant(a, 0, s.l), one = constant(a, 1, s.l);
  V factor = ts_tile_op3(b, TS_OP_where, op2(a, TS_OP_eq, s.l, none), none,
                         op2(a, TS_OP_div, one, s.l));
  V y = narrow(a, op2(a, TS_OP_mul, s.o, spread(a, factor, s.o)));
  if (y) ts_tile_store(b, a->y, (V[]){head, zero, zero}, y, &edge);
}

static void device_fence(Decode *a) {
  ts_gpu_say(&a->b, TS_TILE_fence, TS_GPU_PLAIN, TS_GPU_SET({"scope", ts_gpu_choice(1)}), NULL);
}

/* Counts a part; whether it was the last one of its head. */
static V is_last(Decode *a, V head) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  device_fence(a);
  V before = ts_gpu_give(&a->b, TS_TILE_claim, TS_GPU_IN(a->heads, head, a->parts),
                         TS_GPU_PLAIN, &scalar);
  device_fence(a);
  return op2(a, TS_OP_eq, before, by(a, TS_OP_sub, a->parts, 1));
}

static void join_role(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role_with_lanes(b, "join", WARPS);
  ts_gpu_registers(b, 232);
  V zero = number(a, 0);
  Ring q = {zero, zero}, done;
  TsGpuRepeat l = ts_gpu_repeat(b, 5, (V[]){receive(a, &q), zero, zero, zero, zero});
  if (!l.stmt) return;
  q = (Ring){l.carry[1], l.carry[2]}, done = (Ring){l.carry[3], l.carry[4]};
  ts_gpu_plain(b, TS_TILE_sync); /* all warps have read the number */
  ts_gpu_arrive(b, a->empty_q, q.slot);
  advance(a, &q, AHEAD);
  ts_gpu_await(b, a->done, done.slot, done.parity);
  advance(a, &done, DONE);
  V head = op2(a, TS_OP_floordiv, l.carry[0], a->parts);
  TsTileRegion *outside = ts_gpu_when(b, is_last(a, head));
  join(a, head);
  b->at = outside;
  V next = receive(a, &q);
  ts_gpu_repeat_end(b, &l, by(a, TS_OP_ge, next, 0),
                    (V[]){next, q.slot, q.parity, done.slot, done.parity});
  b->at = before;
}

/* ---- the kernel */
static int legal(const TsGpuDecode *x, TsError *err) {
  bool half = x->dtype == TS_DT_bf16 || x->dtype == TS_DT_f16;
  bool rows = x->rows == 8 || x->rows == 16 || x->rows == 32 || x->rows == 64;
  if (half && rows && (x->d == 64 || x->d == 128) && x->queries > 0 && x->queries <= x->rows &&
      x->stages > 1 && x->stages < 9 && x->window >= 0 && x->scale > 0 && x->room > 0 &&
      (!x->sink || x->queries == 1) &&
      (!x->mask.some || (x->mask.dim[1] == 1 && x->mask.dim[2] == 1)))
    return 0;
  return ts_error_set(err, TS_ERR_argument, "no attention of %s with %d rows of %d",
                      ts_dtype_name(x->dtype), x->rows, x->d);
}

static void body(Decode *a) {
  TsTileBuild *b = &a->b;
  sizes(a);
  device_memory(a);
  TsTileLoop grid = ts_tile_for(b, number(a, 0), a->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  a->block = grid.i;
  block_memory(a);
  load_role(a);
  mma_role(a);
  join_role(a);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_decode(const TsGpuDecode *x, TsError *err) {
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("decode");
  if (!k) return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
  Decode a = {.x = *x, .b = ts_tile_build(k)};
  params(&a);
  k->form = TS_FORM_explicit;
  k->target = "sm_90a";
  k->ntile = 3;
  k->tile[0] = ROWS, k->tile[1] = KEYS, k->tile[2] = x->d;
  k->stages = x->stages;
  k->threads = 32 * 3 * WARPS;
  if (!k->failed) body(&a);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
}

/* Scratch for a power of two of chunks, so that a few more keys need no other kernel. */
TsGpuDecode ts_gpu_decode(TsDtype dtype, int d, int rows, int64_t chunks) {
  TsGpuDecode x = {.dtype = dtype, .d = d, .queries = 1, .rows = 8, .scale = 1 / sqrt(d)};
  while (x.rows < rows) x.rows *= 2;
  x.stages = d == 64 ? 6 : 3;
  for (x.room = 64; x.room < chunks;) x.room *= 2;
  return x;
}

/* A sixteenth of the keys, so that few heads still keep all blocks busy; not so short that
 * chunks would be much of what moves. */
int64_t ts_gpu_decode_chunk(int64_t t) {
  int64_t c = 4;
  while (c < 32 && c * KEYS * 16 < t) c *= 2;
  return c;
}

static int64_t chunks_of_head(const TsGpuDecode *x, int64_t t, int64_t chunk) {
  int64_t blocks = (t + KEYS - 1) / KEYS, low = t - x->queries - x->window + 1;
  if (!x->window || low < 0) low = 0;
  return (blocks + chunk - 1) / chunk - low / KEYS / chunk;
}

int64_t ts_gpu_decode_chunks(const TsGpuDecode *x, int64_t j, int64_t t, int64_t chunk) {
  return j * chunks_of_head(x, t, chunk);
}

int64_t ts_gpu_decode_parts(const TsGpuDecode *x, int64_t j, int64_t t, int64_t chunk,
                            int64_t n) {
  return j * ((chunks_of_head(x, t, chunk) + n - 1) / n);
}

/* As many as leave the blocks equally much to do: where chunks of a part meet, the matrix unit
 * goes on; where parts do, it waits. */
int64_t ts_gpu_decode_together(const TsGpuDecode *x, int64_t j, int64_t t, int64_t chunk,
                               int64_t blocks) {
  enum { LONGEST = 32 /* blocks of keys */ };
  int64_t best = 1;
  for (int64_t n = 2; n * chunk <= LONGEST; n *= 2) {
    int64_t parts = ts_gpu_decode_parts(x, j, t, chunk, n);
    int64_t rounds = (parts + blocks - 1) / blocks;
    if (100 * parts >= 95 * rounds * blocks) best = n;
  }
  return best;
}
