/* See ir/tile_gpu_attention_ends.h. */
#include "ir/tile_gpu_attention_ends.h"

#include <math.h>

enum { PIECE = 2048 /* numbers of a round */ };

typedef TsTileVal V;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }
static V by(TsTileBuild *b, int op, V x, int64_t y) {
  return op2(b, op, x, ts_tile_index(b, y));
}

static V heads(TsTile *k, const char *name, TsDtype d, const TsGpuHeads *h) {
  TsTileType t = ts_tile_type(d, 4, h->dim);
  t.strided = h->stride != NULL;
  for (int i = 0; i < 4 && h->stride; i++) t.stride[i] = h->stride[i];
  return ts_tile_param(k, name, &t, false);
}

static TsTile *finished(TsTile *k, TsError *err) {
  if (k && !k->failed) return k;
  ts_tile_free(k);
  return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
}

/* A query's row; behind the last one zeros. */
static V row_of(TsTileBuild *b, V memory, const V *at, int d) {
  TsTileAccess edge = {.edge = true};
  TsTileType t = ts_tile_vector((TsDtype)memory->type.dtype, d);
  return ts_tile_cast(b, ts_tile_load(b, memory, at, &t, &edge), TS_DT_f32);
}

/* Base 2; nothing is left of the probabilities of rows that see nothing, or are not there. */
static V logarithm(TsTileBuild *b, V memory, V head, V row) {
  TsTileAccess edge = {.edge = true, .fill = -INFINITY};
  TsTileType t = ts_tile_scalar(TS_DT_f32);
  V x = ts_tile_load(b, memory, (V[]){head, row}, &t, &edge);
  V most = ts_tile_const(b, INFINITY, &t), least = ts_tile_const(b, -1e29, &t);
  V y = op2(b, TS_OP_mul, x, ts_tile_const(b, 1.4426950408889634, &t));
  return ts_tile_op3(b, TS_OP_where, op2(b, TS_OP_gt, x, least), y, most);
}

TsTile *ts_tile_gpu_attention_begin(const TsGpuAttentionGrad *x, const TsGpuHeads *gh,
                                    const TsGpuHeads *yh, TsError *err) {
  TsTile *k = ts_tile_new("attention_begin");
  if (!k) return finished(k, err);
  int64_t n = gh->dim[0] * gh->dim[1], s = gh->dim[2], h = gh->dim[1];
  int64_t blocks = (s + x->rows - 1) / x->rows, lines[2] = {n * blocks, x->rows};
  TsTileType log = ts_tile_type(TS_DT_f32, 2, (int64_t[]){n, s});
  TsTileType line = ts_tile_type(TS_DT_f32, 2, lines);
  V g = heads(k, "g", x->dtype, gh), y = heads(k, "y", x->dtype, yh);
  V lse = ts_tile_param(k, "lse", &log, false);
  V lse2 = ts_tile_param(k, "lse2", &line, true),
    delta = ts_tile_param(k, "delta", &line, true);
  if (k->failed) return finished(k, err);
  TsTileBuild b = ts_tile_build(k);
  V zero = ts_tile_index(&b, 0), end = ts_tile_index(&b, lines[0]);
  V width = ts_tile_index(&b, x->rows);
  TsTileLoop l = ts_tile_for(&b, zero, end, 1, true, 0, NULL);
  TsTileLoop m = ts_tile_for(&b, zero, width, 1, true, 0, NULL);
  if (k->failed) return finished(k, err);
  V head = by(&b, TS_OP_floordiv, l.i, blocks);
  V block = op2(&b, TS_OP_sub, l.i, by(&b, TS_OP_mul, head, blocks));
  V row = op2(&b, TS_OP_add, by(&b, TS_OP_mul, block, x->rows), m.i);
  V batch = by(&b, TS_OP_floordiv, head, h);
  V at[4] = {batch, op2(&b, TS_OP_sub, head, by(&b, TS_OP_mul, batch, h)), row, zero};
  V both = op2(&b, TS_OP_mul, row_of(&b, g, at, x->d), row_of(&b, y, at, x->d));
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType sums = ts_tile_scalar(TS_DT_f32);
  V sum = ts_tile_emit1(&b, TS_TILE_sum, 1, &both, &axis, &sums);
  V to[2] = {l.i, m.i};
  ts_tile_store(&b, lse2, to, logarithm(&b, lse, head, row), NULL);
  ts_tile_store(&b, delta, to, sum, NULL);
  ts_tile_for_end(&b, &m, NULL, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return finished(k, err);
}

TsTile *ts_tile_gpu_attention_end(const TsGpuAttentionGrad *x, TsError *err) {
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
