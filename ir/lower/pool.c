/* max_pool, max_pool_index, avg_pool on a device: each thread goes over the windows of some
 * elements of the result, in row-major order, as vm/exec/pool.c does. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <math.h>

#include "ir/lower/pool_window.h"

typedef TsTileVal V;

enum { PIECE = 512 };

typedef struct Pool {
  TsOp op;
  TsDtype in, acc, out;
  TsPoolWindow w;
} Pool;

typedef struct Make {
  const Pool *p;
  TsTileBuild b;
  TsTileType t;
  V x, base, begin[3]; /* of the element's window */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }

static void place(Make *m, V i) {
  const Pool *p = m->p;
  V c = NULL, rest = i;
  if (p->w.last)
    c = by(m, TS_OP_mod, rest, p->w.channels),
    rest = by(m, TS_OP_floordiv, rest, p->w.channels);
  for (int a = 3; a-- > 0;) {
    V o = by(m, TS_OP_mod, rest, p->w.out[a]);
    rest = by(m, TS_OP_floordiv, rest, p->w.out[a]);
    m->begin[a] = by(m, TS_OP_sub, by(m, TS_OP_mul, o, p->w.stride[a]), p->w.padding[a]);
  }
  /* With channels first the rest is (image, channel). */
  m->base = by(m, TS_OP_mul, rest, ts_pool_numel(p->w.in) * (p->w.last ? p->w.channels : 1));
  if (c) m->base = op2(m, TS_OP_add, m->base, c);
}

/* The element of a tap, 0 outside; *in: whether it is inside; *counts: whether a mean counts it;
 * *at: its place in the image. */
static V tap(Make *m, const int64_t k[3], V *in, V *counts, V *at) {
  const Pool *p = m->p;
  V where = NULL;
  *in = *counts = NULL;
  for (int a = 0; a < 3; a++) {
    V i = by(m, TS_OP_add, m->begin[a], k[a] * p->w.dilation[a]);
    V ok = op2(m, TS_OP_logical_and, by(m, TS_OP_ge, i, 0), by(m, TS_OP_lt, i, p->w.in[a]));
    V near = op2(m, TS_OP_logical_and, by(m, TS_OP_ge, i, -p->w.margin[a]),
                 by(m, TS_OP_lt, i, p->w.in[a] + p->w.margin[a]));
    *in = *in ? op2(m, TS_OP_logical_and, *in, ok) : ok;
    *counts = *counts ? op2(m, TS_OP_logical_and, *counts, near) : near;
    where = where ? op2(m, TS_OP_add, by(m, TS_OP_mul, where, p->w.in[a]), i) : i;
  }
  *at = where;
  V from = op2(m, TS_OP_add, m->base, by(m, TS_OP_mul, where, p->w.last ? p->w.channels : 1));
  from = ts_tile_op3(&m->b, TS_OP_where, *in, from, ts_short_int(&m->b, &m->t, -1));
  return ts_tile_cast(&m->b, ts_short_gather(&m->b, m->x, from, true), p->acc);
}

static V windows(Make *m) {
  const Pool *p = m->p;
  TsTileBuild *b = &m->b;
  bool mean = p->op == TS_OP_avg_pool, whole = !ts_dtype_is(p->acc, TS_KIND_F);
  TsTileType t = ts_tile_vector(p->acc, PIECE);
  int64_t lo = 0, hi = 0;
  int bits = 8 * ts_dtypes[p->acc].nbytes;
  if (whole) ts_dtype_int_range(p->acc, &lo, &hi);
  uint64_t least = (uint64_t)lo & (UINT64_MAX >> (64 - bits));
  V acc = mean    ? ts_tile_const(b, 0, &t)
          : whole ? ts_tile_bits(b, least, &t)
                  : ts_tile_const(b, -INFINITY, &t);
  V to = ts_short_int(b, &m->t, -1), count = ts_short_int(b, &m->t, 0);
  for (int64_t i = 0; i < ts_pool_numel(p->w.window); i++) {
    int64_t k[3] = {i / (p->w.window[1] * p->w.window[2]), i / p->w.window[2] % p->w.window[1],
                    i % p->w.window[2]};
    V in, counts, at, x = tap(m, k, &in, &counts, &at);
    if (mean) {
      acc = op2(m, TS_OP_add, acc, x);
      count = op2(m, TS_OP_add, count, ts_tile_cast(b, counts, TS_DT_i64));
      continue;
    }
    V up = op2(m, TS_OP_gt, x, acc);
    if (!whole) {
      V nan = op2(m, TS_OP_ne, x, x), had = op2(m, TS_OP_eq, acc, acc);
      up = op2(m, TS_OP_logical_or, up, op2(m, TS_OP_logical_and, nan, had));
    }
    up = op2(m, TS_OP_logical_or, up, by(m, TS_OP_lt, to, 0));
    up = op2(m, TS_OP_logical_and, up, in);
    acc = ts_tile_op3(b, TS_OP_where, up, x, acc);
    to = ts_tile_op3(b, TS_OP_where, up, at, to);
  }
  if (p->op == TS_OP_max_pool_index) return to;
  if (!mean) return acc;
  V by_count = p->w.whole ? ts_tile_const(b, (double)ts_pool_numel(p->w.window), &t)
                          : ts_tile_cast(b, count, p->acc);
  return op2(m, TS_OP_div, acc, by_count);
}

static TsTile *build(const Pool *p) {
  TsTile *k = ts_tile_new(ts_op_info(p->op)->name);
  if (!k) return NULL;
  Make m = {.p = p, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t images = p->w.batch * p->w.channels, n = images * ts_pool_numel(p->w.out);
  TsTileType in = ts_tile_vector(p->in, images * ts_pool_numel(p->w.in)),
             out = ts_tile_vector(p->out, n);
  m.x = ts_tile_param(k, "x", &in, false);
  V y = ts_tile_param(k, "y", &out, true);
  m.b = ts_tile_build(k);
  k->threads = PIECE / 2, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V i = ts_short_positions(b, &m.t, l.i);
  TsTileAccess edge = {.edge = true};
  place(&m, by(&m, TS_OP_minimum, i, n - 1));
  V v = windows(&m);
  if (v) ts_tile_store(b, y, &l.i, ts_tile_cast(b, v, p->out), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

int ts_lower_pool(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  const TsMeta *from = &n->in[0]->meta, *to = &n->out[0].meta;
  const TsAttr *a = n->attr;
  TsDtype d = (TsDtype)from->dtype;
  Pool p = {.op = (TsOp)n->op, .in = d, .out = (TsDtype)to->dtype};
  bool real = ts_dtype_is(d, TS_KIND_F | TS_KIND_I | TS_KIND_U) && !ts_dtype_in_blocks(d);
  if (!real || !ts_meta_numel(to) || !ts_meta_numel(from)) return 0;
  p.acc = ts_dtype_is(d, TS_KIND_F) ? (TsDtype)ts_dtypes[d].accum : d;
  if (!ts_pool_window(&p.w, from, to, a, p.op == TS_OP_avg_pool)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&p), args, NULL);
  return ts_steps_end(&x, out);
}
