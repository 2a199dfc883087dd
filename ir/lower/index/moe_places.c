/* moe_places on a device: choices are brought together by a stable sort of their experts, so those of
 * an expert stand in the order of tokens, as one thread of the CPU counts them (vm/exec/moe.c).
 * Where a choice has come to is looked for among those of its expert, by halves; nothing is
 * written at places that are computed. */
#include "ir/lower/index/scatter.h"

typedef TsTileVal V;

enum { PIECE = 256, MOST = 4096 /* experts, which are one tile */ };

typedef struct Experts {
  TsDtype index;
  int64_t n, experts, capacity; /* choices; capacity: -1: all that there are */
} Experts;

typedef struct Make {
  const Experts *e;
  TsTileBuild b;
  TsTileType t; /* i64, of the round's elements */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V pick(Make *m, V c, V x, V y) { return ts_tile_op3(&m->b, TS_OP_where, c, x, y); }
static V by(Make *m, int op, V x, int64_t n) { return ts_short_by(&m->b, op, x, n); }
static V whole(Make *m, int64_t i) { return ts_short_int(&m->b, &m->t, i); }
static V gather(Make *m, V from, V at) {
  return ts_tile_cast(&m->b, ts_short_gather(&m->b, from, at, true), TS_DT_i64);
}

static V param(TsTile *k, const char *name, TsDtype d, int64_t n, bool written) {
  TsTileType t = ts_tile_vector(d, n);
  return ts_tile_param(k, name, &t, written);
}

static Make begin(const Experts *e, TsTile *k) {
  Make m = {.e = e, .b = ts_tile_build(k), .t = ts_tile_vector(TS_DT_i64, PIECE)};
  k->threads = PIECE, k->vector = 4;
  return m;
}

/* Elements from `first` on; behind the last of n its own. */
static V elements(Make *m, V first, int64_t n) {
  V e = ts_short_positions(&m->b, &m->t, first);
  return op2(m, TS_OP_minimum, e, whole(m, n - 1));
}

static V range(Make *m, V start, V expert, V *count) {
  V lo = gather(m, start, expert);
  *count = op2(m, TS_OP_sub, gather(m, start, by(m, TS_OP_add, expert, 1)), lo);
  return lo;
}

/* The place in [lo, hi) where `order`, which goes up there, has the number `own`. */
static V found(Make *m, V order, V lo, V hi, V own) {
  V carry[2] = {lo, hi}, out[2] = {NULL, NULL};
  int64_t steps = 0;
  while (m->e->n >> steps) steps++;
  TsTileLoop l = ts_tile_for(&m->b, ts_tile_index(&m->b, 0), ts_tile_index(&m->b, steps), 1,
                             false, 2, carry);
  if (!l.stmt || !own) return NULL;
  lo = l.carry[0], hi = l.carry[1];
  V half[2] = {op2(m, TS_OP_add, lo, hi), whole(m, 1)};
  V mid = ts_tile_emit1(&m->b, TS_TILE_shr, 2, half, NULL, &m->t);
  V less = op2(m, TS_OP_lt, gather(m, order, mid), own);
  less = op2(m, TS_OP_logical_and, less, op2(m, TS_OP_lt, lo, hi));
  carry[0] = pick(m, less, by(m, TS_OP_add, mid, 1), lo);
  carry[1] = pick(m, less, hi, mid);
  ts_tile_for_end(&m->b, &l, carry, out);
  return out[0];
}

/* Where each choice is; -1 behind the capacity. Sizes: choices, experts + 1. */
static TsTile *places(const Experts *e) {
  TsTile *k = ts_tile_new("moe_places");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N"), ends = ts_tile_size(k, "ends");
  V index = param(k, "index", e->index, n, false),
    order = param(k, "order", TS_DT_i32, n, false);
  V start = param(k, "start", TS_DT_i32, ends, false),
    y = param(k, "place", TS_DT_i64, n, true);
  Make m = begin(e, k);
  V count = ts_short_dim(&m.b, 0), size;
  TsTileLoop l = ts_tile_for(&m.b, ts_tile_index(&m.b, 0), count, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V own = elements(&m, l.i, e->n), expert = gather(&m, index, own);
  V in = by(&m, TS_TILE_ult, expert, e->experts);
  expert = in ? pick(&m, in, expert, whole(&m, 0)) : NULL;
  V lo = range(&m, start, expert, &size);
  V at = found(&m, order, lo, op2(&m, TS_OP_add, lo, size), own);
  if (e->capacity >= 0) {
    at = op2(&m, TS_OP_sub, at, lo);
    V fits = by(&m, TS_OP_lt, at, e->capacity);
    at = op2(&m, TS_OP_add, by(&m, TS_OP_mul, expert, e->capacity), at);
    at = pick(&m, fits, at, whole(&m, -1));
  }
  if (in) at = pick(&m, in, at, whole(&m, -1));
  ts_tile_store(&m.b, y, &l.i, at, &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

/* The choice at each of an expert's rows, or -1. Sizes: choices, experts + 1, rows. */
static TsTile *sources(const Experts *e) {
  TsTile *k = ts_tile_new("moe_sources");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N"), ends = ts_tile_size(k, "ends"), rows = ts_tile_size(k, "R");
  V order = param(k, "order", TS_DT_i32, n, false);
  V start = param(k, "start", TS_DT_i32, ends, false);
  V y = param(k, "source", TS_DT_i64, rows, true);
  Make m = begin(e, k);
  V count = ts_short_dim(&m.b, 2), size;
  TsTileLoop l = ts_tile_for(&m.b, ts_tile_index(&m.b, 0), count, PIECE, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V row = elements(&m, l.i, e->experts * e->capacity);
  V lo = range(&m, start, by(&m, TS_OP_floordiv, row, e->capacity), &size);
  V own = by(&m, TS_OP_mod, row, e->capacity), in = op2(&m, TS_OP_lt, own, size);
  V at = pick(&m, in, op2(&m, TS_OP_add, lo, own), whole(&m, -1));
  at = pick(&m, in, gather(&m, order, at), whole(&m, -1));
  ts_tile_store(&m.b, y, &l.i, at, &edge);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

static V sum(Make *m, V x) {
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  return x ? ts_tile_emit1(&m->b, TS_TILE_sum, 1, &x, &axis, &one) : NULL;
}

/* Rows of each expert, and how many choices have none. Sizes: experts + 1, experts, 1. */
static TsTile *sizes(const Experts *e) {
  TsTile *k = ts_tile_new("moe_sizes");
  if (!k) return NULL;
  int64_t ends = ts_tile_size(k, "ends"), experts = ts_tile_size(k, "E");
  int64_t one = ts_tile_size(k, "one"), width = 32;
  V start = param(k, "start", TS_DT_i32, ends, false);
  V y = param(k, "size", TS_DT_i64, experts, true),
    gone = param(k, "dropped", TS_DT_i64, one, true);
  Make m = begin(e, k);
  while (width < e->experts) width *= 2;
  m.t = ts_tile_vector(TS_DT_i64, width);
  k->threads = (int)(width < 256 ? width : 256);
  V zero = ts_tile_index(&m.b, 0), all;
  TsTileLoop l = ts_tile_for(&m.b, zero, ts_short_dim(&m.b, 2), 1, true, 0, NULL);
  TsTileAccess edge = {.edge = true};
  V expert = ts_short_iota(&m.b, &m.t, 0), in = by(&m, TS_OP_lt, expert, e->experts);
  range(&m, start, in ? pick(&m, in, expert, whole(&m, 0)) : NULL, &all);
  V kept = e->capacity >= 0 ? op2(&m, TS_OP_minimum, all, whole(&m, e->capacity)) : all;
  V lost = pick(&m, in, op2(&m, TS_OP_sub, all, kept), whole(&m, 0));
  ts_tile_store(&m.b, y, &zero, kept, &edge);
  ts_tile_store(&m.b, gone, &l.i, sum(&m, lost), NULL);
  ts_tile_for_end(&m.b, &l, NULL, NULL);
  return k;
}

static void add(TsSteps *x, const Experts *e) {
  const TsStepsAxis axis = {0, 1, e->experts, 1};
  TsScatter of = {.op = TS_OP_moe_places, .axis = 1};
  of.map = ts_index_map_slices(&axis, e->n, e->index);
  TsOrderRows r = {.rows = 1, .n = e->n, .own = true};
  int64_t halvings = 0;
  while (e->experts >> r.bits) r.bits++;
  while (e->n >> halvings) halvings++;
  int index = ts_steps_in(x, 0, NULL), start = ts_steps_temp(x, 4 * (e->experts + 1));
  r.key = ts_steps_temp(x, 4 * e->n);
  int64_t lead[3] = {e->n, e->n, e->experts};
  int64_t run[4] = {e->n, e->experts, e->experts + 1, halvings};
  ts_steps_add(x, ts_scatter_leads(&of), (int[]){index, r.key}, lead);
  ts_order_rows(x, &r);
  ts_steps_add(x, ts_scatter_starts(&of), (int[]){r.key, start}, run);
  int place[4] = {index, r.place, start, ts_steps_out(x, 0, NULL)};
  ts_steps_add(x, places(e), place, (int64_t[]){e->n, e->experts + 1});
  int source = ts_steps_out(x, 1, NULL);
  if (e->capacity >= 0) {
    int64_t dim[3] = {e->n, e->experts + 1, e->experts * e->capacity};
    ts_steps_add(x, sources(e), (int[]){r.place, start, source}, dim);
  } else {
    TsStepsView to = {source, TS_DT_i64, {1}}, from = {r.place, TS_DT_i32, {1}};
    ts_steps_copy(x, 1, &e->n, &to, &from);
  }
  int size[3] = {start, ts_steps_out(x, 2, NULL), ts_steps_out(x, 3, NULL)};
  ts_steps_add(x, sizes(e), size, (int64_t[]){e->experts + 1, e->experts, 1});
}

int ts_lower_moe_places(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                        TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *index = &n->in[0]->meta;
  Experts e = {.index = (TsDtype)index->dtype, .n = ts_meta_numel(index)};
  e.experts = n->attr[0].i;
  e.capacity = n->attr[1].type == TS_ATTR_int ? n->attr[1].i : -1;
  if (n->in[0]->node->op == TS_NODE_number || !ts_index_takes(index)) return 0;
  if (!e.n || e.n >= INT32_MAX || e.experts > MOST || !e.capacity) return 0;
  if (ts_meta_numel(&n->out[1].meta) >= INT32_MAX) return 0;
  TsSteps steps;
  ts_steps_begin(&steps, sched, layout, arg, n, err);
  ts_steps_guard(&steps, 0);
  add(&steps, &e);
  return ts_steps_end(&steps, out);
}
