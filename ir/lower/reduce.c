/* Reductions that schedules have no kernels for: argmin, argmax, any, all, count_nonzero,
 * var, std, norm, logsumexp, sums, products, means and extremes of whole numbers, and those of
 * floats along axes between which others lie, as a batch's by channel. The reduced
 * axes come last, as a copy where they do not lie so; then a round of the kernel is a row, or
 * some short ones. What is computed stands in vm/rows/reduce.c. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

#include <math.h>
#include <string.h>

#include "lib/reduce.h"

typedef TsTileVal V;

enum { SHORT = 256, TOGETHER = 2048, LONG = 4096, PIECES = 1024 };

typedef struct Rows {
  TsOp op;
  TsDtype in, acc, out; /* acc: of sums and extremes */
  int64_t n, rows;      /* elements of a row; rows of a round, 1: a tile is one row */
  double number;        /* correction of var, order of norm */
} Rows;

typedef struct Make {
  const Rows *s;
  TsTileBuild b;
  TsTileType t; /* of the tile */
} Make;

static V op2(Make *m, int op, V x, V y) { return ts_tile_op2(&m->b, op, x, y); }

static V reduced(Make *m, int op, V x) {
  if (!x) return NULL;
  TsAttr axis = {.type = TS_ATTR_int, .i = m->s->rows > 1};
  bool places = op == TS_TILE_argmax || op == TS_TILE_argmin;
  TsDtype d = places ? TS_DT_i64 : (TsDtype)x->type.dtype;
  if (op == TS_TILE_sum && !ts_dtype_is(d, TS_KIND_F)) d = TS_DT_i64;
  TsTileType t = ts_tile_type(d, m->s->rows > 1, &m->s->rows);
  return ts_tile_emit1(&m->b, op, 1, &x, &axis, &t);
}

/* A number of a row, for each of its elements. */
static V spread(Make *m, V x) {
  static const int64_t axes[1] = {0};
  if (!x) return NULL;
  TsTileType t = ts_tile_type((TsDtype)x->type.dtype, m->t.rank, m->t.dim);
  return ts_tile_broadcast(&m->b, x, &t, axes);
}

static V number(Make *m, V like, double v) {
  if (!like) return NULL;
  TsTileType t = like->type;
  return ts_tile_const(&m->b, v, &t);
}

static V nonzero(Make *m, V x) { return op2(m, TS_OP_ne, x, number(m, x, 0)); }

/* 1 if some, or every, element is not zero. */
static V tests(Make *m, V x) {
  int op = m->s->op == TS_OP_any ? TS_TILE_max : TS_TILE_min;
  V y = reduced(m, op, ts_tile_cast(&m->b, nonzero(m, x), TS_DT_i32));
  return y ? op2(m, TS_OP_ne, y, number(m, y, 0)) : NULL;
}

/* As vm/rows/reduce.h has it: y, or where that is not finite what is made of small elements. */
static V or_small(Make *m, V (*make)(Make *, V), V x, int times) {
  V y = make(m, x);
  bool far = m->s->in == TS_DT_f64 || m->s->in == TS_DT_f32 || m->s->in == TS_DT_bf16;
  if (!far || !y) return y;
  double by = ts_reduce_small(m->s->acc);
  V small = make(m, op2(m, TS_OP_mul, x, number(m, x, by)));
  for (int i = 0; i < times; i++) small = op2(m, TS_OP_mul, small, number(m, small, 1 / by));
  V finite = op2(m, TS_OP_eq, op2(m, TS_OP_sub, y, y), number(m, y, 0));
  return ts_tile_op3(&m->b, TS_OP_where, finite, y, small);
}

static V mean(Make *m, V x) {
  V sum = reduced(m, TS_TILE_sum, x);
  return op2(m, TS_OP_div, sum, number(m, sum, (double)m->s->n));
}

static V variance(Make *m, V x) {
  double count = (double)m->s->n - m->s->number;
  V d = op2(m, TS_OP_sub, x, spread(m, mean(m, x)));
  V y = reduced(m, TS_TILE_sum, op2(m, TS_OP_mul, d, d));
  y = op2(m, TS_OP_div, y, number(m, y, count > 0 ? count : 0));
  return m->s->op == TS_OP_std ? ts_tile_op1(&m->b, TS_OP_sqrt, y) : y;
}

static V logsumexp(Make *m, V x) {
  V most = reduced(m, TS_TILE_max, x), zero = number(m, most, 0);
  V finite = op2(m, TS_OP_eq, op2(m, TS_OP_sub, most, most), zero);
  V shift = ts_tile_op3(&m->b, TS_OP_where, finite, most, zero);
  V e = ts_tile_op1(&m->b, TS_OP_exp, op2(m, TS_OP_sub, x, spread(m, shift)));
  V sum = reduced(m, TS_TILE_sum, e);
  return op2(m, TS_OP_add, shift, ts_tile_op1(&m->b, TS_OP_log, sum));
}

