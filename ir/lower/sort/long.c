/* Rows that no block has room for: keys into memory, the order of the keys, values by it. The
 * first k of a row are among the first k of its pieces. */
#include "ir/lower/sort/sort.h"

typedef TsTileVal V;

enum { PIECE = 1024 };

static TsTile *build_keys(const TsSort *s) {
  TsTile *k = ts_tile_new("sort_keys");
  if (!k) return NULL;
  TsOrderKey how = ts_order_key(s->dtype, s->descending);
  TsTileType t = ts_tile_vector(s->dtype, PIECE);
  TsTileAccess edge = {.edge = true};
  int64_t n = ts_tile_size(k, "N");
  V x = ts_short_param(k, "x", s->dtype, n, false);
  V y = ts_short_param(k, "key", how.wide ? TS_DT_i64 : TS_DT_i32, n, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 0), PIECE, true, 0, NULL);
  V key = ts_order_key_of(&b, &how, ts_tile_load(&b, x, &l.i, &t, &edge));
  ts_tile_store(&b, y, &l.i, key, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* The first k of each row: sizes rows, n, k, elements, results. */
static TsTile *build_values(const TsSort *s) {
  static const char *const name[] = {"rows", "n", "k", "N", "M"};
  TsTile *k = ts_tile_new("sort_values");
  int64_t size[5];
  if (!k) return NULL;
  for (int i = 0; i < 5; i++) size[i] = ts_tile_size(k, name[i]);
  V x = s->value ? ts_short_param(k, "x", s->dtype, size[3], false) : NULL;
  V from = ts_short_param(k, "from", TS_DT_i32, size[3], false);
  V y = s->value ? ts_short_param(k, "y", s->dtype, size[4], true) : NULL;
  V place = ts_short_param(k, "place", TS_DT_i64, size[4], true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  V zero = ts_tile_index(&b, 0);
  k->vector = 4, k->threads = PIECE / 4;
  TsTileLoop rows = ts_tile_for(&b, zero, ts_short_dim(&b, 0), 1, true, 0, NULL);
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 2), PIECE, true, 0, NULL);
  V pos = ts_short_positions(&b, &t, l.i);
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

void ts_sort_long(TsSteps *steps, TsSort *s, int x, int y, int place) {
  TsOrderKey how = ts_order_key(s->dtype, s->descending);
  int64_t all = s->count * s->n, dim[5] = {s->count, s->n, s->k, all, s->count * s->k};
  TsOrderRows r = {
      .rows = s->count, .n = s->n, .bits = how.bits, .wide = how.wide, .own = true};
  r.key = ts_steps_temp(steps, (how.wide ? 8 : 4) * all);
  ts_steps_add(steps, build_keys(s), (int[]){x, r.key}, &all);
  ts_order_rows(steps, &r);
  int valued[] = {x, r.place, y, place}, only[] = {r.place, place};
  ts_steps_add(steps, build_values(s), s->value ? valued : only, dim);
}

/* ---- the first of them */
/* Places in the row of the places in what the pieces left: sizes rows * k, k, m, rows * m. */
static TsTile *build_places(void) {
  static const char *const name[] = {"R", "k", "m", "N"};
  TsTile *k = ts_tile_new("sort_places");
  int64_t size[4];
  if (!k) return NULL;
  for (int i = 0; i < 4; i++) size[i] = ts_tile_size(k, name[i]);
  V from = ts_short_param(k, "from", TS_DT_i64, size[3], false),
    at = ts_short_param(k, "at", TS_DT_i64, size[0], false);
  V place = ts_short_param(k, "place", TS_DT_i64, size[0], true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 0), PIECE, true, 0, NULL);
  V e = ts_short_positions(&b, &t, l.i);
  V row = ts_tile_op2(&b, TS_OP_floordiv, e, ts_short_splat(&b, &t, ts_short_dim(&b, 1)));
  row = ts_tile_op2(&b, TS_OP_mul, row, ts_short_splat(&b, &t, ts_short_dim(&b, 2)));
  V own = ts_tile_load(&b, at, &l.i, &t, &edge);
  V p = ts_short_gather(&b, from, ts_tile_op2(&b, TS_OP_add, row, own), true);
  ts_tile_store(&b, place, &l.i, p, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

void ts_sort_pieces(TsSteps *steps, TsSort *s, int x, int y, int place, int64_t most) {
  TsSort first = *s, then = *s;
  first.pieces = (s->n + most - 1) / most, first.whole = s->n;
  first.n = (s->n + first.pieces - 1) / first.pieces;
  first.count = s->count * first.pieces, first.value = true;
  then.n = first.pieces * s->k;
  int64_t n = first.count * s->k, all = s->count * s->k, dim[4] = {all, s->k, then.n, n};
  int left = ts_steps_temp(steps, n * ts_dtypes[s->dtype].nbytes);
  int from = ts_steps_temp(steps, 8 * n), at = ts_steps_temp(steps, 8 * all);
  ts_sort_rows(steps, &first, x, left, from);
  ts_sort_rows(steps, &then, left, y, at);
  ts_steps_add(steps, build_places(), (int[]){from, at, place}, dim);
}
