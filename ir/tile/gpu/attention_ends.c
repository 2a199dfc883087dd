/* See ir/tile/gpu/attention_ends.h. */
#include "ir/tile/gpu/attention_ends.h"

#include <math.h>
#include <string.h>

#include "ir/tile/gpu/build.h"

enum { PIECE = 2048 /* numbers of a round */ };

typedef TsTileVal V;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }
static V by(TsTileBuild *b, int op, V x, int64_t y) {
  return op2(b, op, x, ts_tile_index(b, y));
}

static V heads(TsTile *k, const char *name, TsDtype d, const TsGpuHeads *h, bool written) {
  TsTileType t = ts_tile_type(d, 4, h->dim);
  t.strided = h->stride != NULL;
  for (int i = 0; i < 4 && h->stride; i++) t.stride[i] = h->stride[i];
  return ts_tile_param(k, name, &t, written);
}

static TsTile *finished(TsTile *k, TsError *err) {
  if (k && !k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}

/* ---- sums of g times the result */
enum { WARPS = 4 /* of a block, which has as many queries as one of the gradients */ };

typedef struct Begin {
  const TsGpuAttentionGrad *x;
  TsTileBuild b;
  V g, y, lse, lse2, delta;
  V line, head, row; /* of this block: its number, its head among all, its first query */
} Begin;

static V number(Begin *a, int64_t i) { return ts_tile_index(&a->b, i); }

/* Rows of a matrix per batch, in whose columns the heads lie beside each other. */
static bool beside(const TsGpuHeads *h) {
  const int64_t *step = h->stride;
  return step && step[3] == 1 && step[1] == h->dim[3] && step[0] == h->dim[2] * step[2];
}

/* Rows of queries; behind the last one zeros. */
static V rows_of(Begin *a, V memory, V heads) {
  TsTileBuild *b = &a->b;
  TsTileAccess edge = {.edge = true};
  TsTileType t = ts_gpu_fragment((TsDtype)memory->type.dtype, a->x->rows, a->x->d);
  V batch = op2(b, TS_OP_floordiv, a->head, heads);
  V head = op2(b, TS_OP_sub, a->head, op2(b, TS_OP_mul, batch, heads));
  V at[4] = {batch, head, a->row, number(a, 0)};
  if (memory->type.rank == 3) at[1] = a->row, at[2] = by(b, TS_OP_mul, head, a->x->d);
  return ts_tile_cast(b, ts_tile_load(b, memory, at, &t, &edge), TS_DT_f32);
}

/* Base 2; nothing is left of the probabilities of rows that see nothing, or are not there. */
static V logarithms(Begin *a) {
  TsTileBuild *b = &a->b;
  TsTileAccess edge = {.edge = true, .fill = -INFINITY};
  TsTileType t = ts_gpu_fragment(TS_DT_f32, a->x->rows, 0);
  V x = ts_tile_load(b, a->lse, (V[]){a->head, a->row}, &t, &edge);
  V most = ts_tile_const(b, INFINITY, &t), least = ts_tile_const(b, -1e29, &t);
  V y = op2(b, TS_OP_mul, x, ts_tile_const(b, 1.4426950408889634, &t));
  return ts_tile_op3(b, TS_OP_where, op2(b, TS_OP_gt, x, least), y, most);
}

static void begin_block(Begin *a, V heads, V blocks) {
  TsTileBuild *b = &a->b;
  TsTileRegion *before = ts_gpu_role_with_lanes(b, "rows", WARPS);
  a->head = op2(b, TS_OP_floordiv, a->line, blocks);
  V block = op2(b, TS_OP_sub, a->line, op2(b, TS_OP_mul, a->head, blocks));
  a->row = by(b, TS_OP_mul, block, a->x->rows);
  V both = op2(b, TS_OP_mul, rows_of(a, a->g, heads), rows_of(a, a->y, heads));
  TsAttr axis = {.type = TS_ATTR_int, .i = 1};
  TsTileType sums = ts_gpu_fragment(TS_DT_f32, a->x->rows, 0);
  V sum = ts_tile_emit1(b, TS_TILE_pairs, 1, &both, &axis, &sums), log = logarithms(a);
  V to[2] = {a->line, number(a, 0)};
  ts_tile_store(b, a->lse2, to, log, NULL);
  ts_tile_store(b, a->delta, to, sum, NULL);
  b->at = before;
}

void ts_gpu_attention_begin_sizes(const TsGpuAttentionGrad *x, const TsGpuHeads *g,
                                  const TsGpuHeads *y, int64_t *size) {
  int64_t b = g->dim[0], h = g->dim[1], s = g->dim[2];
  const int64_t all[] = {b,
                         h,
                         s,
                         b * h,
                         beside(g) ? g->stride[2] : 0,
                         beside(y) ? y->stride[2] : 0,
                         ts_gpu_attention_grad_blocks(x, b * h, s)};
  memcpy(size, all, sizeof all);
}

enum { BATCHES, HEADS, QUERIES, ALL, WIDTH_G, WIDTH_Y, BLOCKS };

static V begin_rows(TsTile *k, const char *name, const TsGpuAttentionGrad *x,
                    const TsGpuHeads *layout, const int64_t *size, int64_t width) {
  int64_t matrix[] = {size[BATCHES], size[QUERIES], width};
  TsTileType t = ts_tile_type(x->dtype, 3, matrix);
  TsGpuHeads h = {{size[BATCHES], size[HEADS], size[QUERIES], x->d}, layout->stride};
  return beside(layout) ? ts_tile_param(k, name, &t, false)
                        : heads(k, name, x->dtype, &h, false);
}

/* A block is as small as one of the gradients' queries, and threads have 16 bytes of a row: of
 * kernels with a row for each warp, three quarters of the lanes would have none. */
TsTile *ts_tile_gpu_attention_begin(const TsGpuAttentionGrad *x, const TsGpuHeads *gh,
                                    const TsGpuHeads *yh, TsError *err) {
  static const char *const names[] = {"B", "H", "S", "N", "G", "Y", "P"};
  TsTile *k = ts_tile_new("attention_begin");
  int64_t size[TS_ATTENTION_BEGIN_SIZES];
  if (!k) return finished(k, err);
  for (int i = 0; i < TS_ATTENTION_BEGIN_SIZES; i++) size[i] = ts_tile_size(k, names[i]);
  TsTileType log = ts_tile_type(TS_DT_f32, 2, (int64_t[]){size[ALL], size[QUERIES]});
  TsTileType line = ts_tile_type(TS_DT_f32, 2, (int64_t[]){size[BLOCKS], x->rows});
  Begin a = {.x = x, .b = ts_tile_build(k)};
  a.g = begin_rows(k, "g", x, gh, size, size[WIDTH_G]);
  a.y = begin_rows(k, "y", x, yh, size, size[WIDTH_Y]);
  a.lse = ts_tile_param(k, "lse", &log, false);
  a.lse2 = ts_tile_param(k, "lse2", &line, true);
  a.delta = ts_tile_param(k, "delta", &line, true);
  k->form = TS_FORM_explicit, k->threads = 32 * WARPS;
  k->target = x->warps ? x->warps : ts_target_with(TS_UNIT_roles)->name;
  if (k->failed) return finished(k, err);
  V zero = number(&a, 0), h = ts_gpu_size(&a.b, HEADS, "h");
  V end = ts_gpu_size(&a.b, BLOCKS, "p");
  V blocks = op2(&a.b, TS_OP_floordiv, end, ts_gpu_size(&a.b, ALL, "n"));
  TsTileLoop grid = ts_tile_for(&a.b, zero, end, 1, true, 0, NULL);
  if (k->failed) return finished(k, err);
  a.line = grid.i;
  begin_block(&a, h, blocks);
  ts_tile_for_end(&a.b, &grid, NULL, NULL);
  return finished(k, err);
}

/* ---- sinks */
/* A sum of a head of a batch. */
static void sink_sums(TsTileBuild *b, V lse2, V delta, V sink, V sums, int64_t h) {
  const int64_t *dim = lse2->type.dim;
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, dim[0]), 1, true, 0, NULL);
  if (!l.stmt) return;
  TsTileType line = ts_tile_vector(TS_DT_f32, dim[1]), one = ts_tile_scalar(TS_DT_f32);
  V at[2] = {l.i, ts_tile_index(b, 0)}, head = by(b, TS_OP_mod, l.i, h);
  V x = ts_tile_load(b, sink, &head, &one, NULL);
  x = op2(b, TS_OP_mul, x, ts_tile_const(b, 1.4426950408889634, &one));
  x = ts_tile_broadcast(b, x, &line, NULL);
  V e = op2(b, TS_OP_sub, x, ts_tile_load(b, lse2, at, &line, NULL));
  V p = ts_tile_op1(b, TS_OP_exp2, e);
  V all = op2(b, TS_OP_mul, p, ts_tile_load(b, delta, at, &line, NULL));
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  V sum = ts_tile_emit1(b, TS_TILE_sum, 1, &all, &axis, &one);
  V to[2] = {by(b, TS_OP_floordiv, l.i, h), head};
  ts_tile_store(b, sums, to, sum, NULL);
  ts_tile_for_end(b, &l, NULL, NULL);
}

