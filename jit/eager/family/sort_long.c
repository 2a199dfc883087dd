/* Rows that no block has room for: keys into memory, the order of the keys, values by it. The
 * first k of a row are among the first k of its pieces. */
#include "jit/eager/family/sort.h"

typedef TsTileVal V;

enum { PIECE = 1024 };

static V param(TsTile *k, const char *name, TsDtype d, int64_t n, bool written) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_param(k, name, &t, written);
}

static TsTile *build_keys(const void *arg) {
  const TsSort *s = arg;
  TsTile *k = ts_tile_new("sort_keys");
  if (!k) return NULL;
  TsOrderKey how = ts_order_key(s->dtype, s->descending);
  TsTileType t = ts_tile_vector(s->dtype, PIECE);
  TsTileAccess edge = {.edge = true};
  int64_t n = ts_tile_size(k, "N");
  V x = param(k, "x", s->dtype, n, false);
  V y = param(k, "key", how.wide ? TS_DT_i64 : TS_DT_i32, n, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 0), PIECE, true, 0, NULL);
  V key = ts_order_key_of(&b, &how, ts_tile_load(&b, x, &l.i, &t, &edge));
  ts_tile_store(&b, y, &l.i, key, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* The first k of each row: sizes rows, n, k, elements, results. */
static TsTile *build_values(const void *arg) {
  static const char *const name[] = {"rows", "n", "k", "N", "M"};
  const TsSort *s = arg;
  TsTile *k = ts_tile_new("sort_values");
  int64_t size[5];
  if (!k) return NULL;
  for (int i = 0; i < 5; i++) size[i] = ts_tile_size(k, name[i]);
  V x = s->value ? param(k, "x", s->dtype, size[3], false) : NULL;
  V from = param(k, "from", TS_DT_i32, size[3], false);
  V y = s->value ? param(k, "y", s->dtype, size[4], true) : NULL;
  V place = param(k, "place", TS_DT_i64, size[4], true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  V zero = ts_tile_index(&b, 0);
  k->vector = 4, k->threads = PIECE / 4;
  TsTileLoop rows = ts_tile_for(&b, zero, ts_short_dim(&b, 0), 1, true, 0, NULL);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 2), PIECE, true, 0, NULL);
  V pos = ts_tile_op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V in = ts_tile_op2(&b, TS_OP_lt, pos, ts_short_splat(&b, &t, ts_short_dim(&b, 2)));
  V none = ts_short_int(&b, &t, -1);
  V row = ts_short_splat(&b, &t, ts_tile_op2(&b, TS_OP_mul, rows.i, ts_short_dim(&b, 1)));
  V out = ts_short_splat(&b, &t, ts_tile_op2(&b, TS_OP_mul, rows.i, ts_short_dim(&b, 2)));
  V at = ts_tile_op3(&b, TS_OP_where, in, ts_tile_op2(&b, TS_OP_add, pos, row), none);
  V to = ts_tile_op3(&b, TS_OP_where, in, ts_tile_op2(&b, TS_OP_add, pos, out), none);
  V p = ts_tile_cast(&b, ts_short_gather(&b, from, at, true), TS_DT_i64);
  V value = x ? ts_short_gather(&b, x, ts_tile_op2(&b, TS_OP_add, p, row), true) : NULL;
  if (y) ts_order_scatter(&b, y, to, value, true);
  ts_order_scatter(&b, place, to, p, true);
  ts_tile_for_end(&b, &l, NULL, NULL);
  ts_tile_for_end(&b, &rows, NULL, NULL);
  return k;
}

static int keys(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s,
                TsTensor *key) {
  TsOwn k = {.build = build_keys, .arg = s, .nin = 1, .in = {x}, .nout = 1, .out = {key}};
  k.ndim = 1, k.dim[0] = ts_tensor_numel(x);
  ts_own_word(&k, 'K' << 8);
  ts_own_word(&k, s->dtype | s->descending << 8);
  return ts_own_run(o, call, device, &k);
}

