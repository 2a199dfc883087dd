/* Keys of values and tiles in an order. See ir/lower/sort/order.h. */
#include "ir/lower/sort/order.h"

typedef TsTileVal V;

/* ---- keys */
bool ts_order_has(TsDtype d) {
  return !ts_dtype_in_blocks(d) && !ts_dtype_is(d, TS_KIND_C) && ts_dtypes[d].nbytes <= 8;
}

/* Of the 32 bits of an f32, those that a narrower float can have. */
static int float_bits(TsDtype d) {
  switch (d) {
  case TS_DT_bf16: return 16;
  case TS_DT_f16: return 19;
  case TS_DT_fp8_e4m3: return 12;
  case TS_DT_fp8_e5m2: return 11;
  default: return 8 * ts_dtypes[d].nbytes;
  }
}

TsOrderKey ts_order_key(TsDtype d, bool descending) {
  TsOrderKey k = {.dtype = d, .descending = descending, .wide = ts_dtypes[d].nbytes == 8};
  k.bits = ts_dtype_is(d, TS_KIND_F) ? float_bits(d) : 8 * ts_dtypes[d].nbytes;
  return k;
}

static V num(TsTileBuild *b, V like, uint64_t bits) {
  return like ? ts_tile_bits(b, bits, &like->type) : NULL;
}

static V shift(TsTileBuild *b, int op, V x, V by) {
  V in[2] = {x, by};
  return x && by ? ts_tile_emit1(b, op, 2, in, NULL, &x->type) : NULL;
}

/* Floats: the magnitude turned where the sign is set, then the sign. */
static V float_key(TsTileBuild *b, const TsOrderKey *k, V x) {
  TsDtype f = k->wide ? TS_DT_f64 : TS_DT_f32, i = k->wide ? TS_DT_i64 : TS_DT_i32;
  uint64_t sign = k->wide ? 1ull << 63 : 1ull << 31, all = 2 * sign - 1;
  TsTileType t = x->type;
  x = ts_tile_cast(b, x, f);
  V zero = ts_short_number(b, &t, f, 0), nan = ts_tile_op2(b, TS_OP_ne, x, x);
  x = ts_tile_op3(b, TS_OP_where, ts_tile_op2(b, TS_OP_eq, x, zero), zero, x);
  V bits = ts_tile_bitcast(b, x, i);
  V below = ts_tile_op2(b, TS_OP_lt, bits, num(b, bits, 0));
  V up = ts_tile_op2(b, TS_OP_bitwise_xor, bits, num(b, bits, sign));
  V down = ts_tile_op2(b, TS_OP_bitwise_xor, bits, num(b, bits, all));
  V key = ts_tile_op3(b, TS_OP_where, below, down, up);
  key = ts_tile_op3(b, TS_OP_where, nan, num(b, bits, all), key);
  int less = (k->wide ? 64 : 32) - k->bits;
  return less ? shift(b, TS_TILE_shr, key, num(b, key, (uint64_t)less)) : key;
}

static V whole_key(TsTileBuild *b, const TsOrderKey *k, V x) {
  x = ts_tile_cast(b, x, k->wide ? TS_DT_i64 : TS_DT_i32);
  if (ts_dtype_is(k->dtype, TS_KIND_B | TS_KIND_U)) return x;
  uint64_t half = 1ull << (k->bits - 1);
  int op = k->bits < 32 ? TS_OP_add : TS_OP_bitwise_xor;
  return ts_tile_op2(b, op, x, num(b, x, half));
}

static uint64_t largest(const TsOrderKey *k) { return UINT64_MAX >> (64 - k->bits); }

V ts_order_last(TsTileBuild *b, const TsOrderKey *k, const TsTileType *like) {
  TsTileType t = *like;
  t.dtype = k->wide ? TS_DT_i64 : TS_DT_i32;
  return ts_tile_bits(b, largest(k), &t);
}

V ts_order_key_of(TsTileBuild *b, const TsOrderKey *k, V x) {
  if (!x) return NULL;
  V key = ts_dtype_is(k->dtype, TS_KIND_F) ? float_key(b, k, x) : whole_key(b, k, x);
  return k->descending ? ts_tile_op2(b, TS_OP_bitwise_xor, key, num(b, key, largest(k))) : key;
}

/* ---- tiles */
TsTileType ts_order_type(const TsOrderTile *t, TsDtype d) {
  int64_t dim[3] = {t->chunks, t->warps, 32};
  return ts_tile_type(d, 3, dim);
}

V ts_order_position(TsTileBuild *b, const TsOrderTile *t) {
  TsTileType type = ts_order_type(t, TS_DT_i64);
  V chunk = ts_short_by(b, TS_OP_mul, ts_short_iota(b, &type, 0), 32);
  V warp = ts_short_by(b, TS_OP_mul, ts_short_iota(b, &type, 1), 32 * t->chunks);
  return ts_tile_op2(b, TS_OP_add, ts_tile_op2(b, TS_OP_add, warp, chunk),
                     ts_short_iota(b, &type, 2));
}

static const int64_t transposed[3] = {1, 0, 2};

static V in_order(TsTileBuild *b, const TsOrderTile *t, V shared) {
  int64_t dim[3] = {t->warps, t->chunks, 32};
  return ts_short_view(b, shared, 3, dim);
}

V ts_order_load(TsTileBuild *b, const TsOrderTile *t, V shared) {
  TsTileAccess a = {.naxis = 3, .axes = transposed};
  V zero = ts_tile_index(b, 0), at[3] = {zero, zero, zero};
  if (!shared) return NULL;
  TsTileType type = ts_order_type(t, (TsDtype)shared->type.dtype);
  return ts_tile_load(b, in_order(b, t, shared), at, &type, &a);
}

void ts_order_store(TsTileBuild *b, const TsOrderTile *t, V shared, V x) {
  TsTileAccess a = {.naxis = 3, .axes = transposed};
  V zero = ts_tile_index(b, 0), at[3] = {zero, zero, zero};
  ts_tile_store(b, in_order(b, t, shared), at, x, &a);
}

V ts_order_digit(TsTileBuild *b, V key, V low, int bits) {
  if (!key) return NULL;
  V by = ts_short_splat(b, &key->type, ts_tile_cast(b, low, (TsDtype)key->type.dtype));
  V x = shift(b, TS_TILE_shr, key, by);
  x = ts_tile_op2(b, TS_OP_bitwise_and, x, num(b, x, (1ull << bits) - 1));
  return ts_tile_cast(b, x, TS_DT_i32);
}

TsOrderPlaces ts_order_places(TsTileBuild *b, V digit, int bins) {
  TsAttr a = {.type = TS_ATTR_int, .i = bins};
  TsOrderPlaces p = {NULL, NULL, NULL};
  if (!digit) return p;
  TsTileType list = ts_tile_vector(TS_DT_i32, bins), out[3] = {digit->type, list, list};
  TsTileStmt *s = ts_tile_emit(b, TS_TILE_places, 1, &digit, &a, 3, out);
  if (s) p = (TsOrderPlaces){s->out[0], s->out[1], s->out[2]};
  return p;
}

void ts_order_scatter(TsTileBuild *b, V memory, V at, V x, bool edge) {
  TsAttr a = {.type = TS_ATTR_bool, .i = edge};
  if (!at || !x || !memory) return;
  V in[3] = {memory, ts_tile_cast(b, at, TS_DT_i64), x};
  ts_tile_emit(b, TS_TILE_scatter, 3, in, &a, 0, NULL);
}