/* Of all batches. */
static void sink_gradients(TsTileBuild *b, V sums, V dsink) {
  static const int64_t batches[1] = {0};
  const int64_t *dim = sums->type.dim;
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, dim[1]), 1, true, 0, NULL);
  if (!l.stmt) return;
  TsTileAccess access = {.naxis = 1, .axes = batches};
  TsTileType line = ts_tile_vector(TS_DT_f32, dim[0]), one = ts_tile_scalar(TS_DT_f32);
  V x = ts_tile_load(b, sums, (V[]){ts_tile_index(b, 0), l.i}, &line, &access);
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  V sum = ts_tile_emit1(b, TS_TILE_sum, 1, &x, &axis, &one);
  ts_tile_store(b, dsink, &l.i, ts_tile_op1(b, TS_OP_neg, sum), NULL);
  ts_tile_for_end(b, &l, NULL, NULL);
}

TsTile *ts_tile_gpu_attention_sink(int64_t nb, int64_t h, int64_t m, TsError *err) {
  TsTile *k = ts_tile_new("attention_sink");
  if (!k) return finished(k, err);
  TsTileType lines = ts_tile_type(TS_DT_f32, 2, (int64_t[]){nb * h, m});
  TsTileType heads = ts_tile_vector(TS_DT_f32, h);
  TsTileType part = ts_tile_type(TS_DT_f32, 2, (int64_t[]){nb, h});
  V lse2 = ts_tile_param(k, "lse2", &lines, false);
  V delta = ts_tile_param(k, "delta", &lines, false);
  V sink = ts_tile_param(k, "sink", &heads, false);
  V dsink = ts_tile_param(k, "dsink", &heads, true);
  TsTileBuild b = ts_tile_build(k);
  V sums = ts_tile_alloc(&b, TS_SPACE_scratch, &part);
  if (k->failed) return finished(k, err);
  sink_sums(&b, lse2, delta, sink, sums, h);
  if (!k->failed) sink_gradients(&b, sums, dsink);
  return finished(k, err);
}