static V length(Make *m, V x) {
  return ts_tile_op1(&m->b, TS_OP_sqrt, reduced(m, TS_TILE_sum, op2(m, TS_OP_mul, x, x)));
}

static V norm(Make *m, V x) {
  double ord = m->s->number;
  V size = ts_tile_op1(&m->b, TS_OP_abs, x);
  if (ord == 0) return reduced(m, TS_TILE_sum, ts_tile_cast(&m->b, nonzero(m, x), TS_DT_i64));
  if (isinf(ord)) return reduced(m, ord > 0 ? TS_TILE_max : TS_TILE_min, size);
  if (ord == 1) return reduced(m, TS_TILE_sum, size);
  if (ord == 2) return or_small(m, length, x, 1);
  V sum = reduced(m, TS_TILE_sum, op2(m, TS_OP_pow, size, number(m, size, ord)));
  return op2(m, TS_OP_pow, sum, number(m, sum, 1 / ord));
}

static V value(Make *m, V x) {
  switch (m->s->op) {
  case TS_OP_argmax: return reduced(m, TS_TILE_argmax, x);
  case TS_OP_sum: return reduced(m, TS_TILE_sum, x);
  case TS_OP_prod: return reduced(m, TS_TILE_prod, x);
  case TS_OP_mean: return mean(m, x);
  case TS_OP_max: return reduced(m, TS_TILE_max, x);
  case TS_OP_min: return reduced(m, TS_TILE_min, x);
  case TS_OP_any:
  case TS_OP_all: return tests(m, x);
  case TS_OP_count_nonzero:
    return reduced(m, TS_TILE_sum, ts_tile_cast(&m->b, nonzero(m, x), TS_DT_i64));
  case TS_OP_logsumexp: return logsumexp(m, x);
  case TS_OP_norm: return norm(m, x);
  default:
    if ((double)m->s->n <= m->s->number) return variance(m, x); /* divided by nothing */
    return or_small(m, variance, x, m->s->op == TS_OP_var ? 2 : 1);
  }
}

/* The first NaN, or else the least: argmin of the rows of Tile IR knows no NaN. */
static V least(Make *m, V x) {
  V place = reduced(m, TS_TILE_argmin, x);
  if (!ts_dtype_is(m->s->acc, TS_KIND_F)) return place;
  V nan = ts_tile_cast(&m->b, op2(m, TS_OP_ne, x, x), TS_DT_i32);
  V some = reduced(m, TS_TILE_max, nan), first = reduced(m, TS_TILE_argmax, nan);
  return ts_tile_op3(&m->b, TS_OP_where, op2(m, TS_OP_ne, some, number(m, some, 0)), first,
                     place);
}

