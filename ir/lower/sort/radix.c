/* Sorting rows of any length on a device, eight bits of the keys at a time. A round of the grid
 * has a piece of a row:
 *
 *   count  how many elements of each digit a piece has
 *   scan   where they begin: of all pieces before it, and of smaller digits
 *   move   the piece, ordered in shared memory, goes there in runs of one digit
 *
 * A row that is one piece is sorted by all its digits at once, in shared memory (`block`).
 *
 * See ir/lower/sort/order.h. */
#include "ir/lower/sort/order.h"

#include <string.h>

typedef TsTileVal V;

enum {
  CHUNKS = 16,
  WARPS = 8,
  PIECE = CHUNKS * WARPS * 32,
  BINS = TS_ORDER_BINS,
  FEW = 16,    /* pieces of a row whose counts lie side by side by digit */
  LINE = 1024, /* counts that are added up at a time */
};

typedef enum Step { STEP_count, STEP_scan, STEP_move, STEP_block } Step;
enum { DIM_rows, DIM_n, DIM_pieces, DIM_all, DIM_low, DIM_counts, DIM_bases, DIMS };

typedef struct Radix {
  Step step;
  bool wide, first, few; /* first: places are the elements' own numbers */
} Radix;

typedef struct Make {
  const Radix *s;
  TsTileBuild b;
  TsOrderTile tile;
  V key, place, count, base, to_key, to_place;
  V row, piece; /* of this round */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V dim(Make *m, int i) { return ts_short_dim(&m->b, i); }
static V num(Make *m, int64_t i) { return ts_tile_index(&m->b, i); }
static V splat(Make *m, V like, V x) {
  return like ? ts_short_splat(&m->b, &like->type, x) : NULL;
}

/* ---- a piece's keys; behind the row's end the largest number */
typedef struct Piece {
  V at, in, key; /* places in the row's memory, -1 outside; whether it is inside */
} Piece;

static Piece load_piece(Make *m) {
  TsTileBuild *b = &m->b;
  Piece p;
  V pos = ts_order_position(b, &m->tile);
  pos = op2(m, TS_OP_add, pos, splat(m, pos, op2(m, TS_OP_mul, m->piece, num(m, PIECE))));
  p.in = op2(m, TS_OP_lt, pos, splat(m, pos, dim(m, DIM_n)));
  V first = op2(m, TS_OP_mul, m->row, dim(m, DIM_n));
  p.at = op2(m, TS_OP_add, pos, splat(m, pos, first));
  if (!p.at) return p;
  p.at = ts_tile_op3(b, TS_OP_where, p.in, p.at, ts_short_int(b, &p.at->type, -1));
  V key = ts_short_gather(b, m->key, p.at, true);
  if (!key) return p;
  uint64_t last = m->s->wide ? UINT64_MAX : UINT32_MAX;
  p.key = ts_tile_op3(b, TS_OP_where, p.in, key, ts_tile_bits(b, last, &key->type));
  return p;
}

/* ---- where counts lie: by digit, then by piece; or the other way round */
static V counts_at(Make *m, V digit, V piece) {
  TsTileBuild *b = &m->b;
  V by_digit = m->s->few ? num(m, 1) : dim(m, DIM_pieces);
  V by_piece = m->s->few ? num(m, BINS) : num(m, 1);
  V first = op2(m, TS_OP_mul, m->row, op2(m, TS_OP_mul, dim(m, DIM_pieces), num(m, BINS)));
  first = op2(m, TS_OP_add, first, op2(m, TS_OP_mul, piece, by_piece));
  if (!digit) return NULL;
  V at = op2(m, TS_OP_mul, digit, ts_short_splat(b, &digit->type, by_digit));
  return op2(m, TS_OP_add, at, ts_short_splat(b, &digit->type, first));
}

static V digits(Make *m) {
  TsTileType t = ts_tile_vector(TS_DT_i64, BINS);
  return ts_short_iota(&m->b, &t, 0);
}

static void put_count(Make *m) {
  TsTileBuild *b = &m->b;
  Piece p = load_piece(m);
  V digit = ts_order_digit(b, p.key, dim(m, DIM_low), TS_ORDER_DIGIT);
  TsOrderPlaces o = ts_order_places(b, digit, BINS);
  ts_order_scatter(b, m->count, counts_at(m, digits(m), m->piece), o.count, false);
}

/* ---- scan */
/* Sums up to each element, through shared memory whose first half is zeros. */
static V sums(Make *m, V shared, V x, int64_t n) {
  TsTileBuild *b = &m->b;
  V end = num(m, n);
  for (int64_t by = 1; by < n && x; by *= 2) {
    V before = num(m, n - by);
    ts_tile_store(b, shared, &end, x, NULL);
    x = op2(m, TS_OP_add, x, ts_tile_load(b, shared, &before, &x->type, NULL));
  }
  return x;
}

static V room_for_sums(Make *m, int64_t n) {
  TsTileType room = ts_tile_vector(TS_DT_i32, 2 * n), zeros = ts_tile_vector(TS_DT_i32, n);
  V shared = ts_tile_alloc(&m->b, TS_SPACE_shared, &room), start = num(m, 0);
  ts_tile_store(&m->b, shared, &start, ts_tile_bits(&m->b, 0, &zeros), NULL);
  return shared;
}

static V base_at(Make *m, V digit) {
  V first = op2(m, TS_OP_mul, m->row, num(m, BINS));
  return op2(m, TS_OP_add, digit, splat(m, digit, first));
}

/* Sums of all digits become where they begin. */
static void put_bases(Make *m, V total) {
  V shared = room_for_sums(m, BINS);
  V upto = sums(m, shared, total, BINS);
  ts_order_scatter(&m->b, m->base, base_at(m, digits(m)), op2(m, TS_OP_sub, upto, total),
                   false);
}

static V rows_loop(Make *m, TsTileLoop *l) {
  *l = ts_tile_for(&m->b, num(m, 0), dim(m, DIM_rows), 1, true, 0, NULL);
  return l->i;
}

static void scan_few(Make *m) {
  TsTileBuild *b = &m->b;
  TsTileType t = ts_tile_vector(TS_DT_i32, BINS);
  TsTileLoop rows, l;
  m->row = rows_loop(m, &rows);
  V total = ts_tile_bits(b, 0, &t);
  l = ts_tile_for(b, num(m, 0), dim(m, DIM_pieces), 1, false, 1, &total);
  if (!l.stmt) return;
  V at = counts_at(m, digits(m), l.i), here = ts_short_gather(b, m->count, at, false);
  ts_order_scatter(b, m->count, at, l.carry[0], false);
  total = op2(m, TS_OP_add, l.carry[0], here);
  V end = NULL;
  ts_tile_for_end(b, &l, &total, &end);
  put_bases(m, end);
  ts_tile_for_end(b, &rows, NULL, NULL);
}

/* One digit of one row. */
static void scan_digit(Make *m, V digit) {
  TsTileBuild *b = &m->b;
  TsTileType t = ts_tile_vector(TS_DT_i64, LINE), one = ts_tile_scalar(TS_DT_i32);
  V shared = room_for_sums(m, LINE), carry = ts_tile_bits(b, 0, &one),
    last = num(m, 2 * LINE - 1);
  V first = op2(m, TS_OP_mul, op2(m, TS_OP_add, op2(m, TS_OP_mul, m->row, num(m, BINS)), digit),
                dim(m, DIM_pieces));
  TsTileLoop l = ts_tile_for(b, num(m, 0), dim(m, DIM_pieces), LINE, false, 1, &carry);
  if (!l.stmt) return;
  V i = ts_short_iota(b, &t, 0);
  i = op2(m, TS_OP_add, i, ts_short_splat(b, &t, l.i));
  V in = op2(m, TS_OP_lt, i, ts_short_splat(b, &t, dim(m, DIM_pieces)));
  V at = op2(m, TS_OP_add, i, ts_short_splat(b, &t, first));
  at = ts_tile_op3(b, TS_OP_where, in, at, ts_short_int(b, &t, -1));
  V here = ts_short_gather(b, m->count, at, true), upto = sums(m, shared, here, LINE),
    end = num(m, LINE);
  ts_tile_store(b, shared, &end, upto, NULL);
  V before = op2(m, TS_OP_add, op2(m, TS_OP_sub, upto, here), splat(m, upto, l.carry[0]));
  ts_order_scatter(b, m->count, at, before, true);
  carry = op2(m, TS_OP_add, l.carry[0], ts_tile_load(b, shared, &last, &one, NULL));
  V total = NULL;
  ts_tile_for_end(b, &l, &carry, &total);
  V to = op2(m, TS_OP_add, op2(m, TS_OP_mul, m->row, num(m, BINS)), digit);
  ts_tile_store(b, m->base, &to, total, NULL);
}

static void scan_many(Make *m) {
  TsTileBuild *b = &m->b;
  TsTileLoop rows, l;
  m->row = rows_loop(m, &rows);
  l = ts_tile_for(b, num(m, 0), num(m, BINS), 1, true, 0, NULL);
  scan_digit(m, l.i);
  ts_tile_for_end(b, &l, NULL, NULL);
  ts_tile_for_end(b, &rows, NULL, NULL);
  m->row = rows_loop(m, &rows); /* the second phase */
  put_bases(m, ts_short_gather(b, m->base, base_at(m, digits(m)), false));
  ts_tile_for_end(b, &rows, NULL, NULL);
}

/* ---- move */
static V shared_of(Make *m, TsDtype d, int64_t n) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_alloc(&m->b, TS_SPACE_shared, &t);
}

