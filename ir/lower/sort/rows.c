/* Rows of up to 16384 elements, one a block, in shared memory: sorted by counting digits, or
 * the first k of them found by halving what the last of these can be, bit by bit, and then
 * sorted alone. */
#include "ir/lower/sort/sort.h"

typedef TsTileVal V;

enum { BINS = TS_ORDER_BINS, WIDE_PLACES = 8192, CHOICE_BITS = 2 };

typedef struct Make {
  const TsSort *s;
  TsTileBuild b;
  TsOrderKey how;
  V x, y, place;       /* flat */
  V row;               /* of the results */
  V first, len, shift; /* where it begins in x, its elements, and the number of the first */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }
static V splat(Make *m, V like, V x) {
  return like ? ts_short_splat(&m->b, &like->type, x) : NULL;
}
static V pick(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }

static V in_x(Make *m, V index) { return op2(m, TS_OP_add, index, splat(m, index, m->first)); }

static V in_results(Make *m, V index) {
  V first = op2(m, TS_OP_mul, m->row, ts_tile_index(&m->b, m->s->k));
  return op2(m, TS_OP_add, index, splat(m, index, first));
}

static void find_row(Make *m) {
  TsTileBuild *b = &m->b;
  const TsSort *s = m->s;
  V n = ts_tile_index(b, s->n), pieces = ts_tile_index(b, s->pieces);
  m->len = n, m->shift = NULL;
  m->first = op2(m, TS_OP_mul, m->row, n);
  if (s->pieces < 2) return;
  V whole = ts_tile_index(b, s->whole), row = op2(m, TS_OP_floordiv, m->row, pieces);
  m->shift = op2(m, TS_OP_mul, op2(m, TS_OP_mod, m->row, pieces), n);
  m->first = op2(m, TS_OP_add, op2(m, TS_OP_mul, row, whole), m->shift);
  m->len = op2(m, TS_OP_minimum, op2(m, TS_OP_sub, whole, m->shift), n);
}

/* Behind the last element the last key. */
static V keys_at(Make *m, V pos) {
  V in = op2(m, TS_OP_lt, pos, splat(m, pos, m->len));
  if (!in) return NULL;
  V at = pick(m, in, in_x(m, pos), ts_short_int(&m->b, &pos->type, -1));
  V x = ts_short_gather(&m->b, m->x, at, true), key = ts_order_key_of(&m->b, &m->how, x);
  return pick(m, in, key, ts_order_last(&m->b, &m->how, &pos->type));
}

/* Places `from` of the row to places `pos` of the results, as far as there are results. */
static void put_results(Make *m, V pos, V from) {
  TsTileBuild *b = &m->b;
  V in = by(m, TS_OP_lt, pos, m->s->k);
  if (!in) return;
  V to = pick(m, in, in_results(m, pos), ts_short_int(b, &pos->type, -1));
  if (m->y) ts_order_scatter(b, m->y, to, ts_short_gather(b, m->x, in_x(m, from), true), true);
  if (m->shift) from = op2(m, TS_OP_add, from, splat(m, from, m->shift));
  ts_order_scatter(b, m->place, to, from, true);
}

static V shared(Make *m, TsDtype d, int64_t n) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_alloc(&m->b, TS_SPACE_shared, &t);
}

/* ---- sorted */
static void put_sorted(Make *m) {
  TsTileBuild *b = &m->b;
  const TsOrderTile *t = &m->s->tile;
  int64_t all = m->s->m;
  TsDtype of_places = all > WIDE_PLACES ? TS_DT_i16 : TS_DT_i32;
  V keys = shared(m, m->how.wide ? TS_DT_i64 : TS_DT_i32, all),
    places = shared(m, of_places, all);
  V pos = ts_order_position(b, t);
  ts_order_store(b, t, keys, keys_at(m, pos));
  ts_order_store(b, t, places, ts_tile_cast(b, pos, of_places));
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, m->how.bits),
                             TS_ORDER_DIGIT, false, 0, NULL);
  V key = ts_order_load(b, t, keys), place = ts_order_load(b, t, places);
  TsOrderPlaces o = ts_order_places(b, ts_order_digit(b, key, l.i, TS_ORDER_DIGIT), BINS);
  ts_order_scatter(b, keys, o.place, key, false);
  ts_order_scatter(b, places, o.place, place, false);
  ts_tile_for_end(b, &l, NULL, NULL);
  V from = ts_tile_cast(b, ts_order_load(b, t, places), TS_DT_i64);
  put_results(m, pos, from);
}

/* ---- chosen */
/* The key of place k - 1 of the sorted ones: the largest number below which there are fewer
 * than k keys. */
