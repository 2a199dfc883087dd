/* See ir/tile/gpu/attention_mask.h. */
#include "ir/tile/gpu/attention_mask.h"

#include <math.h>
#include <string.h>

#include "ir/tile/gpu/build.h"

enum { KEYS = TS_GPU_MASK_KEYS, ROWS = 8, COLS = 128 /* of a round of the kernel before */ };

typedef TsTileVal V;

static int64_t up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/* One number for each key. */
static bool is_line(const TsGpuMask *m) { return m->dim[2] == 1; }

TsGpuMask ts_gpu_mask(const TsGpuMaskFrom *from, int64_t s, int64_t t, int rows,
                      bool transposed) {
  TsGpuMask m = {.some = true,
                 .bools = from->dtype == TS_DT_bool,
                 .dim = {from->dim[0], from->dim[1], 1, up(t, KEYS)}};
  if (from->dim[2] == 1) return m;
  m.dim[transposed ? 3 : 2] = up(s, rows), m.dim[transposed ? 2 : 3] = up(t, KEYS);
  return m;
}

TsDtype ts_gpu_mask_dtype(const TsGpuMask *m, TsDtype inputs) {
  return is_line(m) ? TS_DT_f32 : inputs;
}

int64_t ts_gpu_mask_bytes(const TsGpuMask *m) {
  return m->dim[0] * m->dim[1] * m->dim[2] * m->dim[3] * (is_line(m) ? 4 : 2);
}

bool ts_gpu_mask_has_layout(const TsGpuMask *m, const TsGpuMaskFrom *from, TsDtype inputs) {
  return from->dtype == ts_gpu_mask_dtype(m, inputs) &&
         !memcmp(from->dim, m->dim, sizeof from->dim) &&
         ts_shape_row_major(4, m->dim, from->stride);
}

static V param(TsTile *k, const TsGpuMask *m, TsDtype inputs, bool written) {
  TsTileType t = ts_tile_type(ts_gpu_mask_dtype(m, inputs), 4, m->dim);
  return ts_tile_param(k, "mask", &t, written);
}

/* ---- the kernel before */
/* The operand as the result has its axes. */
static V operand(TsTile *k, const TsGpuMaskFrom *from, bool transposed) {
  TsTileType t = ts_tile_type(from->dtype, 4, from->dim);
  t.strided = true;
  memcpy(t.stride, from->stride, sizeof from->stride);
  if (transposed) t.dim[2] = from->dim[3], t.dim[3] = from->dim[2];
  if (transposed) t.stride[2] = from->stride[3], t.stride[3] = from->stride[2];
  return ts_tile_param(k, "from", &t, false);
}

/* A part of the operand, spread along axes of which it has one element. */
static V part(TsTileBuild *b, V from, const V *at, int64_t rows, int64_t cols) {
  TsTileType t = ts_tile_scalar((TsDtype)from->type.dtype), all = t;
  TsTileAccess edge = {.edge = true};
  int64_t axes[2], own[2];
  V to[4];
  int64_t size[2] = {rows, cols};
  all.rank = 2, all.dim[0] = rows, all.dim[1] = cols;
  for (int i = 0; i < 4; i++) to[i] = from->type.dim[i] > 1 ? at[i] : ts_tile_index(b, 0);
  for (int i = 0; i < 2; i++)
    if (from->type.dim[2 + i] > 1)
      axes[t.rank] = 2 + i, own[t.rank] = i, t.dim[t.rank++] = size[i];
  edge.naxis = t.rank, edge.axes = axes;
  if (!t.rank) edge = (TsTileAccess){.edge = false};
  V x = ts_tile_load(b, from, to, &t, &edge);
  return x && t.rank < 2 ? ts_tile_broadcast(b, x, &all, own) : x;
}

static V as_number(TsTileBuild *b, V x, TsDtype d) {
  if (!x) return NULL;
  if (x->type.dtype != TS_DT_bool) return ts_tile_cast(b, x, d);
  TsTileType t = x->type;
  t.dtype = TS_DT_f32;
  V seen = ts_tile_const(b, 0, &t), hidden = ts_tile_const(b, -INFINITY, &t);
  return ts_tile_cast(b, ts_tile_op3(b, TS_OP_where, x, seen, hidden), d);
}

TsTile *ts_tile_gpu_mask(const TsGpuMask *m, const TsGpuMaskFrom *from, TsDtype inputs,
                         bool transposed, TsError *err) {
  TsTile *k = ts_tile_new("attention_mask");
  if (!k) return ts_error_memory(err), NULL;
  V x = operand(k, from, transposed && !is_line(m)), y = param(k, m, inputs, true);
  int64_t rows = is_line(m) ? 1 : ROWS, all = m->dim[0] * m->dim[1];
  TsTileBuild b = ts_tile_build(k);
  V zero = ts_tile_index(&b, 0), end = ts_tile_index(&b, all);
  TsTileLoop l = ts_tile_for(&b, zero, end, 1, true, 0, NULL);
  TsTileLoop r = ts_tile_for(&b, zero, ts_tile_index(&b, m->dim[2]), rows, true, 0, NULL);
  TsTileLoop c = ts_tile_for(&b, zero, ts_tile_index(&b, m->dim[3]), COLS, true, 0, NULL);
  if (!k->failed) {
    V batch = ts_gpu_by(&b, TS_OP_floordiv, l.i, m->dim[1]);
    V head = ts_tile_op2(&b, TS_OP_sub, l.i, ts_gpu_by(&b, TS_OP_mul, batch, m->dim[1]));
    V at[4] = {batch, head, r.i, c.i};
    V z = as_number(&b, part(&b, x, at, rows, COLS), (TsDtype)y->type.dtype);
    TsTileAccess edge = {.edge = true};
    ts_tile_store(&b, y, at, z, &edge);
    ts_tile_for_end(&b, &c, NULL, NULL), ts_tile_for_end(&b, &r, NULL, NULL);
    ts_tile_for_end(&b, &l, NULL, NULL);
  }
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}

/* ---- in kernels that read it */
V ts_gpu_mask_param(TsTile *k, const TsGpuMask *m, TsDtype inputs) {
  return param(k, m, inputs, false);
}

V ts_gpu_mask_add(TsTileBuild *b, const TsGpuMask *m, V memory, V batch, V head, V query, V key,
                  int keys, V x, double scale) {
  V zero = ts_tile_index(b, 0);
  if (!x || !memory) return NULL;
  const int64_t *dim = x->type.dim;
  V at[4] = {m->dim[0] > 1 ? batch : zero, m->dim[1] > 1 ? head : zero, keys ? query : key,
             keys ? key : query};
  if (is_line(m)) at[2] = zero, at[3] = key;
  TsTileType t = ts_gpu_fragment((TsDtype)memory->type.dtype, is_line(m) ? dim[keys] : dim[0],
                                 is_line(m) ? 0 : dim[1]);
  V y = ts_tile_load(b, memory, at, &t, NULL);
  if (y && is_line(m)) y = ts_gpu_spread(b, y, &x->type, keys);
  if (y && !is_line(m)) y = ts_tile_cast(b, y, TS_DT_f32);
  return ts_tile_op3(b, TS_OP_fma, x, ts_gpu_all(b, scale, &x->type), y);
}
