/* See ir/lower/short.h. */
#include "ir/lower/short.h"

TsTileVal ts_short_param(TsTile *k, const char *name, TsDtype d, int64_t n, bool written) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_param(k, name, &t, written);
}

TsTileVal ts_short_dim(TsTileBuild *b, int i) {
  TsTileType index = ts_tile_scalar(TS_DT_i64);
  TsAttr which = {.type = TS_ATTR_int, .i = i};
  return ts_tile_emit1(b, TS_TILE_dim, 0, NULL, &which, &index);
}

static TsTileType of(const TsTileType *like, TsDtype d) {
  return ts_tile_type(d, like->rank, like->dim);
}

TsTileVal ts_short_iota(TsTileBuild *b, const TsTileType *t, int axis) {
  TsTileType type = of(t, TS_DT_i64);
  TsAttr a = {.type = TS_ATTR_int, .i = axis};
  return ts_tile_emit1(b, TS_TILE_iota, 0, NULL, &a, &type);
}

TsTileVal ts_short_int(TsTileBuild *b, const TsTileType *like, int64_t v) {
  TsTileType type = of(like, TS_DT_i64);
  return ts_tile_bits(b, (uint64_t)v, &type);
}

TsTileVal ts_short_number(TsTileBuild *b, const TsTileType *like, TsDtype d, double v) {
  TsTileType type = of(like, d);
  return ts_tile_const(b, v, &type);
}

TsTileVal ts_short_splat(TsTileBuild *b, const TsTileType *like, TsTileVal scalar) {
  if (!scalar) return NULL;
  TsTileType type = of(like, (TsDtype)scalar->type.dtype);
  return ts_tile_broadcast(b, scalar, &type, NULL);
}

TsTileVal ts_short_positions(TsTileBuild *b, const TsTileType *t, TsTileVal start) {
  return ts_tile_op2(b, TS_OP_add, ts_short_iota(b, t, 0), ts_short_splat(b, t, start));
}

TsTileVal ts_short_by(TsTileBuild *b, int op, TsTileVal x, int64_t y) {
  return x ? ts_tile_op2(b, op, x, ts_short_int(b, &x->type, y)) : NULL;
}

TsTileVal ts_short_gather(TsTileBuild *b, TsTileVal memory, TsTileVal at, bool edge) {
  TsAttr attr[3] = {
      {.type = TS_ATTR_int}, {.type = TS_ATTR_bool, .i = edge}, {.type = TS_ATTR_f}};
  if (!memory || !at) return NULL;
  TsTileType t = of(&at->type, (TsDtype)memory->type.dtype);
  TsTileVal in[2] = {memory, at};
  return ts_tile_emit1(b, TS_TILE_gather, 2, in, attr, &t);
}

TsTileVal ts_short_view(TsTileBuild *b, TsTileVal memory, int rank, const int64_t *dim) {
  if (!memory) return NULL;
  TsTileType t = ts_tile_type((TsDtype)memory->type.dtype, rank, dim);
  t.space = memory->type.space;
  return ts_tile_emit1(b, TS_TILE_view, 1, &memory, NULL, &t);
}

TsDtype ts_short_bits(TsDtype d) {
  switch (ts_dtypes[d].nbytes) {
  case 1: return d == TS_DT_bool ? d : TS_DT_u8;
  case 2: return TS_DT_i16;
  case 4: return TS_DT_i32;
  case 8: return TS_DT_i64;
  default: return d;
  }
}

enum { FILL_PIECE = 1024 };

/* Complex numbers are pairs, the second one 0. */
TsTile *ts_short_fill(TsDtype d) {
  static const int64_t axes[1] = {0};
  TsTile *k = ts_tile_new("fill");
  if (!k) return NULL;
  bool pairs = ts_dtype_is(d, TS_KIND_C);
  TsDtype own = pairs ? ts_dtype_real(d) : d;
  int64_t n = ts_tile_size(k, "N"), dim[2] = {n, 2};
  ts_tile_size(k, "value");
  TsTileType memory = ts_tile_type(own, 1 + pairs, dim), tile = ts_tile_vector(own, FILL_PIECE);
  TsTileVal y = ts_tile_param(k, "y", &memory, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileVal zero = ts_tile_index(&b, 0);
  TsTileLoop loop = ts_tile_for(&b, zero, ts_short_dim(&b, 0), FILL_PIECE, true, 0, NULL);
  TsTileVal value = ts_tile_cast(&b, ts_tile_bitcast(&b, ts_short_dim(&b, 1), TS_DT_f64), own);
  TsTileAccess edge = {.edge = true, .naxis = pairs, .axes = axes};
  for (int i = 0; i < 1 + pairs; i++) {
    TsTileVal at[2] = {loop.i, ts_tile_index(&b, i)};
    TsTileVal x = i ? ts_tile_const(&b, 0, &tile) : ts_tile_broadcast(&b, value, &tile, NULL);
    ts_tile_store(&b, y, at, x, &edge);
  }
  ts_tile_for_end(&b, &loop, NULL, NULL);
  return k;
}