static void put_move(Make *m) {
  TsTileBuild *b = &m->b;
  Piece p = load_piece(m);
  V keys = shared_of(m, m->s->wide ? TS_DT_i64 : TS_DT_i32, PIECE), zero = num(m, 0);
  V places = shared_of(m, TS_DT_i32, PIECE), bases = shared_of(m, TS_DT_i32, BINS);
  V place = m->s->first || !p.at ? NULL : ts_short_gather(b, m->place, p.at, true);
  if (m->s->first) {
    V i = ts_order_position(b, &m->tile);
    i = op2(m, TS_OP_add, i, splat(m, i, op2(m, TS_OP_mul, m->piece, num(m, PIECE))));
    place = ts_tile_cast(b, i, TS_DT_i32);
  }
  TsOrderPlaces o =
      ts_order_places(b, ts_order_digit(b, p.key, dim(m, DIM_low), TS_ORDER_DIGIT), BINS);
  V i = digits(m), base = ts_short_gather(b, m->base, base_at(m, i), false);
  base =
      op2(m, TS_OP_add, base, ts_short_gather(b, m->count, counts_at(m, i, m->piece), false));
  ts_tile_store(b, bases, &zero, op2(m, TS_OP_sub, base, o.start), NULL);
  ts_order_scatter(b, keys, o.place, p.key, false);
  ts_order_scatter(b, places, o.place, place, false);
  /* Now neighbours have neighbouring places in memory, but for where digits begin. */
  V key = ts_order_load(b, &m->tile, keys);
  V digit = ts_order_digit(b, key, dim(m, DIM_low), TS_ORDER_DIGIT);
  V to = digit ? ts_short_gather(b, bases, ts_tile_cast(b, digit, TS_DT_i64), false) : NULL;
  to = op2(m, TS_OP_add, ts_tile_cast(b, to, TS_DT_i64), ts_order_position(b, &m->tile));
  if (!to) return;
  V in = op2(m, TS_OP_lt, to, splat(m, to, dim(m, DIM_n)));
  V first = op2(m, TS_OP_mul, m->row, dim(m, DIM_n));
  to = ts_tile_op3(b, TS_OP_where, in, op2(m, TS_OP_add, to, splat(m, to, first)),
                   ts_short_int(b, &to->type, -1));
  ts_order_scatter(b, m->to_key, to, key, true);
  ts_order_scatter(b, m->to_place, to, ts_order_load(b, &m->tile, places), true);
}