static int values(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s,
                  TsTensor *from, TsTensor *y, TsTensor *place) {
  TsOwn k = {.build = build_values, .arg = s, .ndim = 5};
  int64_t dim[5] = {s->count, s->n, s->k, s->count * s->n, s->count * s->k};
  if (y) k.in[k.nin++] = x;
  k.in[k.nin++] = from;
  if (y) k.out[k.nout++] = y;
  k.out[k.nout++] = place;
  for (int i = 0; i < 5; i++) k.dim[i] = dim[i];
  ts_own_word(&k, 'V' << 8);
  ts_own_word(&k, s->dtype | s->value << 8);
  return ts_own_run(o, call, device, &k);
}

int ts_sort_long(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s, TsTensor *y,
                 TsTensor *place) {
  TsOrderKey how = ts_order_key(s->dtype, s->descending);
  TsTensor *from = NULL;
  TsTensor *key =
      ts_order_room(call, device, how.wide ? TS_DT_i64 : TS_DT_i32, ts_tensor_numel(x));
  int done = key ? keys(o, call, device, x, s, key) : -1;
  if (done == 1) done = ts_order_rows(o, call, device, s->count, s->n, how.bits, &key, &from);
  if (done == 1) done = values(o, call, device, x, s, from, y, place);
  ts_tensor_unref(key), ts_tensor_unref(from);
  return done;
}

/* ---- the first of them */
/* Places in the row of the places in what the pieces left: sizes rows * k, k, m, rows * m. */
static TsTile *build_places(const void *arg) {
  static const char *const name[] = {"R", "k", "m", "N"};
  (void)arg;
  TsTile *k = ts_tile_new("sort_places");
  int64_t size[4];
  if (!k) return NULL;
  for (int i = 0; i < 4; i++) size[i] = ts_tile_size(k, name[i]);
  V from = param(k, "from", TS_DT_i64, size[3], false),
    at = param(k, "at", TS_DT_i64, size[0], false);
  V place = param(k, "place", TS_DT_i64, size[0], true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 0), PIECE, true, 0, NULL);
  V e = ts_tile_op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V row = ts_tile_op2(&b, TS_OP_floordiv, e, ts_short_splat(&b, &t, ts_short_dim(&b, 1)));
  row = ts_tile_op2(&b, TS_OP_mul, row, ts_short_splat(&b, &t, ts_short_dim(&b, 2)));
  V own = ts_tile_load(&b, at, &l.i, &t, &edge);
  V p = ts_short_gather(&b, from, ts_tile_op2(&b, TS_OP_add, row, own), true);
  ts_tile_store(&b, place, &l.i, p, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static int places(TsOffloader *o, TsCall *call, int device, const TsSort *s, int64_t m,
                  TsTensor *from, TsTensor *at, TsTensor *place) {
  TsOwn k = {.build = build_places, .arg = s, .nin = 2, .nout = 1, .ndim = 4};
  k.in[0] = from, k.in[1] = at, k.out[0] = place;
  k.dim[0] = s->count * s->k, k.dim[1] = s->k, k.dim[2] = m, k.dim[3] = s->count * m;
  ts_own_word(&k, 'P' << 8);
  return ts_own_run(o, call, device, &k);
}

int ts_sort_pieces(TsOffloader *o, TsCall *call, int device, TsTensor *x, TsSort *s,
                   TsTensor *y, TsTensor *place, int64_t most) {
  TsSort first = *s, then = *s;
  first.pieces = (s->n + most - 1) / most, first.whole = s->n;
  first.n = (s->n + first.pieces - 1) / first.pieces;
  first.count = s->count * first.pieces, first.value = true;
  then.n = first.pieces * s->k;
  TsTensor *left = ts_order_room(call, device, s->dtype, first.count * s->k);
  TsTensor *from = ts_order_room(call, device, TS_DT_i64, first.count * s->k);
  TsTensor *at = ts_order_room(call, device, TS_DT_i64, s->count * s->k);
  int done = left && from && at ? ts_sort_rows(o, call, device, x, &first, left, from) : -1;
  if (done == 1) done = ts_sort_rows(o, call, device, left, &then, y, at);
  if (done == 1) done = places(o, call, device, s, then.n, from, at, place);
  ts_tensor_unref(left), ts_tensor_unref(from), ts_tensor_unref(at);
  return done;
}
