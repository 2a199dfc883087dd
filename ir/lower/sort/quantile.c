/* median and quantile on a device: rows are sorted, then one kernel takes the two
 * elements beside the place and interpolates in f64, as vm/exec/order.c does. */
#include "ir/lower/sort/sort.h"

#include <math.h>

typedef TsTileVal V;

enum { PIECE = 256 };

typedef struct Quantile {
  TsDtype in, out;
  int64_t n, k; /* elements of a row; the place */
  double t;     /* how far from it to the next one */
} Quantile;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }
static V number(TsTileBuild *b, V like, double v) {
  return like ? ts_short_number(b, &like->type, TS_DT_f64, v) : NULL;
}

/* Element k of rows; -0 counts as +0. */
static V element(TsTileBuild *b, V x, V first, int64_t k) {
  V v = ts_short_gather(b, x, ts_short_by(b, TS_OP_add, first, k), true);
  v = ts_tile_cast(b, v, TS_DT_f64);
  return ts_tile_op3(b, TS_OP_where, op2(b, TS_OP_eq, v, number(b, v, 0)), number(b, v, 0), v);
}

static V between(TsTileBuild *b, const Quantile *q, V x, V y) {
  V apart = op2(b, TS_OP_sub, y, x), z;
  if (q->t == 0.5)
    z = op2(b, TS_OP_mul, op2(b, TS_OP_add, x, y), number(b, x, 0.5));
  else if (q->t < 0.5)
    z = op2(b, TS_OP_add, x, op2(b, TS_OP_mul, apart, number(b, x, q->t)));
  else
    z = op2(b, TS_OP_sub, y, op2(b, TS_OP_mul, apart, number(b, x, 1 - q->t)));
  return ts_tile_op3(b, TS_OP_where, op2(b, TS_OP_eq, x, y), x, z);
}

static TsTile *build(const Quantile *q) {
  TsTile *k = ts_tile_new("quantile");
  if (!k) return NULL;
  TsTileType in = ts_tile_vector(q->in, ts_tile_size(k, "N"));
  TsTileType out = ts_tile_vector(q->out, ts_tile_size(k, "M"));
  V x = ts_tile_param(k, "x", &in, false), y = ts_tile_param(k, "y", &out, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileType t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileAccess edge = {.edge = true};
  TsTileLoop l =
      ts_tile_for(&b, ts_tile_index(&b, 0), ts_short_dim(&b, 1), PIECE, true, 0, NULL);
  V row = ts_short_positions(&b, &t, l.i);
  V first = ts_short_by(&b, TS_OP_mul, row, q->n), v = element(&b, x, first, q->k);
  if (q->t > 0) v = between(&b, q, v, element(&b, x, first, q->k + 1));
  V last = element(&b, x, first, q->n - 1); /* NaN is the largest */
  v = ts_tile_op3(&b, TS_OP_where, op2(&b, TS_OP_ne, last, last), last, v);
  ts_tile_store(&b, y, &l.i, ts_tile_cast(&b, v, q->out), &edge);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static bool takes(const TsMeta *x, TsDtype out) {
  return x->ndim && ts_meta_numel(x) && !ts_dtype_in_blocks(x->dtype) &&
         ts_dtypes[x->dtype].nbytes <= 8 && !ts_dtype_is((TsDtype)x->dtype, TS_KIND_C) &&
         !ts_dtype_is(out, TS_KIND_C);
}

int ts_lower_quantile(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *m = &n->in[0]->meta, *y = &n->out[0].meta;
  bool median = n->op == TS_OP_median;
  const TsAttr *axis = &n->attr[median ? 0 : 1];
  double at = median ? 0.5 : n->attr[0].f;
  Quantile q = {.in = (TsDtype)m->dtype, .out = (TsDtype)y->dtype};
  if (!(at >= 0 && at <= 1) || !takes(m, q.out) || !ts_meta_numel(y)) return 0;
  bool all = axis->type == TS_ATTR_none;
  TsStepsAxis a = ts_steps_axis(m, all ? 0 : axis->i);
  q.n = all ? ts_meta_numel(m) : a.n;
  at *= (double)(q.n - 1), q.t = at - floor(at), q.k = (int64_t)at;
  TsSort s = {.op = TS_OP_sort, .dtype = q.in, .value = true, .n = q.n, .k = q.n};
  s.count = ts_meta_numel(m) / q.n;
  if (!ts_sort_takes(&s)) return 0;
  TsStepsOrder last = ts_steps_last(m, a.at);
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int in = ts_steps_in(&x, 0, all ? NULL : &last);
  int rows = ts_steps_temp(&x, ts_meta_nbytes(m)),
      place = ts_steps_temp(&x, 8 * ts_meta_numel(m));
  ts_sort_steps(&x, &s, in, rows, place);
  int64_t dim[2] = {ts_meta_numel(m), ts_meta_numel(y)};
  ts_steps_add(&x, build(&q), (int[]){rows, ts_steps_out(&x, 0, NULL)}, dim);
  return ts_steps_end(&x, out);
}
