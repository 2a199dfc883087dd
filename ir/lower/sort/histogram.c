/* histogram on a device: elements are sorted, and each edge finds by halving how many are below
 * it. So nothing is counted by atomics, and many equal elements are as good as others. */
#include "ir/lower/sort/sort.h"

#include <math.h>

typedef TsTileVal V;

enum { PIECE = 64, LINE = 256, MOST = 1 << 20 };

typedef struct Histogram {
  TsDtype d, edges; /* of elements; of the edges that are given back */
  int64_t bins;
  double low, high;
} Histogram;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }

/* How many of n elements in order are less than each edge, or as large where `equal`. */
static V below(TsTileBuild *b, V x, V edge, V equal, V n) {
  if (!edge) return NULL;
  V lo = ts_short_int(b, &edge->type, 0), hi = ts_short_splat(b, &edge->type, n), out[2];
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, 63), 1, false, 2, (V[]){lo, hi});
  if (!l.stmt) return NULL;
  lo = l.carry[0], hi = l.carry[1];
  V mid = ts_short_by(b, TS_OP_floordiv, op2(b, TS_OP_add, lo, hi), 2);
  V v = ts_tile_cast(b, ts_short_gather(b, x, mid, true), TS_DT_f64);
  V less = op2(b, TS_OP_logical_and, equal, op2(b, TS_OP_eq, v, edge));
  less = op2(b, TS_OP_logical_or, less, op2(b, TS_OP_lt, v, edge));
  V open = op2(b, TS_OP_lt, lo, hi), up = op2(b, TS_OP_logical_and, open, less);
  V down = op2(b, TS_OP_logical_and, open, ts_tile_op1(b, TS_OP_logical_not, less));
  lo = ts_tile_op3(b, TS_OP_where, up, ts_short_by(b, TS_OP_add, mid, 1), lo);
  hi = ts_tile_op3(b, TS_OP_where, down, mid, hi);
  ts_tile_for_end(b, &l, (V[]){lo, hi}, out);
  return out[0];
}

static TsTile *build(const Histogram *h) {
  TsTile *k = ts_tile_new("histogram");
  if (!k) return NULL;
  TsTileType in = ts_tile_vector(h->d, ts_tile_size(k, "N"));
  TsTileType bins = ts_tile_vector(TS_DT_i64, ts_tile_size(k, "B"));
  TsTileType edges = ts_tile_vector(TS_DT_f64, ts_tile_size(k, "E"));
  V x = ts_tile_param(k, "x", &in, false), edge = ts_tile_param(k, "edge", &edges, false);
  V y = ts_tile_param(k, "count", &bins, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess access = {.edge = true};
  V n = ts_short_dim(&b, 0), end = ts_short_dim(&b, 1);
  TsTileLoop l = ts_tile_for(&b, ts_tile_index(&b, 0), end, PIECE, true, 0, NULL);
  if (k->failed) return k;
  V bin = ts_short_positions(&b, &t, l.i);
  V next = ts_short_by(&b, TS_OP_add, bin, 1);
  V last = op2(&b, TS_OP_eq, next, ts_short_splat(&b, &t, end));
  V never = op2(&b, TS_OP_lt, bin, ts_short_int(&b, &t, 0));
  V from = below(&b, x, ts_short_gather(&b, edge, bin, true), never, n);
  V to = below(&b, x, ts_short_gather(&b, edge, next, true), last, n);
  /* Ends that are one number in the edges' type hold nothing. */
  V zero = ts_short_int(&b, &t, 0), first = ts_short_gather(&b, edge, zero, false);
  V final = ts_short_gather(&b, edge, ts_short_splat(&b, &t, end), false);
  V count = op2(&b, TS_OP_sub, to, from);
  count = ts_tile_op3(&b, TS_OP_where, op2(&b, TS_OP_lt, first, final), count, zero);
  ts_tile_store(&b, y, &l.i, count, &access);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* ---- edges: those that are given back, and in f64 those that decide: of floats the same,
 * rounded */
static TsTile *build_edges(const Histogram *h) {
  TsTile *k = ts_tile_new("histogram_edges");
  if (!k) return NULL;
  int64_t n = h->bins + 1;
  TsTileType ty = ts_tile_vector(h->edges, n), te = ts_tile_vector(TS_DT_f64, n);
  V y = ts_tile_param(k, "y", &ty, true), to = ts_tile_param(k, "edge", &te, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, LINE);
  TsTileAccess edge = {.edge = true};
  double step = (h->high - h->low) / (double)h->bins;
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_tile_index(&b, n), LINE, true, 0, NULL);
  V i = ts_short_positions(&b, &t, l.i);
  V x = op2(&b, TS_OP_mul, ts_tile_cast(&b, i, TS_DT_f64),
            ts_short_number(&b, &t, TS_DT_f64, step));
  x = op2(&b, TS_OP_add, x, ts_short_number(&b, &t, TS_DT_f64, h->low));
  V last = op2(&b, TS_OP_eq, i, ts_short_int(&b, &t, h->bins));
  x = ts_tile_op3(&b, TS_OP_where, last, ts_short_number(&b, &t, TS_DT_f64, h->high), x);
  V own = ts_tile_cast(&b, x, h->edges);
  if (ts_dtype_is(h->d, TS_KIND_F)) x = ts_tile_cast(&b, own, TS_DT_f64);
  ts_tile_store(&b, y, &l.i, own, &edge);
  ts_tile_store(&b, to, &l.i, x, &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

/* Both ends are given; else they are found first (jit/eager/several.c). */
static bool set(Histogram *h, const TsNode *n) {
  const TsAttr *low = &n->attr[1], *high = &n->attr[2];
  h->d = (TsDtype)n->in[0]->meta.dtype, h->edges = (TsDtype)n->out[1].meta.dtype;
  h->bins = n->attr[0].i;
  if (low->type == TS_ATTR_none || high->type == TS_ATTR_none) return false;
  h->low = low->f, h->high = high->f;
  if (h->low == h->high) h->low -= 0.5, h->high += 0.5;
  return h->low < h->high && isfinite(h->high - h->low);
}

int ts_lower_histogram(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                       TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *m = &n->in[0]->meta;
  int64_t all = ts_meta_numel(m);
  Histogram h;
  if (!set(&h, n) || !all || h.bins < 1 || h.bins > MOST || ts_dtype_in_blocks(h.d)) return 0;
  TsSort s = {.op = TS_OP_sort, .dtype = h.d, .value = true, .n = all, .k = all, .count = 1};
  if (!ts_sort_takes(&s)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int edge = ts_steps_temp(&x, 8 * (h.bins + 1)), row = ts_steps_temp(&x, ts_meta_nbytes(m));
  int64_t dim[3] = {all, h.bins, h.bins + 1};
  ts_sort_steps(&x, &s, ts_steps_in(&x, 0, NULL), row, ts_steps_temp(&x, 8 * all));
  ts_steps_add(&x, build_edges(&h), (int[]){ts_steps_out(&x, 1, NULL), edge}, NULL);
  ts_steps_add(&x, build(&h), (int[]){row, edge, ts_steps_out(&x, 0, NULL)}, dim);
  return ts_steps_end(&x, out);
}