static V last_chosen(Make *m) {
  TsTileBuild *b = &m->b;
  TsTileType line = ts_tile_vector(TS_DT_i64, m->s->m), one = ts_tile_scalar(TS_DT_i32);
  V key = keys_at(m, ts_short_iota(b, &line, 0)), bound = ts_tile_bits(b, 0, &one);
  V bit = ts_tile_bits(b, 1ull << (m->how.bits - 1), &one);
  V carry[2] = {bound, bit}, out[2] = {NULL, NULL};
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, m->how.bits), 1, false, 2, carry);
  if (!l.stmt || !key) return NULL;
  V try = op2(m, TS_OP_bitwise_or, l.carry[0], l.carry[1]);
  V below = ts_tile_cast(b, op2(m, TS_TILE_ult, key, splat(m, key, try)), TS_DT_i32);
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType sum = ts_tile_scalar(TS_DT_i64);
  V count = below ? ts_tile_emit1(b, TS_TILE_sum, 1, &below, &axis, &sum) : NULL;
  V few = op2(m, TS_OP_lt, count, ts_tile_index(b, m->s->k));
  V half[2] = {l.carry[1], ts_tile_bits(b, 1, &one)};
  carry[0] = pick(m, few, try, l.carry[0]);
  carry[1] = ts_tile_emit1(b, TS_TILE_shr, 2, half, NULL, &one);
  ts_tile_for_end(b, &l, carry, out);
  return out[0];
}

/* Key above, place below, in the order of signed words. */
static V word_of(Make *m, V key, V pos) {
  TsTileBuild *b = &m->b;
  if (!key) return NULL;
  if (m->how.bits == 32)
    key = op2(m, TS_OP_bitwise_xor, key, ts_tile_bits(b, 1ull << 31, &key->type));
  key = ts_tile_cast(b, key, TS_DT_i64);
  if (!key) return NULL;
  V in[2] = {key, ts_short_int(b, &key->type, 32)};
  V high = ts_tile_emit1(b, TS_TILE_shl, 2, in, NULL, &key->type);
  return op2(m, TS_OP_bitwise_or, high, pos);
}

static void put_chosen(Make *m) {
  TsTileBuild *b = &m->b;
  int64_t n = 2;
  while (n < m->s->k) n *= 2;
  TsTileType list = ts_tile_vector(TS_DT_i64, n);
  V words = shared(m, TS_DT_i64, n), zero = ts_tile_index(b, 0);
  ts_tile_store(b, words, &zero, ts_short_int(b, &list, INT64_MAX), NULL);
  V last = last_chosen(m), pos = ts_order_position(b, &m->s->tile), key = keys_at(m, pos);
  if (!key || !last) return;
  V bound = splat(m, key, last), two = ts_tile_bits(b, 2, &key->type);
  V digit = pick(m, op2(m, TS_OP_eq, key, bound), ts_tile_bits(b, 1, &key->type), two);
  digit = pick(m, op2(m, TS_TILE_ult, key, bound), ts_tile_bits(b, 0, &key->type), digit);
  V place = ts_tile_cast(b, ts_order_places(b, digit, 1 << CHOICE_BITS).place, TS_DT_i64);
  if (!place) return;
  V to = pick(m, by(m, TS_OP_lt, place, m->s->k), place, ts_short_int(b, &place->type, -1));
  ts_order_scatter(b, words, to, word_of(m, key, pos), true);
  ts_sort_network_put(b, words, 1, n);
  V sorted = ts_tile_load(b, words, &zero, &list, NULL);
  put_results(m, ts_short_iota(b, &list, 0), by(m, TS_OP_bitwise_and, sorted, 0xffffffff));
}

static TsTile *build(const TsSort *s, void (*put)(Make *)) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  Make m = {.s = s, .how = ts_order_key(s->dtype, s->descending)};
  ts_tile_size(k, "rows");
  int64_t n = ts_tile_size(k, "N"), out = ts_tile_size(k, "M");
  TsTileType in = ts_tile_vector(s->dtype, n), y = ts_tile_vector(s->dtype, out);
  TsTileType place = ts_tile_vector(TS_DT_i64, out);
  m.x = ts_tile_param(k, "x", &in, false);
  if (s->value) m.y = ts_tile_param(k, "y", &y, true);
  m.place = ts_tile_param(k, "place", &place, true);
  m.b = ts_tile_build(k);
  k->threads = 32 * s->tile.warps, k->vector = 4;
  TsTileLoop l =
      ts_tile_for(&m.b, ts_tile_index(&m.b, 0), ts_short_dim(&m.b, 0), 1, true, 0, NULL);
  m.row = l.i;
  find_row(&m);
  put(&m);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

TsTile *ts_sort_counted(const TsSort *s) { return build(s, put_sorted); }
TsTile *ts_sort_chosen(const TsSort *s) { return build(s, put_chosen); }
