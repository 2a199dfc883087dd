/* The explicit form of attention of few queries: see ir/tile/gpu/decode.h.
 *
 * A block has three roles. `load` is one thread that claims parts (chunks of one key head) and
 * keeps two rings full, of keys and of values, which the second cache does not keep. The rings
 * are short: more bytes under way than the memory needs make it slower. `mma` are four warps
 * with 64 rows, of which the queries are the first ones: the matrix unit has time, since a
 * block of keys takes longer to come than to multiply. A chunk's sums, not yet divided, go to
 * scratch with the exponent they are relative to and the sum of the probabilities. The scores
 * of a chunk's first block are multiplied beside the last values of the chunk before, so that a
 * part goes on as if it were one chunk; what a chunk has of its own begins anew.
 *
 * Chunks are joined one after the other, from the head's first one on. So the first part of a
 * head can be long without changing a bit: `join` reads its chunks as they come, from a few
 * places that stay in the second cache, and leaves one sum of all. Of other parts each chunk
 * leaves its own. Long parts come first; short ones behind them keep all blocks busy to the
 * end.
 *
 * `join` also counts the parts of each head. The block that brings the last one reads what they
 * left, in order, and writes the result: no second kernel, and no block waits for another. What
 * it reads is seen by it because those who wrote released it when they counted. */
#include "ir/tile/gpu/decode.h"

#include "ir/tile/gpu/decode_state.h"

enum { PATTERN = 128, KEYS = TS_GPU_DECODE_KEYS, ROWS = TS_GPU_DECODE_ROWS };
enum { WARPS = TS_GPU_DECODE_WARPS, SLOTS = TS_GPU_DECODE_SLOTS };

typedef TsTileVal V;
typedef TsGpuDecoding Decode;
typedef TsGpuDecodeRing Ring;

/* ---- parameters, sizes, memory */
static V matrix(Decode *a, const char *name, int64_t n, int64_t rows, bool written) {
  TsTileType t = ts_tile_type(a->x.dtype, 3, (int64_t[]){n, rows, a->x.d});
  return ts_tile_param(a->b.k, name, &t, written);
}

static void params(Decode *a) {
  static const char *const names[] = {"J", "E", "T", "C", "N", "L", "H"};
  TsTile *k = a->b.k;
  int64_t size[7], batches = 0;
  for (int i = 0; i < 7; i++) size[i] = ts_tile_size(k, names[i]);
  if (a->x.last) batches = ts_tile_size(k, "B");
  ts_tile_size(k, "P"); /* the last one: of the grid */
  const TsGpuPages *p = &a->x.pages;
  int64_t heads = p->size ? p->heads : size[0], rows = p->size ? p->rows : size[2];
  a->q = matrix(a, "q", size[0], size[1], false);
  a->k = matrix(a, "k", heads, rows, false);
  a->v = matrix(a, "v", heads, rows, false);
  if (p->size) {
    TsTileType t = ts_tile_type(TS_DT_i64, 2, (int64_t[]){batches, p->count});
    a->table = ts_tile_param(k, "table", &t, false);
  }
  TsTileType line = ts_tile_vector(TS_DT_f32, size[6]);
  if (a->x.mask.some) a->mask = ts_gpu_mask_param(k, &a->x.mask, a->x.dtype);
  if (a->x.last) {
    TsTileType t = ts_tile_vector(TS_DT_i64, batches);
    a->last = ts_tile_param(k, "last", &t, false);
  }
  if (a->x.sink) a->sink = ts_tile_param(k, "sink", &line, false);
  a->y = matrix(a, "y", size[0], size[1], true);
}

/* The block of keys that the first query sees first. */
static V lowest_block(Decode *a) {
  if (!a->x.window || a->x.last) return number(a, 0);
  V low = by(a, TS_OP_sub, a->t, a->x.queries + a->x.window - 1);
  return by(a, TS_OP_floordiv, by(a, TS_OP_maximum, low, 0), KEYS);
}

