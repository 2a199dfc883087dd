/* avg_pool_grad on a device: an element of x goes over the windows that hold it, in increasing
 * order of outputs, as vm/exec/pool_grad.c adds them; that is from the last tap to the
 * first. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include "ir/lower/pool_window.h"

typedef TsTileVal V;

enum { PIECE = 512 };

typedef struct Pool {
  TsDtype d, acc;
  TsPoolWindow w;
} Pool;

typedef struct Make {
  const Pool *p;
  TsTileBuild b;
  TsTileType t;
  V g, base;
} Make;

/* Of one axis and tap: the output, whether there is one, and how many of its taps count. */
typedef struct Reach {
  V at, in, count;
} Reach;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }
static V both(Make *m, V x, V y) { return op2(m, TS_OP_logical_and, x, y); }

static V taps(Make *m, int a, V output) {
  const Pool *p = m->p;
  V count = ts_short_int(&m->b, &m->t, 0);
  V first = by(m, TS_OP_sub, by(m, TS_OP_mul, output, p->w.stride[a]), p->w.padding[a]);
  for (int64_t k = 0; k < p->w.window[a]; k++) {
    V i = by(m, TS_OP_add, first, k * p->w.dilation[a]);
    V in = both(m, by(m, TS_OP_ge, i, -p->w.margin[a]),
                by(m, TS_OP_lt, i, p->w.in[a] + p->w.margin[a]));
    count = op2(m, TS_OP_add, count, ts_tile_cast(&m->b, in, TS_DT_i64));
  }
  return count;
}

static Reach reach(Make *m, int a, V i, int64_t k) {
  const Pool *p = m->p;
  V far = by(m, TS_OP_add, i, p->w.padding[a] - k * p->w.dilation[a]);
  V at = by(m, TS_OP_floordiv, far, p->w.stride[a]);
  Reach r = {.at = at,
             .in = both(m, by(m, TS_OP_ge, far, 0), by(m, TS_OP_lt, at, p->w.out[a]))};
  if (p->w.stride[a] > 1)
    r.in = both(m, r.in, op2(m, TS_OP_eq, by(m, TS_OP_mul, at, p->w.stride[a]), far));
  if (!p->w.whole) r.count = taps(m, a, at);
  return r;
}

static V share(Make *m, const Reach *r, V *in) {
  const Pool *p = m->p;
  V at = NULL, count = NULL;
  *in = NULL;
  for (int a = 0; a < 3; a++) {
    *in = *in ? both(m, *in, r[a].in) : r[a].in;
    at = at ? op2(m, TS_OP_add, by(m, TS_OP_mul, at, p->w.out[a]), r[a].at) : r[a].at;
    if (!p->w.whole) count = count ? op2(m, TS_OP_mul, count, r[a].count) : r[a].count;
  }
  at = op2(m, TS_OP_add, m->base, by(m, TS_OP_mul, at, p->w.last ? p->w.channels : 1));
  at = ts_tile_op3(&m->b, TS_OP_where, *in, at, ts_short_int(&m->b, &m->t, -1));
  V g = ts_tile_cast(&m->b, ts_short_gather(&m->b, m->g, at, true), p->acc);
  V n = count ? ts_tile_cast(&m->b, count, p->acc)
              : ts_short_number(&m->b, &m->t, p->acc, (double)ts_pool_numel(p->w.window));
  return op2(m, TS_OP_div, g, n);
}

static V sum(Make *m, const V i[3]) {
  const Pool *p = m->p;
  V acc = ts_short_number(&m->b, &m->t, p->acc, 0), in;
  Reach r[3];
  for (int64_t a = p->w.window[0]; a-- > 0;) {
    r[0] = reach(m, 0, i[0], a);
    for (int64_t b = p->w.window[1]; b-- > 0;) {
      r[1] = reach(m, 1, i[1], b);
      for (int64_t c = p->w.window[2]; c-- > 0;) {
        r[2] = reach(m, 2, i[2], c);
        V x = share(m, r, &in);
        acc = ts_tile_op3(&m->b, TS_OP_where, in, op2(m, TS_OP_add, acc, x), acc);
      }
    }
  }
  return acc;
}

static TsTile *build(const Pool *p) {
  TsTile *k = ts_tile_new("avg_pool_grad");
  if (!k) return NULL;
  Make m = {.p = p, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t images = p->w.batch * p->w.channels, n = images * ts_pool_numel(p->w.in);
  TsTileType tg = ts_tile_vector(p->d, images * ts_pool_numel(p->w.out)),
             tx = ts_tile_vector(p->d, n);
  m.g = ts_tile_param(k, "g", &tg, false);
  V x = ts_tile_param(k, "x", &tx, true), channel = NULL, i[3];
  m.b = ts_tile_build(k);
  k->threads = PIECE / 2, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V rest = ts_short_positions(b, &m.t, l.i);
  rest = by(&m, TS_OP_minimum, rest, n - 1);
  if (p->w.last) {
    channel = by(&m, TS_OP_mod, rest, p->w.channels);
    rest = by(&m, TS_OP_floordiv, rest, p->w.channels);
  }
  for (int a = 3; a-- > 0; rest = by(&m, TS_OP_floordiv, rest, p->w.in[a]))
    i[a] = by(&m, TS_OP_mod, rest, p->w.in[a]);
  m.base = by(&m, TS_OP_mul, rest, ts_pool_numel(p->w.out) * (p->w.last ? p->w.channels : 1));
  if (channel) m.base = op2(&m, TS_OP_add, m.base, channel);
  TsTileAccess edge = {.edge = true};
  ts_tile_store(b, x, &l.i, ts_tile_cast(b, sum(&m, i), p->d), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

int ts_lower_pool_grad(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout,
                       void *arg, TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  const TsMeta *from = &n->in[0]->meta, *to = &n->out[0].meta;
  const TsAttr *a = n->attr;
  TsDtype d = (TsDtype)to->dtype;
  Pool p = {.d = d, .acc = (TsDtype)ts_dtypes[d].accum};
  bool real = ts_dtype_is(d, TS_KIND_F) && !ts_dtype_in_blocks(d) && from->dtype == d;
  if (!real || !ts_meta_numel(to) || !ts_meta_numel(from)) return 0;
  if (!ts_pool_window(&p.w, to, from, a + 1, true)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&p), args, NULL);
  return ts_steps_end(&x, out);
}
