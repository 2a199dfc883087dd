/* adaptive_avg_pool and its gradient on a device: windows floor(o n / s) .. ceil((o + 1) n /
 * s). Chains are those of vm/exec/pool.c and vm/exec/pool_grad.c: the window's elements in
 * row-major order, and for an element of x the windows that hold it in theirs. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

typedef TsTileVal V;

enum { PIECE = 256, IN_FLIGHT = 8, MOST = 64 /* windows that hold an element */ };

typedef struct Pool {
  TsOp op;
  TsDtype d, acc;
  int64_t images, in[3], out[3]; /* of x, of the result of the pool */
} Pool;

typedef struct Make {
  const Pool *p;
  TsTileBuild b;
  TsTileType t;
  V from, base; /* memory; where this image begins in it */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }
static V by(Make *m, int op, V x, int64_t y) { return ts_short_by(&m->b, op, x, y); }
static V both(Make *m, V x, V y) { return op2(m, TS_OP_logical_and, x, y); }

static int64_t numel(const int64_t n[3]) { return n[0] * n[1] * n[2]; }

/* floor(i n / s), and ceil. */
static V low(Make *m, V i, int64_t n, int64_t s) {
  return by(m, TS_OP_floordiv, by(m, TS_OP_mul, i, n), s);
}

static V high(Make *m, V i, int64_t n, int64_t s) {
  return by(m, TS_OP_floordiv, by(m, TS_OP_add, by(m, TS_OP_mul, i, n), s - 1), s);
}

/* The element at these coordinates where `in`, else 0. */
static V read(Make *m, const V at[3], const int64_t size[3], V in) {
  V i = op2(m, TS_OP_add, by(m, TS_OP_mul, at[0], size[1]), at[1]);
  i = op2(m, TS_OP_add, by(m, TS_OP_mul, i, size[2]), at[2]);
  i = op2(m, TS_OP_add, i, m->base);
  i = ts_tile_op3(&m->b, TS_OP_where, in, i, ts_short_int(&m->b, &m->t, -1));
  return ts_tile_cast(&m->b, ts_short_gather(&m->b, m->from, i, true), m->p->acc);
}

/* ---- forward */
static V mean(Make *m, const V o[3]) {
  const Pool *p = m->p;
  TsTileBuild *b = &m->b;
  V begin[3], length[3], count = NULL, acc = ts_short_number(b, &m->t, p->acc, 0);
  TsTileLoop l[3];
  for (int a = 0; a < 3; a++) {
    begin[a] = low(m, o[a], p->in[a], p->out[a]);
    length[a] = high(m, by(m, TS_OP_add, o[a], 1), p->in[a], p->out[a]);
    length[a] = op2(m, TS_OP_sub, length[a], begin[a]);
    count = count ? op2(m, TS_OP_mul, count, length[a]) : length[a];
  }
  for (int a = 0; a < 3; a++) {
    int64_t most = p->in[a] / p->out[a] + 2;
    l[a] =
        ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, most < p->in[a] ? most : p->in[a]),
                    a == 2 ? IN_FLIGHT : 1, false, 1, &acc);
    if (!l[a].stmt) return NULL;
    acc = l[a].carry[0];
  }
  V x[IN_FLIGHT], in[IN_FLIGHT];
  for (int i = 0; i < IN_FLIGHT; i++) {
    V k[3] = {l[0].i, l[1].i, ts_tile_op2(b, TS_OP_add, l[2].i, ts_tile_index(b, i))}, at[3];
    in[i] = NULL;
    for (int a = 0; a < 3; a++) {
      V own = ts_short_splat(b, &m->t, k[a]), ok = op2(m, TS_OP_lt, own, length[a]);
      at[a] = op2(m, TS_OP_add, begin[a], own);
      in[i] = in[i] ? both(m, in[i], ok) : ok;
    }
    x[i] = read(m, at, p->in, in[i]);
  }
  for (int i = 0; i < IN_FLIGHT; i++)
    acc = ts_tile_op3(b, TS_OP_where, in[i], op2(m, TS_OP_add, acc, x[i]), acc);
  for (int a = 3; a-- > 0;) ts_tile_for_end(b, &l[a], &acc, &acc);
  return op2(m, TS_OP_div, acc, ts_tile_cast(b, count, p->acc));
}