static TsTile *build(const Rows *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  bool many = s->rows > 1;
  Make m = {.s = s};
  int64_t dim[2] = {s->rows, s->n}, B = ts_tile_size(k, "B"), side[2] = {B, s->n};
  m.t = ts_tile_type(s->in, 1 + many, many ? dim : dim + 1);
  TsTileType in = ts_tile_type(s->in, 2, side), out = ts_tile_type(s->out, 1, &B);
  V x = ts_tile_param(k, "x", &in, false), y = ts_tile_param(k, "y", &out, true);
  m.b = ts_tile_build(k);
  TsTileBuild *b = &m.b;
  V zero = ts_tile_index(b, 0);
  TsTileLoop l = ts_tile_for(b, zero, ts_short_dim(b, 0), s->rows, true, 0, NULL);
  TsTileAccess edge = {.edge = many};
  V at[2] = {l.i, zero};
  V v = ts_tile_cast(b, ts_tile_load(b, x, at, &m.t, &edge), s->acc);
  v = s->op == TS_OP_argmin ? least(&m, v) : value(&m, v);
  if (v) ts_tile_store(b, y, &l.i, ts_tile_cast(b, v, s->out), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- nodes */
/* The reduced axes last; n: their elements. */
static TsStepsOrder reduced_last(const TsMeta *m, const TsAttr *axes, int64_t *n) {
  TsStepsOrder o = {{0}};
  bool gone[TS_MAX_RANK] = {false};
  int nd = m->ndim, at = 0;
  for (int i = 0; i < nd; i++) gone[i] = axes->type == TS_ATTR_none;
  if (axes->type == TS_ATTR_int) gone[axes->i < 0 ? axes->i + nd : axes->i] = true;
  for (int i = 0; axes->type == TS_ATTR_ints && i < axes->n; i++)
    gone[axes->ints[i] < 0 ? axes->ints[i] + nd : axes->ints[i]] = true;
  *n = 1;
  for (int last = 0; last < 2; last++)
    for (int i = 0; i < nd; i++) {
      if (gone[i] != last) continue;
      o.at[at++] = i;
      if (last) *n *= m->dim[i];
    }
  return o;
}

/* The type in which a row is computed. */
static TsDtype working(TsOp op, TsDtype d) {
  if (ts_dtype_is(d, TS_KIND_F)) return (TsDtype)ts_dtypes[d].accum;
  if (op == TS_OP_mean || op == TS_OP_var || op == TS_OP_std || op == TS_OP_norm)
    return TS_DT_f64;
  if (op == TS_OP_logsumexp) return TS_DT_f32;
  if (op == TS_OP_sum || op == TS_OP_prod) return TS_DT_i64;
  if ((op == TS_OP_min || op == TS_OP_max) && ts_dtypes[d].nbytes < 4) return TS_DT_i32;
  return d == TS_DT_bool ? TS_DT_i32 : d;
}

/* Those that schedules have kernels of where floats are. */
static bool is_plain(TsOp op) {
  return op == TS_OP_sum || op == TS_OP_prod || op == TS_OP_mean || op == TS_OP_min ||
         op == TS_OP_max;
}

static bool is_whole(TsOp op) { return op == TS_OP_sum || op == TS_OP_min || op == TS_OP_max; }

/* Whether other elements lie between those of a row, the last axes of the order with n
 * elements. */
static bool is_apart(const TsMeta *m, const TsStepsOrder *o, int64_t n, const int64_t *stride) {
  int64_t next = 0; /* how far the axis before has to step */
  for (int i = m->ndim; i-- > 0 && n > 1;) {
    int64_t size = m->dim[o->at[i]], step = stride[o->at[i]];
    if (size == 1) continue;
    if (next && step != next) return true;
    next = step * size, n /= size;
  }
  return false;
}

static void choose_rows(Rows *s, int64_t count) {
  while (s->n <= SHORT && 2 * s->rows * s->n <= TOGETHER && 2 * s->rows <= count) s->rows *= 2;
}

/* A few long rows of whole numbers, in whatever order they meet: by pieces, then what these
 * leave. */
static int pieces_of(const Rows *s, int64_t count) {
  int pieces = 1;
  while (pieces < PIECES && count * pieces < PIECES && s->n % (2 * pieces) == 0 &&
         s->n / pieces >= LONG)
    pieces *= 2;
  return pieces;
}

static void add_rows(TsSteps *x, Rows s, int64_t count, int from, int to) {
  int pieces = ts_dtype_is(s.acc, TS_KIND_F) ? 1 : is_whole(s.op) ? pieces_of(&s, count) : 1;
  if (pieces > 1) {
    Rows first = s;
    int64_t many = count * pieces;
    int left = ts_steps_temp(x, many * ts_dtypes[s.acc].nbytes);
    first.n = s.n / pieces, first.out = s.acc;
    choose_rows(&first, many);
    ts_steps_add(x, build(&first), (int[]){from, left}, &many);
    s.in = s.acc, s.n = pieces, from = left;
  }
  choose_rows(&s, count);
  ts_steps_add(x, build(&s), (int[]){from, to}, &count);
}

int ts_lower_reduce(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                    TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  TsOp op = (TsOp)n->op;
  const TsMeta *m = &n->in[0]->meta, *y = &n->out[0].meta;
  TsDtype d = (TsDtype)m->dtype;
  if (ts_dtype_is(d, TS_KIND_C) || ts_dtype_in_blocks(d)) return 0;
  bool whole = ts_dtype_is(d, TS_KIND_B | TS_KIND_U | TS_KIND_I);
  int64_t count = ts_meta_numel(y);
  if (!ts_meta_numel(m) || !count) return 0;
  Rows s = {.op = op, .in = d, .acc = working(op, d), .out = (TsDtype)y->dtype, .rows = 1};
  if (op == TS_OP_norm) s.number = n->attr[0].f;
  if (op == TS_OP_var || op == TS_OP_std) s.number = n->attr[2].f;
  TsStepsOrder order = reduced_last(m, &n->attr[op == TS_OP_norm ? 1 : 0], &s.n);
  int64_t stride[TS_MAX_RANK];
  ts_sched_strides(layout, arg, n->in[0], stride);
  if (is_plain(op) && !whole && !is_apart(m, &order, s.n, stride)) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int from = ts_steps_in(&x, 0, &order);
  add_rows(&x, s, count, from, ts_steps_out(&x, 0, NULL));
  return ts_steps_end(&x, out);
}