static void sizes(Decode *a) {
  static const char *const names[] = {"j", "e", "t", "c", "n", "l", "h", "p"};
  V *to[] = {&a->j, &a->e, &a->t, &a->c, &a->n, &a->l, &a->h, &a->p};
  for (int i = 0; i < 8; i++) *to[i] = ts_gpu_size(&a->b, i + (i == 7 && a->x.last), names[i]);
  a->blocks = ts_gpu_named(ts_gpu_div_up(&a->b, a->t, KEYS), "blocks");
  a->from = ts_gpu_named(op2(a, TS_OP_floordiv, lowest_block(a), a->c), "from");
  V end = op2(a, TS_OP_floordiv, by(a, TS_OP_sub, op2(a, TS_OP_add, a->blocks, a->c), 1), a->c);
  a->chunks = ts_gpu_named(op2(a, TS_OP_sub, end, a->from), "chunks");
  V rest = op2(a, TS_OP_sub, a->chunks, op2(a, TS_OP_mul, a->l, a->n));
  a->shorts = ts_gpu_named(by(a, TS_OP_maximum, rest, 0), "shorts");
  a->splits = ts_gpu_named(op2(a, TS_OP_add, a->l, a->shorts), "splits");
  a->total = ts_gpu_named(op2(a, TS_OP_mul, a->splits, a->j), "total");
}

static V scratch(Decode *a, const char *name, TsDtype d, int rank, const int64_t *dim) {
  TsTileType t = ts_tile_type(d, rank, dim);
  return ts_gpu_named(ts_tile_alloc(&a->b, TS_SPACE_scratch, &t), name);
}

static void device_memory(Decode *a) {
  int64_t own = TS_GPU_DECODE_BLOCKS * TS_GPU_DECODE_UNREAD, one = 1;
  int64_t dim[3] = {a->x.room + own, a->x.rows, a->x.d};
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
  a->sq = stages(a, "sq", SLOTS, ROWS);
  a->sk = stages(a, "sk", n, KEYS);
  a->sv = stages(a, "sv", n, KEYS);
  a->box = ts_gpu_shared(b, "box", TS_DT_i64, 1, (int64_t[]){SLOTS}, 0);
  a->full_q = ts_gpu_barriers(b, "full_q", SLOTS, 1);
  a->empty_q = ts_gpu_barriers(b, "empty_q", SLOTS, 2);
  a->full_k = ts_gpu_barriers(b, "full_k", n, 1);
  a->empty_k = ts_gpu_barriers(b, "empty_k", n, 1);
  a->full_v = ts_gpu_barriers(b, "full_v", n, 1);
  a->empty_v = ts_gpu_barriers(b, "empty_v", n, 1);
  a->done = ts_gpu_barriers(b, "done", TS_GPU_DECODE_UNREAD, 1);
  a->read = ts_gpu_barriers(b, "read", TS_GPU_DECODE_UNREAD, 1);
}

/* ---- parts */
void ts_gpu_decode_split_of(Decode *a, V n) {
  V longs = op2(a, TS_OP_mul, a->j, a->l), zero = number(a, 0);
  V is_long = op2(a, TS_OP_lt, n, longs);
  V each = ts_gpu_decode_choose(a, is_long, a->l, a->shorts);
  n = op2(a, TS_OP_sub, n, ts_gpu_decode_choose(a, is_long, zero, longs));
  a->head = ts_gpu_named(op2(a, TS_OP_floordiv, n, each), "head");
  V in = op2(a, TS_OP_sub, n, op2(a, TS_OP_mul, a->head, each));
  V is_first = op2(a, TS_OP_logical_and, is_long, by(a, TS_OP_eq, in, 0));
  a->folded = op2(a, TS_OP_logical_and, is_first, by(a, TS_OP_gt, a->n, 1));
  V length = ts_gpu_decode_choose(a, is_long, a->n, number(a, 1));
  V chunk = op2(a, TS_OP_add, a->from, op2(a, TS_OP_mul, in, length));
  V behind = ts_gpu_decode_choose(a, is_long, zero, op2(a, TS_OP_mul, a->l, a->n));
  V begin = op2(a, TS_OP_mul, op2(a, TS_OP_add, chunk, behind), a->c);
  V end = op2(a, TS_OP_add, begin, op2(a, TS_OP_mul, length, a->c));
  end = op2(a, TS_OP_minimum, end, a->blocks);
  a->first = begin;
  if (a->x.window) a->first = op2(a, TS_OP_maximum, begin, lowest_block(a));
  a->count = ts_gpu_named(op2(a, TS_OP_sub, end, a->first), "count");
}