/* ---- backward */
static int64_t windows(const Pool *p, int a) {
  return (p->out[a] + p->in[a] - 1) / p->in[a] + 1;
}

static V shares(Make *m, const V i[3]) {
  const Pool *p = m->p;
  V acc = ts_short_number(&m->b, &m->t, p->acc, 0), first[3], end[3];
  int64_t all = windows(p, 0) * windows(p, 1) * windows(p, 2);
  for (int a = 0; a < 3; a++) {
    first[a] = low(m, i[a], p->out[a], p->in[a]);
    end[a] = high(m, by(m, TS_OP_add, i[a], 1), p->out[a], p->in[a]);
  }
  for (int64_t w = 0; w < all; w++) {
    int64_t k[3] = {w / (windows(p, 1) * windows(p, 2)), w / windows(p, 2) % windows(p, 1),
                    w % windows(p, 2)};
    V in = NULL, count = NULL, o[3];
    for (int a = 0; a < 3; a++) {
      o[a] = by(m, TS_OP_add, first[a], k[a]);
      V ok = op2(m, TS_OP_lt, o[a], end[a]);
      V n = high(m, by(m, TS_OP_add, o[a], 1), p->in[a], p->out[a]);
      n = op2(m, TS_OP_sub, n, low(m, o[a], p->in[a], p->out[a]));
      in = in ? both(m, in, ok) : ok;
      count = count ? op2(m, TS_OP_mul, count, n) : n;
    }
    V g = op2(m, TS_OP_div, read(m, o, p->out, in), ts_tile_cast(&m->b, count, p->acc));
    acc = ts_tile_op3(&m->b, TS_OP_where, in, op2(m, TS_OP_add, acc, g), acc);
  }
  return acc;
}

static TsTile *build(const Pool *p) {
  TsTile *k = ts_tile_new(ts_op_info(p->op)->name);
  if (!k) return NULL;
  bool back = p->op == TS_OP_adaptive_avg_pool_grad;
  const int64_t *from = back ? p->out : p->in, *to = back ? p->in : p->out;
  Make m = {.p = p, .t = ts_tile_vector(TS_DT_i64, PIECE)};
  int64_t n = p->images * numel(to);
  TsTileType tx = ts_tile_vector(p->d, p->images * numel(from)), ty = ts_tile_vector(p->d, n);
  m.from = ts_tile_param(k, "x", &tx, false);
  V y = ts_tile_param(k, "y", &ty, true), at[3];
  m.b = ts_tile_build(k);
  k->threads = PIECE / 2, k->vector = 8;
  TsTileBuild *b = &m.b;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), PIECE, true, 0, NULL);
  V rest = ts_short_positions(b, &m.t, l.i);
  rest = by(&m, TS_OP_minimum, rest, n - 1);
  for (int a = 3; a-- > 0; rest = by(&m, TS_OP_floordiv, rest, to[a]))
    at[a] = by(&m, TS_OP_mod, rest, to[a]);
  m.base = by(&m, TS_OP_mul, rest, numel(from));
  TsTileAccess edge = {.edge = true};
  V v = back ? shares(&m, at) : mean(&m, at);
  ts_tile_store(b, y, &l.i, ts_tile_cast(b, v, p->d), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

int ts_lower_adaptive(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout, void *arg,
                      TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  bool back = n->op == TS_OP_adaptive_avg_pool_grad;
  const TsMeta *from = &n->in[0]->meta, *to = &n->out[0].meta;
  TsDtype d = (TsDtype)to->dtype;
  Pool p = {.op = (TsOp)n->op, .d = d, .acc = (TsDtype)ts_dtypes[d].accum};
  if (!ts_dtype_is(d, TS_KIND_F) || ts_dtype_in_blocks(d) || from->dtype != d) return 0;
  if (!ts_meta_numel(to) || !ts_meta_numel(from)) return 0;
  const TsMeta *wide = back ? to : from, *few = back ? from : to;
  int nd = wide->ndim - 2;
  p.images = wide->dim[0] * wide->dim[1];
  for (int i = 0; i < 3; i++) {
    int at = i - (3 - nd);
    p.in[i] = at < 0 ? 1 : wide->dim[2 + at], p.out[i] = at < 0 ? 1 : few->dim[2 + at];
  }
  if (back && windows(&p, 0) * windows(&p, 1) * windows(&p, 2) > MOST) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&p), args, NULL);
  return ts_steps_end(&x, out);
}