/* ---- a row of one piece; size `low` is how many bits the keys have */
static void put_block(Make *m) {
  TsTileBuild *b = &m->b;
  Piece p = load_piece(m);
  V keys = shared_of(m, m->s->wide ? TS_DT_i64 : TS_DT_i32, PIECE),
    pos = ts_order_position(b, &m->tile);
  V places = shared_of(m, TS_DT_i32, PIECE);
  V place = m->s->first || !p.at ? ts_tile_cast(b, pos, TS_DT_i32)
                                 : ts_short_gather(b, m->place, p.at, true);
  ts_order_store(b, &m->tile, keys, p.key);
  ts_order_store(b, &m->tile, places, place);
  TsTileLoop l = ts_tile_for(b, num(m, 0), dim(m, DIM_low), TS_ORDER_DIGIT, false, 0, NULL);
  V key = ts_order_load(b, &m->tile, keys), own = ts_order_load(b, &m->tile, places);
  TsOrderPlaces o = ts_order_places(b, ts_order_digit(b, key, l.i, TS_ORDER_DIGIT), BINS);
  ts_order_scatter(b, keys, o.place, key, false);
  ts_order_scatter(b, places, o.place, own, false);
  ts_tile_for_end(b, &l, NULL, NULL);
  ts_order_scatter(b, m->to_key, p.at, ts_order_load(b, &m->tile, keys), true);
  ts_order_scatter(b, m->to_place, p.at, ts_order_load(b, &m->tile, places), true);
}