V ts_gpu_decode_own_place(Decode *a, V slot) {
  V n = op2(a, TS_OP_add, by(a, TS_OP_mul, a->block, TS_GPU_DECODE_UNREAD), slot);
  return by(a, TS_OP_add, n, a->x.room);
}

/* ---- role load */
static void fetch(Decode *a, V to, V from, V full, V empty, Ring *r, V row) {
  ts_gpu_await(&a->b, empty, r->slot, r->parity);
  ts_gpu_expect(&a->b, full, r->slot, to);
  ts_gpu_fetch_once(&a->b, to, from, full, r->slot, a->head, row);
  ts_gpu_decode_advance(a, r, a->x.stages);
}

/* A block of keys or of values. */
static void fetch_block(Decode *a, V to, V from, V full, V empty, Ring *r, V i) {
  if (a->x.pages.size) {
    ts_gpu_decode_fetch_pages(a, to, from, full, empty, r, i);
    ts_gpu_decode_advance(a, r, a->x.stages);
    return;
  }
  fetch(a, to, from, full, empty, r, ts_gpu_decode_keys_at(a, i));
}

static void fetch_keys(Decode *a, Ring *r, V i) {
  fetch_block(a, a->sk, a->k, a->full_k, a->empty_k, r, i);
}

static void fetch_values(Decode *a, Ring *r, V i) {
  fetch_block(a, a->sv, a->v, a->full_v, a->empty_v, r, i);
}

static void post(Decode *a, V slot, V n) { ts_tile_store(&a->b, a->box, (V[]){slot}, n, NULL); }

static V next_split(Decode *a) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  V n = ts_gpu_give(&a->b, TS_TILE_claim, TS_GPU_IN(a->counter, number(a, 0), a->total),
                    TS_GPU_PLAIN, &scalar);
  return op2(a, TS_OP_add, n, a->p);
}

/* The last values, and the next part, which is claimed as late as hides how long that takes: who
 * is behind claims no more. The first part, that nobody claims, is asked for before the launch in
 * front of this one is over, whose claims go first. */
static V claim_beside_last(Decode *a, V n, Ring *v) {
  TsTileBuild *b = &a->b;
  V last = by(a, TS_OP_sub, a->count, 1), is_first = op2(a, TS_OP_lt, n, a->p);
  TsTileType type[3] = {n->type, v->slot->type, v->parity->type};
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_if, 1, &is_first, NULL, 3, type);
  if (!s) return NULL;
  TsTileRegion *before = b->at;
  for (int early = 0; early < 2; early++) {
    Ring r = *v;
    V next = NULL;
    b->at = s->region[early];
    if (early) next = next_split(a);
    fetch_values(a, &r, last);
    if (!early) ts_gpu_plain(b, TS_TILE_await_launch);
    if (!early) next = next_split(a);
    ts_gpu_say(b, TS_TILE_yield, TS_GPU_IN(next, r.slot, r.parity), TS_GPU_PLAIN, NULL);
  }
  b->at = before;
  *v = (Ring){s->out[1], s->out[2]};
  return s->out[0];
}

/* Queries, then keys one block ahead of the values. Gives the next part. */
static V fetch_split(Decode *a, V n, const Ring *q, Ring *k, Ring *v) {
  TsTileBuild *b = &a->b;
  V out[4];
  ts_gpu_await(b, a->empty_q, q->slot, q->parity);
  post(a, q->slot, n);
  ts_gpu_expect(b, a->full_q, q->slot, a->sq);
  ts_gpu_fetch(b, a->sq, a->q, a->full_q, q->slot, NULL, a->head, number(a, 0));
  fetch_keys(a, k, number(a, 0));
  V first[4] = {k->slot, k->parity, v->slot, v->parity};
  TsTileLoop l = ts_tile_for(b, number(a, 1), a->count, 1, false, 4, first);
  if (!l.stmt) return NULL;
  *k = (Ring){l.carry[0], l.carry[1]}, *v = (Ring){l.carry[2], l.carry[3]};
  fetch_keys(a, k, l.i);
  fetch_values(a, v, by(a, TS_OP_sub, l.i, 1));
  ts_tile_for_end(b, &l, (V[]){k->slot, k->parity, v->slot, v->parity}, out);
  *k = (Ring){out[0], out[1]}, *v = (Ring){out[2], out[3]};
  return claim_beside_last(a, n, v);
}

