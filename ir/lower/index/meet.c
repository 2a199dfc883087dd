/* See ir/lower/index/scatter.h. Elements that lead to one place meet in the order in which
 * they stand, as in vm/exec/scatter.c, vm/exec/index_add.c and vm/exec/segment.c: the keys
 * are sorted by a stable sort, and who owns a place of the result walks its run. */
#include "ir/lower/index/scatter.h"

typedef TsTileVal V;

enum {
  PIECE = 1024,
  LINES = 256,
  OWNERS = 256,  /* places of a round whose runs are walked side by side */
  STEPS = 8,     /* elements of a run that are asked for at once */
  IN_FLIGHT = 4, /* slices */
  SLICE = 1024,  /* elements of a piece of a slice */
};

typedef struct Make {
  const TsScatter *s;
  TsTileBuild b;
  TsTileType t; /* i64, of the round's elements */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V pick(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }
static V num(Make *m, int64_t i) { return ts_tile_index(&m->b, i); }
static V whole(Make *m, int64_t i) { return ts_short_int(&m->b, &m->t, i); }
static V splat(Make *m, V x) { return ts_short_splat(&m->b, &m->t, x); }
static V dim(Make *m, int i) { return ts_short_dim(&m->b, i); }
static V gather(Make *m, V from, V at) { return ts_short_gather(&m->b, from, at, true); }
static V wide(Make *m, V x) { return ts_tile_cast(&m->b, x, TS_DT_i64); }

static Make begin(const TsScatter *s, TsTile *k, int64_t n) {
  Make m = {.s = s, .b = ts_tile_build(k), .t = ts_tile_vector(TS_DT_i64, n)};
  k->threads = (int)(n < 256 ? n : 256), k->vector = 4;
  return m;
}

static V elements(Make *m, V first) {
  return op2(m, TS_OP_add, ts_short_iota(&m->b, &m->t, 0), splat(m, first));
}

static V taken(Make *m, V src, V at) {
  return ts_tile_cast(&m->b, gather(m, src, at), m->s->acc);
}

static V met(Make *m, V acc, V x) {
  switch (m->s->meet) {
  case MEET_last: return x;
  case MEET_prod: return op2(m, TS_OP_mul, acc, x);
  case MEET_min: return op2(m, TS_OP_minimum, acc, x);
  case MEET_max: return op2(m, TS_OP_maximum, acc, x);
  default: return op2(m, TS_OP_add, acc, x);
  }
}

/* ---- where elements lead */
TsTile *ts_scatter_leads(const TsScatter *s) {
  TsTile *k = ts_tile_new("scatter_leads");
  if (!k) return NULL;
  int64_t ni = ts_tile_size(k, "I"), n = ts_tile_size(k, "N");
  ts_tile_size(k, "Y");
  V index = ts_short_param(k, "index", s->map.index, ni, false),
    to = ts_short_param(k, "to", TS_DT_i32, n, true);
  Make m = begin(s, k, PIECE);
  TsTileLoop l = ts_tile_for(&m.b, num(&m, 0), dim(&m, 1), PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V at = ts_index_map_at(&m.b, &s->map, index, elements(&m, l.i));
  V lost = op2(&m, TS_OP_lt, at, whole(&m, 0));
  at = pick(&m, lost, splat(&m, dim(&m, 2)), at);
  ts_tile_store(&m.b, to, &l.i, ts_tile_cast(&m.b, at, TS_DT_i32), &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

/* ---- lines */
/* Element i of line `line`, in the row-major order of the map. */
static V on_line(Make *m, V line, V i) {
  const TsIndexMap *map = &m->s->map;
  int64_t inner = 1, n = map->dim[m->s->axis];
  for (int a = m->s->axis + 1; a < map->ndim; a++) inner *= map->dim[a];
  V in = ts_short_by(&m->b, TS_OP_mod, line, inner);
  V at = ts_short_by(&m->b, TS_OP_mul, ts_short_by(&m->b, TS_OP_floordiv, line, inner), n);
  at = ts_short_by(&m->b, TS_OP_mul, op2(m, TS_OP_add, at, splat(m, i)), inner);
  return op2(m, TS_OP_add, at, in);
}

TsTile *ts_scatter_lines(const TsScatter *s) {
  TsTile *k = ts_tile_new("scatter_lines");
  if (!k) return NULL;
  int64_t ni = ts_tile_size(k, "I"), ns = ts_tile_size(k, "S"), ny = ts_tile_size(k, "Y");
  ts_tile_size(k, "lines");
  V index = ts_short_param(k, "index", s->map.index, ni, false),
    src = ts_short_param(k, "src", s->src, ns, false);
  V y = ts_short_param(k, "y", s->d, ny, true);
  Make m = begin(s, k, LINES);
  TsTileLoop l = ts_tile_for(&m.b, num(&m, 0), dim(&m, 3), LINES, true, 0, NULL);
  V line = elements(&m, l.i), none = whole(&m, -1);
  V in = op2(&m, TS_OP_lt, line, splat(&m, dim(&m, 3)));
  TsTileLoop i = ts_tile_for(&m.b, num(&m, 0), num(&m, s->map.dim[s->axis]), 1, false, 0, NULL);
  V e = pick(&m, in, on_line(&m, line, i.i), none);
  V at = ts_index_map_at(&m.b, &s->map, index, e), x = taken(&m, src, e);
  if (s->meet != MEET_last) x = met(&m, taken(&m, y, at), x);
  ts_order_scatter(&m.b, y, at, ts_tile_cast(&m.b, x, s->d), true);
  ts_tile_for_end(&m.b, &i, NULL, NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

/* ---- runs */
/* How many of the sorted keys are below `bound`. steps: halvings of all there are. */
static V below(Make *m, V key, V bound, V count, V steps) {
  V carry[2] = {whole(m, 0), splat(m, count)}, out[2] = {NULL, NULL};
  TsTileLoop l = ts_tile_for(&m->b, num(m, 0), steps, 1, false, 2, carry);
  if (!l.stmt || !bound) return NULL;
  V lo = l.carry[0], hi = l.carry[1], sum = op2(m, TS_OP_add, lo, hi);
  V half[2] = {sum, whole(m, 1)};
  V mid = ts_tile_emit1(&m->b, TS_TILE_shr, 2, half, NULL, &m->t);
  V less = op2(m, TS_OP_lt, wide(m, gather(m, key, mid)), bound);
  V open = op2(m, TS_OP_lt, lo, hi);
  less = op2(m, TS_OP_logical_and, less, open);
  carry[0] = pick(m, less, op2(m, TS_OP_add, mid, whole(m, 1)), lo);
  carry[1] = pick(m, less, hi, mid);
  ts_tile_for_end(&m->b, &l, carry, out);
  return out[0];
}

static V largest(Make *m, V x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  return x ? ts_tile_emit1(&m->b, TS_TILE_max, 1, &x, &axis, &one) : NULL;
}

/* acc and the elements [lo, hi) of the runs, all runs of the round side by side. */
static V walk(Make *m, V acc, V lo, V hi, V place, V src) {
  V none = whole(m, -1), x[STEPS], in[STEPS], end = NULL;
  V longest = largest(m, op2(m, TS_OP_sub, hi, lo));
  TsTileLoop l = ts_tile_for(&m->b, num(m, 0), longest, STEPS, false, 1, &acc);
  if (!l.stmt || !longest) return NULL;
  acc = l.carry[0];
  V first = op2(m, TS_OP_add, lo, splat(m, l.i));
  for (int i = 0; i < STEPS; i++) {
    V at = op2(m, TS_OP_add, first, whole(m, i));
    in[i] = op2(m, TS_OP_lt, at, hi);
    V p = wide(m, gather(m, place, pick(m, in[i], at, none)));
    x[i] = taken(m, src, pick(m, in[i], p, none));
  }
  for (int i = 0; i < STEPS; i++) acc = pick(m, in[i], met(m, acc, x[i]), acc);
  ts_tile_for_end(&m->b, &l, &acc, &end);
  return end;
}

static V divided(Make *m, V sum, V count) {
  if (!sum || !count) return NULL;
  TsTileType t = sum->type;
  V n = ts_tile_cast(&m->b, count, m->s->acc);
  if (n && n->type.rank != t.rank) n = ts_short_splat(&m->b, &t, n);
  V several = op2(m, TS_OP_gt, count, ts_short_int(&m->b, &count->type, 1));
  if (several && several->type.rank != t.rank) several = ts_short_splat(&m->b, &t, several);
  return pick(m, several, op2(m, TS_OP_div, sum, n), sum);
}

static V empty(Make *m, const TsTileType *like) {
  TsTileType t = *like;
  t.dtype = (uint8_t)m->s->acc;
  return ts_tile_bits(&m->b, m->s->empty, &t);
}

/* What the owners of elements e have in the end. */
static V owned(Make *m, V e, V lo, V hi, V place, V src, V x) {
  const TsScatter *s = m->s;
  V some = op2(m, TS_OP_lt, lo, hi), none = whole(m, -1), one = whole(m, 1);
  if (s->meet == MEET_last) {
    V last = pick(m, some, op2(m, TS_OP_sub, hi, one), none);
    V p = wide(m, gather(m, place, last));
    return pick(m, some, taken(m, src, pick(m, some, p, none)), taken(m, x, e));
  }
  if (!s->begins) return walk(m, taken(m, x, e), lo, hi, place, src);
  V p = wide(m, gather(m, place, pick(m, some, lo, none)));
  V first = pick(m, some, taken(m, src, pick(m, some, p, none)), empty(m, &m->t));
  V sum = walk(m, first, op2(m, TS_OP_add, lo, one), hi, place, src);
  return s->meet == MEET_mean ? divided(m, sum, op2(m, TS_OP_sub, hi, lo)) : sum;
}

TsTile *ts_scatter_owners(const TsScatter *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N"), ny = ts_tile_size(k, "Y"), ns = ts_tile_size(k, "S");
  ts_tile_size(k, "steps");
  V key = ts_short_param(k, "key", TS_DT_i32, n, false),
    place = ts_short_param(k, "place", TS_DT_i32, n, false);
  V src = ts_short_param(k, "src", s->src, ns, false);
  V x = s->begins ? NULL : ts_short_param(k, "x", s->d, ny, false),
    y = ts_short_param(k, "y", s->d, ny, true);
  Make m = begin(s, k, OWNERS);
  TsTileLoop l = ts_tile_for(&m.b, num(&m, 0), dim(&m, 1), OWNERS, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V e = elements(&m, l.i), count = dim(&m, 0), steps = dim(&m, 3);
  /* Behind the last element there are only keys of what leads nowhere. */
  e = op2(&m, TS_OP_minimum, e, splat(&m, op2(&m, TS_OP_sub, dim(&m, 1), num(&m, 1))));
  V lo = below(&m, key, e, count, steps);
  V hi = below(&m, key, op2(&m, TS_OP_add, e, whole(&m, 1)), count, steps);
  V value = owned(&m, e, lo, hi, place, src, x);
  ts_tile_store(&m.b, y, &l.i, ts_tile_cast(&m.b, value, s->d), &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

/* ---- slices */
TsTile *ts_scatter_starts(const TsScatter *s) {
  TsTile *k = ts_tile_new("scatter_starts");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N");
  ts_tile_size(k, "Y");
  int64_t ends = ts_tile_size(k, "ends");
  ts_tile_size(k, "steps");
  V key = ts_short_param(k, "key", TS_DT_i32, n, false),
    start = ts_short_param(k, "start", TS_DT_i32, ends, true);
  Make m = begin(s, k, PIECE);
  TsTileLoop l = ts_tile_for(&m.b, num(&m, 0), dim(&m, 2), PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V at = below(&m, key, elements(&m, l.i), dim(&m, 0), dim(&m, 3));
  ts_tile_store(&m.b, start, &l.i, ts_tile_cast(&m.b, at, TS_DT_i32), &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

typedef struct Slice {
  V outer, col;
  TsTileType t;
  TsTileAccess edge;
} Slice;

static V slice_of(Make *m, const Slice *p, V memory, V row) {
  V at[3] = {p->outer, row, p->col};
  if (!memory) return NULL;
  TsTileType t = p->t;
  t.dtype = memory->type.dtype;
  return ts_tile_cast(&m->b, ts_tile_load(&m->b, memory, at, &t, &p->edge), m->s->acc);
}

static V scalar_at(Make *m, V memory, V at) {
  TsTileType one = ts_tile_scalar((TsDtype)memory->type.dtype);
  return wide(m, ts_tile_load(&m->b, memory, &at, &one, NULL));
}

/* A run of slices. Places behind its end are those of its last one, whose slice nobody adds. */
static V walk_slices(Make *m, const Slice *p, V acc, V lo, V hi, V place, V src) {
  V x[IN_FLIGHT], in[IN_FLIGHT], end = NULL, last = op2(m, TS_OP_sub, hi, num(m, 1));
  TsTileLoop l = ts_tile_for(&m->b, lo, hi, IN_FLIGHT, false, 1, &acc);
  if (!l.stmt) return NULL;
  acc = l.carry[0];
  for (int i = 0; i < IN_FLIGHT; i++) {
    V at = op2(m, TS_OP_add, l.i, num(m, i));
    in[i] = op2(m, TS_OP_lt, at, hi);
    V row = scalar_at(m, place, op2(m, TS_OP_minimum, at, last));
    x[i] = slice_of(m, p, src, row);
  }
  for (int i = 0; i < IN_FLIGHT && acc; i++)
    acc = pick(m, ts_short_splat(&m->b, &acc->type, in[i]), met(m, acc, x[i]), acc);
  ts_tile_for_end(&m->b, &l, &acc, &end);
  return end;
}

static V slice_value(Make *m, const Slice *p, V row, V lo, V hi, V place, V src, V x) {
  if (!m->s->begins) return walk_slices(m, p, slice_of(m, p, x, row), lo, hi, place, src);
  V some = op2(m, TS_OP_lt, lo, hi), zero = num(m, 0);
  /* Without a run, slice 0 is read and dropped. */
  V at = pick(m, some, lo, zero), first = slice_of(m, p, src, scalar_at(m, place, at));
  if (!first) return NULL;
  first = pick(m, ts_short_splat(&m->b, &first->type, some), first, empty(m, &first->type));
  V sum = walk_slices(m, p, first, op2(m, TS_OP_add, lo, num(m, 1)), hi, place, src);
  return m->s->meet == MEET_mean ? divided(m, sum, op2(m, TS_OP_sub, hi, lo)) : sum;
}

static V slices(const TsScatter *s, TsTile *k, const char *name, TsDtype d, int64_t n, bool w) {
  TsTileType t = ts_tile_type(d, 3, (int64_t[]){s->outer, n, s->inner});
  return ts_tile_param(k, name, &t, w);
}

TsTile *ts_scatter_slices(const TsScatter *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N"), ny = ts_tile_size(k, "Y"), ends = ts_tile_size(k, "ends");
  V start = ts_short_param(k, "start", TS_DT_i32, ends, false);
  V place = ts_short_param(k, "place", TS_DT_i32, n, false),
    src = slices(s, k, "src", s->src, n, false);
  V x = s->begins ? NULL : slices(s, k, "x", s->d, ny, false);
  V y = slices(s, k, "y", s->d, ny, true);
  Make m = {.s = s, .b = ts_tile_build(k)};
  int64_t piece = s->inner < SLICE ? s->inner : SLICE;
  TsTileLoop l[3];
  l[0] = ts_tile_for(&m.b, num(&m, 0), num(&m, s->outer), 1, true, 0, NULL);
  l[1] = ts_tile_for(&m.b, num(&m, 0), dim(&m, 1), 1, true, 0, NULL);
  l[2] = ts_tile_for(&m.b, num(&m, 0), num(&m, s->inner), piece, true, 0, NULL);
  Slice p = {.outer = l[0].i, .col = l[2].i, .t = ts_tile_vector(s->d, piece)};
  p.edge.edge = s->inner % piece != 0;
  V lo = scalar_at(&m, start, l[1].i);
  V hi = scalar_at(&m, start, op2(&m, TS_OP_add, l[1].i, num(&m, 1)));
  V value = slice_value(&m, &p, l[1].i, lo, hi, place, src, x),
    at[3] = {l[0].i, l[1].i, l[2].i};
  ts_tile_store(&m.b, y, at, ts_tile_cast(&m.b, value, s->d), &p.edge);
  for (int i = 3; i-- > 0;) ts_tile_for_end(&m.b, &l[i], NULL, NULL);
  return k;
}