/* ---- kernels */
static void parameters(Make *m, TsTile *k) {
  static const char *const name[DIMS] = {"rows", "N",      "pieces", "all",
                                         "low",  "counts", "bases"};
  const Radix *s = m->s;
  int64_t size[DIMS];
  for (int i = 0; i < DIMS; i++) size[i] = ts_tile_size(k, name[i]);
  TsDtype d = s->wide ? TS_DT_i64 : TS_DT_i32;
  bool block = s->step == STEP_block, scan = s->step == STEP_scan;
  bool move = s->step == STEP_move || block;
  if (!scan) m->key = ts_short_param(k, "key", d, size[DIM_all], false);
  if (move && !s->first) m->place = ts_short_param(k, "place", TS_DT_i32, size[DIM_all], false);
  if (!block) m->count = ts_short_param(k, "count", TS_DT_i32, size[DIM_counts], !move);
  if (!block && (scan || move))
    m->base = ts_short_param(k, "base", TS_DT_i32, size[DIM_bases], !move);
  if (move) m->to_key = ts_short_param(k, "sorted", d, size[DIM_all], true);
  if (move) m->to_place = ts_short_param(k, "from", TS_DT_i32, size[DIM_all], true);
}

static TsTile *build(const Radix *s) {
  static const char *const name[] = {"order_count", "order_scan", "order_move", "order_block"};
  TsTile *k = ts_tile_new(name[s->step]);
  if (!k) return NULL;
  Make m = {.s = s, .tile = {CHUNKS, WARPS}};
  parameters(&m, k);
  m.b = ts_tile_build(k);
  k->threads = 32 * WARPS, k->vector = 4;
  if (s->step == STEP_scan) {
    s->few ? scan_few(&m) : scan_many(&m);
    return k;
  }
  TsTileLoop rows, l;
  m.row = rows_loop(&m, &rows);
  l = ts_tile_for(&m.b, num(&m, 0), dim(&m, DIM_pieces), 1, true, 0, NULL);
  m.piece = l.i;
  s->step == STEP_count ? put_count(&m) : s->step == STEP_move ? put_move(&m) : put_block(&m);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  ts_tile_for_end(&m.b, &rows, NULL, NULL);
  return k;
}

/* ---- steps */
typedef struct Pass {
  TsSteps *x;
  Radix s;
  int64_t dim[DIMS];
  int key, place, count, base, to_key, to_place;
} Pass;

static void step(Pass *p, Step which) {
  int arg[6], n = 0;
  bool block = which == STEP_block, move = which == STEP_move || block;
  p->s.step = which;
  if (which != STEP_scan) arg[n++] = p->key;
  if (move && !p->s.first) arg[n++] = p->place;
  if (!block) arg[n++] = p->count;
  if (which == STEP_scan || which == STEP_move) arg[n++] = p->base;
  if (move) arg[n++] = p->to_key, arg[n++] = p->to_place;
  ts_steps_add(p->x, build(&p->s), arg, p->dim);
}

static void swap(int *x, int *y) {
  int t = *x;
  *x = *y, *y = t;
}

/* From the first step to the last one. */
static void pass(Pass *p, int low, Step from, Step to) {
  p->dim[DIM_low] = low;
  for (Step s = from; s <= to; s++) step(p, s);
  swap(&p->key, &p->to_key), swap(&p->place, &p->to_place);
  p->s.first = false;
}

void ts_order_rows(TsSteps *x, TsOrderRows *r) {
  int64_t pieces = (r->n + PIECE - 1) / PIECE, counts = r->rows * pieces * BINS;
  int64_t all = r->rows * r->n;
  Pass p = {.x = x, .key = r->key, .place = r->place};
  p.s = (Radix){.wide = r->wide, .few = pieces <= FEW, .first = r->own};
  int64_t d[DIMS] = {r->rows, r->n, pieces, all, 0, counts, r->rows * BINS};
  memcpy(p.dim, d, sizeof d);
  if (r->own) p.place = ts_steps_temp(x, 4 * all);
  p.to_key = ts_steps_temp(x, (r->wide ? 8 : 4) * all), p.to_place = ts_steps_temp(x, 4 * all);
  if (pieces > 1) {
    p.count = ts_steps_temp(x, 4 * counts), p.base = ts_steps_temp(x, 4 * r->rows * BINS);
    for (int low = 0; low < r->bits; low += TS_ORDER_DIGIT)
      pass(&p, low, STEP_count, STEP_move);
  } else {
    pass(&p, r->bits, STEP_block, STEP_block);
  }
  r->key = p.key, r->place = p.place;
}