/* Rows with ends of their own are those of a step, whose queries the launch in front makes: it is
 * waited for before anything is read. */
static void load_role(Decode *a) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role(b, "load", WARPS);
  ts_gpu_registers(b, a->x.pages.size ? TS_GPU_DECODE_SPARED + 40 : 40);
  if (a->x.last) ts_gpu_plain(b, TS_TILE_await_launch);
  V one = number(a, 1), zero = number(a, 0);
  TsGpuRepeat l = ts_gpu_repeat(b, 7, (V[]){a->block, zero, one, zero, one, zero, one});
  if (!l.stmt) return;
  Ring q = {l.carry[1], l.carry[2]}, k = {l.carry[3], l.carry[4]}, v = {l.carry[5], l.carry[6]};
  ts_gpu_decode_split_of(a, l.carry[0]);
  if (a->x.pages.size) ts_gpu_decode_text_of(a);
  V next = fetch_split(a, l.carry[0], &q, &k, &v);
  ts_gpu_decode_advance(a, &q, SLOTS);
  ts_gpu_repeat_end(b, &l, op2(a, TS_OP_lt, next, a->total),
                    (V[]){next, q.slot, q.parity, k.slot, k.parity, v.slot, v.parity});
  if (b->k->failed) return;
  q = (Ring){l.stmt->out[1], l.stmt->out[2]};
  ts_gpu_await(b, a->empty_q, q.slot, q.parity);
  post(a, q.slot, number(a, -1));
  ts_gpu_arrive(b, a->full_q, q.slot);
  b->at = before;
}

V ts_gpu_decode_receive(Decode *a, const Ring *q) {
  TsTileType scalar = ts_tile_scalar(TS_DT_i64);
  ts_gpu_await(&a->b, a->full_q, q->slot, q->parity);
  return ts_tile_load(&a->b, a->box, &q->slot, &scalar, NULL);
}

/* ---- the kernel */
static bool good_pages(const TsGpuDecode *x) {
  const TsGpuPages *p = &x->pages;
  if (!p->size) return true;
  bool fits = p->size < KEYS ? p->size >= 16 && KEYS % p->size == 0 : p->size % KEYS == 0;
  return fits && x->last && p->heads > 0 && p->rows > 0 && p->count > 0;
}

static int legal(const TsGpuDecode *x, TsError *err) {
  bool half = x->dtype == TS_DT_bf16 || x->dtype == TS_DT_f16;
  bool rows = x->rows == 8 || x->rows == 16 || x->rows == 32 || x->rows == 64;
  if (half && rows && (x->d == 64 || x->d == 128) && x->queries > 0 && x->queries <= x->rows &&
      x->stages > 1 && x->stages < 9 && x->window >= 0 && x->scale > 0 && x->room > 0 &&
      good_pages(x) && (!x->sink || x->queries == 1) &&
      (!x->last || (x->queries == 1 && !x->mask.some)) &&
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
  ts_gpu_decode_mma(a);
  ts_gpu_decode_join(a);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_decode(const TsGpuDecode *x, TsError *err) {
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("decode");
  if (!k) return ts_error_memory(err), NULL;
  Decode a = {.x = *x, .b = ts_tile_build(k)};
  params(&a);
  k->form = TS_FORM_explicit;
  k->target = ts_target_with(TS_UNIT_roles)->name;
  k->ntile = 3;
  k->tile[0] = ROWS, k->tile[1] = KEYS, k->tile[2] = x->d;
  k->stages = x->stages;
  k->threads = 32 * 3 * WARPS;
  if (!k->failed) body(&a);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