/* ---- dq */
/* Some rows of a head at a time. */
static TsTile *end_of_heads(const TsGpuAttentionGrad *x, const TsGpuHeads *h, TsError *err) {
  TsTile *k = ts_tile_new("attention_end");
  if (!k) return finished(k, err);
  TsGpuHeads plain = {.dim = {h->dim[0], h->dim[1], h->dim[2], h->dim[3]}};
  V sums = heads(k, "sums", TS_DT_f32, &plain, false), dq = heads(k, "dq", x->dtype, h, true);
  if (k->failed) return finished(k, err);
  TsTileBuild b = ts_tile_build(k);
  int64_t rows = PIECE / x->d;
  TsTileType tile = ts_tile_type(TS_DT_f32, 2, (int64_t[]){rows, x->d});
  V zero = ts_tile_index(&b, 0), end = ts_tile_index(&b, h->dim[0] * h->dim[1]);
  V last = ts_tile_index(&b, h->dim[2]);
  TsTileLoop l = ts_tile_for(&b, zero, end, 1, true, 0, NULL);
  TsTileLoop m = ts_tile_for(&b, zero, last, rows, true, 0, NULL);
  if (k->failed) return finished(k, err);
  TsTileAccess edge = {.edge = true};
  V batch = by(&b, TS_OP_floordiv, l.i, h->dim[1]);
  V at[4] = {batch, op2(&b, TS_OP_sub, l.i, by(&b, TS_OP_mul, batch, h->dim[1])), m.i, zero};
  V v = ts_tile_load(&b, sums, at, &tile, &edge);
  v = op2(&b, TS_OP_mul, v, ts_tile_const(&b, x->scale, &tile));
  ts_tile_store(&b, dq, at, ts_tile_cast(&b, v, x->dtype), &edge);
  ts_tile_for_end(&b, &m, NULL, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return finished(k, err);
}

TsTile *ts_tile_gpu_attention_end(const TsGpuAttentionGrad *x, const TsGpuHeads *h,
                                  TsError *err) {
  if (h && h->stride) return end_of_heads(x, h, err);
  TsTile *k = ts_tile_new("attention_end");
  if (!k) return finished(k, err);
  int64_t n = ts_tile_size(k, "M");
  TsTileType from = ts_tile_vector(TS_DT_f32, n), to = ts_tile_vector(x->dtype, n);
  V sums = ts_tile_param(k, "sums", &from, false), dq = ts_tile_param(k, "dq", &to, true);
  if (k->failed) return finished(k, err);
  TsTileBuild b = ts_tile_build(k);
  TsAttr index = {.type = TS_ATTR_int, .i = 0};
  TsTileType whole = ts_tile_scalar(TS_DT_i64), line = ts_tile_vector(TS_DT_f32, PIECE);
  V m = ts_tile_emit1(&b, TS_TILE_dim, 0, NULL, &index, &whole);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), m, PIECE, true, 0, NULL);
  if (k->failed) return finished(k, err);
  TsTileAccess edge = {.edge = true};
  V v = ts_tile_load(&b, sums, &l.i, &line, &edge);
  v = op2(&b, TS_OP_mul, v, ts_tile_const(&b, x->scale, &line));
  ts_tile_store(&b, dq, &l.i, ts_tile_cast(&b, v, x->dtype), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return finished(k, err);
}
