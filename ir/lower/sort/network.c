/* Short rows of elements of 32 bits or fewer, in shared memory. An element is one integer: its
 * key above, its index below. So all differ, whoever sorts them gives the one stable order, and
 * this is a bitonic network, a few levels at a time in registers. */
#include "ir/lower/sort/sort.h"

typedef TsTileVal V;

enum { LEVELS = 4 };

typedef struct Make {
  const TsSort *s;
  TsTileBuild b;
  V x, shared;
  int64_t rows, m; /* of the network */
} Make;

static V flag(Make *m, V i, int64_t bit) {
  V and = ts_short_by(&m->b, TS_OP_bitwise_and, i, bit);
  return ts_short_by(&m->b, TS_OP_ne, and, 0);
}

static void exchange(Make *m, V *lo, V *hi, V down) {
  V swap = ts_tile_op2(&m->b, TS_OP_gt, *lo, *hi), x = *lo, y = *hi;
  if (down) swap = ts_tile_op2(&m->b, TS_OP_logical_xor, swap, down);
  *lo = ts_tile_op3(&m->b, TS_OP_where, swap, y, x);
  *hi = ts_tile_op3(&m->b, TS_OP_where, swap, x, y);
}

/* Levels j, j/2, .. of the merges of `width`, at once. */
static void levels(Make *m, int64_t width, int64_t j, int count) {
  static const int64_t axes[3] = {0, 1, 3};
  TsTileBuild *b = &m->b;
  int64_t leaves = 1 << count, last = 2 * j / leaves;
  int64_t dim[4] = {m->rows, m->m / (2 * j), leaves, last}, tile[3] = {dim[0], dim[1], last};
  V view = ts_short_view(b, m->shared, 4, dim), zero = ts_tile_index(b, 0), v[1 << LEVELS];
  TsTileType t = ts_tile_type(TS_DT_i64, 3, tile);
  TsTileAccess a = {.naxis = 3, .axes = axes};
  for (int64_t i = 0; i < leaves; i++) {
    V at[4] = {zero, zero, ts_tile_index(b, i), zero};
    v[i] = ts_tile_load(b, view, at, &t, &a);
  }
  V down = width < m->m ? flag(m, ts_short_iota(b, &t, 1), width / (2 * j)) : NULL;
  for (int64_t half = leaves / 2; half; half /= 2)
    for (int64_t i = 0; i < leaves; i++)
      if (!(i & half)) exchange(m, &v[i], &v[i + half], down);
  for (int64_t i = 0; i < leaves; i++) {
    V at[4] = {zero, zero, ts_tile_index(b, i), zero};
    ts_tile_store(b, view, at, v[i], &a);
  }
}

static void network(Make *m) {
  for (int64_t width = 2; width <= m->m; width *= 2)
    for (int64_t j = width / 2; j;) {
      int count = 0;
      for (int64_t i = j; i && count < LEVELS; i /= 2) count++;
      levels(m, width, j, count);
      j >>= count;
    }
}

void ts_sort_network_put(TsTileBuild *b, V shared, int64_t rows, int64_t m) {
  Make own = {.b = *b, .shared = shared, .rows = rows, .m = m};
  network(&own);
}

/* Where element `index` of the rows of a tile is in x. */
static V place_of(Make *m, const TsTileType *t, V row, V index) {
  TsTileBuild *b = &m->b;
  V r = ts_tile_op2(b, TS_OP_add, ts_short_iota(b, t, 0), ts_short_splat(b, t, row));
  return ts_tile_op2(b, TS_OP_add, ts_short_by(b, TS_OP_mul, r, m->s->n), index);
}

static void take(Make *m, V row) {
  TsTileBuild *b = &m->b;
  int64_t dim[2] = {m->s->rows, m->s->m};
  TsTileType t = ts_tile_type(TS_DT_i64, 2, dim);
  V i = ts_short_iota(b, &t, 1), zero = ts_tile_index(b, 0), at[2] = {zero, zero};
  TsOrderKey how = ts_order_key(m->s->dtype, m->s->descending);
  V x = ts_short_gather(b, m->x, place_of(m, &t, row, i), true);
  V key = ts_tile_cast(b, ts_order_key_of(b, &how, x), TS_DT_i64);
  /* Keys of 32 bits as signed numbers: their order is that of the words. */
  if (how.bits == 32) key = ts_short_by(b, TS_OP_bitwise_xor, key, INT32_MIN);
  V none = ts_short_by(b, TS_OP_ge, i, m->s->n);
  if (m->s->m > m->s->n)
    key = ts_tile_op3(b, TS_OP_where, none, ts_short_int(b, &t, 0x7fffffff), key);
  V in[2] = {key, ts_short_int(b, &t, 32)};
  key = ts_tile_emit1(b, TS_TILE_shl, 2, in, NULL, &t);
  key = ts_tile_op2(b, TS_OP_bitwise_or, key, i);
  ts_tile_store(b, ts_short_view(b, m->shared, 2, dim), at, key, NULL);
}

TsTile *ts_sort_network(const TsSort *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  Make m = {.s = s, .rows = s->rows, .m = s->m};
  int64_t rows = ts_tile_size(k, "rows"), n = ts_tile_size(k, "N"), side[2] = {rows, s->k};
  int64_t all = s->rows * s->m, dim[2] = {s->rows, s->m};
  TsTileType in = ts_tile_type(s->dtype, 1, &n);
  TsTileType flat = ts_tile_type(TS_DT_i64, 1, &all), tile = ts_tile_type(TS_DT_i64, 2, dim);
  TsTileType out = ts_tile_type(s->dtype, 2, side), index = ts_tile_type(TS_DT_i64, 2, side);
  m.x = ts_tile_param(k, "x", &in, false);
  V y = s->value ? ts_tile_param(k, "y", &out, true) : NULL;
  V p = ts_tile_param(k, "place", &index, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  k->vector = 8;
  int64_t threads = all / 16 < 32 ? 32 : all / 16 > 1024 ? 1024 : all / 16;
  k->threads = (int)threads;
  V count = ts_short_dim(b, 0), zero = ts_tile_index(b, 0);
  TsTileLoop loop = ts_tile_for(b, zero, count, s->rows, true, 0, NULL);
  m.shared = ts_tile_alloc(b, TS_SPACE_shared, &flat);
  take(&m, loop.i);
  network(&m);
  V at[2] = {zero, zero}, to[2] = {loop.i, zero};
  TsTileAccess edge = {.edge = true};
  V sorted = ts_tile_load(b, ts_short_view(b, m.shared, 2, dim), at, &tile, NULL);
  V where = ts_short_by(b, TS_OP_bitwise_and, sorted, 0xffffffff);
  V from = place_of(&m, &tile, loop.i, where);
  V value = s->value ? ts_short_gather(b, m.x, from, true) : NULL;
  if (y) ts_tile_store(b, y, to, value, &edge);
  ts_tile_store(b, p, to, where, &edge);
  ts_tile_for_end(b, &loop, NULL, NULL);
  return k;
}
