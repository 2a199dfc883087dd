/* Sums and means along axes that are not the last: x [outer, n, inner], y [outer, inner].
 *
 * A round is a leaf of the canonical order (docs/numerics.md) of some columns side by side, so
 * that lines are read whole and there are blocks enough for all processors: the sums of leaves
 * go to scratch, and a second loop brings them together in pairs. Elements behind the end are
 * -0, which changes no sum. Short columns are one leaf, without the second loop; those of few
 * rows are a tree of rows in registers. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "lib/reduce.h"

typedef TsTileVal V;

enum {
  LEAF = TS_RED_LEAF,
  MOST_LEAVES = 256, /* their sums are added up in one piece of code */
  WIDE = 256,        /* columns of a round at most, and at least */
  NARROW = 32,
  TILE = 1 << 18, /* elements of a round */
  FEW = 64,       /* of a column: shorter ones are loaded row by row */
  BRANCH = 16,    /* rows that are loaded together then */
  LINE = 2048,    /* bytes of a row in a round */
  BLOCKS = 192,   /* about those that run at once */
  TOGETHER = 256, /* columns of a round of the second loop */
};

typedef struct Columns {
  TsOp op;
  TsDtype in, acc, out;
  TsStepsAxis axis;
  int64_t leaves, rows, width; /* rows: of a round */
} Columns;

typedef struct Make {
  const Columns *s;
  TsTileBuild b;
  V count, x, y, leaf; /* leaf: their sums, NULL if there is one */
} Make;

static void put_result(Make *m, V outer, V at, V sum, const TsTileAccess *how) {
  const Columns *s = m->s;
  V to[2] = {outer, at};
  if (!sum) return;
  if (s->op == TS_OP_mean)
    sum =
        ts_tile_op2(&m->b, TS_OP_div, sum, ts_tile_const(&m->b, (double)s->axis.n, &sum->type));
  ts_tile_store(&m->b, m->y, to, ts_tile_cast(&m->b, sum, s->out), how);
}

static V sum_down(Make *m, V x) {
  TsAttr axis = {.type = TS_ATTR_int};
  if (!x) return NULL;
  TsTileType t = ts_tile_vector(m->s->acc, m->s->width);
  return ts_tile_emit1(&m->b, TS_TILE_sum, 1, &x, &axis, &t);
}

/* Row `lane`, and those that are multiples of `step` behind it, w in all, in halves. */
static V branch(Make *m, const V *at, int64_t lane, int64_t step, int64_t w, const V *rows) {
  const Columns *s = m->s;
  V own[BRANCH] = {NULL}, half[2][BRANCH / 2];
  TsTileAccess how = {.edge = s->axis.inner % s->width != 0};
  TsTileType t = ts_tile_vector(s->in, s->width);
  for (int64_t i = 0; !rows && w <= BRANCH && i < w && lane + step * i < s->axis.n; i++) {
    V from[3] = {at[0], ts_tile_index(&m->b, lane + step * i), at[1]};
    own[i] = ts_tile_load(&m->b, m->x, from, &t, &how);
  }
  if (!rows && w <= BRANCH) rows = own;
  if (w == 1) return ts_tile_cast(&m->b, rows[0], s->acc);
  for (int64_t i = 0; rows && i < w; i++) half[i % 2][i / 2] = rows[i];
  V x = branch(m, at, lane, 2 * step, w / 2, rows ? half[0] : NULL);
  if (lane + step >= s->axis.n) return x;
  V y = branch(m, at, lane + step, 2 * step, w / 2, rows ? half[1] : NULL);
  return ts_tile_op2(&m->b, TS_OP_add, x, y);
}

static void put_few(Make *m) {
  const Columns *s = m->s;
  TsTileBuild *b = &m->b;
  int64_t w = 1;
  TsTileAccess to = {.edge = s->axis.inner % s->width != 0};
  V zero = ts_tile_index(b, 0);
  TsTileLoop o = ts_tile_for(b, zero, m->count, 1, true, 0, NULL);
  TsTileLoop j = ts_tile_for(b, zero, ts_tile_index(b, s->axis.inner), s->width, true, 0, NULL);
  V at[2] = {o.i, j.i};
  while (w < s->axis.n) w *= 2;
  put_result(m, o.i, j.i, branch(m, at, 0, 1, w, NULL), &to);
  ts_tile_for_end(b, &j, NULL, NULL);
  ts_tile_for_end(b, &o, NULL, NULL);
}

static void put_leaves(Make *m) {
  static const int64_t tile_axes[2] = {1, 2}, line[1] = {2};
  const Columns *s = m->s;
  TsTileBuild *b = &m->b;
  bool part = s->axis.inner % s->width != 0, edge = part || s->axis.n % s->rows;
  TsTileAccess from = {.edge = edge, .fill = edge ? -0.0 : 0, .naxis = 2, .axes = tile_axes};
  TsTileAccess to = {.edge = part}, keep = {.edge = part, .naxis = 1, .axes = line};
  TsTileType tile = ts_tile_type(s->in, 2, (int64_t[]){s->rows, s->width});
  V zero = ts_tile_index(b, 0), inner = ts_tile_index(b, s->axis.inner);
  TsTileLoop o = ts_tile_for(b, zero, m->count, 1, true, 0, NULL);
  TsTileLoop k = ts_tile_for(b, zero, ts_tile_index(b, s->leaves), 1, true, 0, NULL);
  TsTileLoop j = ts_tile_for(b, zero, inner, s->width, true, 0, NULL);
  V at[3] = {o.i, ts_short_by(b, TS_OP_mul, k.i, LEAF), j.i}, place[3] = {o.i, k.i, j.i};
  V x = ts_tile_cast(b, ts_tile_load(b, m->x, at, &tile, &from), s->acc);
  x = sum_down(m, x);
  if (m->leaf)
    ts_tile_store(b, m->leaf, place, x, &keep);
  else
    put_result(m, o.i, j.i, x, &to);
  ts_tile_for_end(b, &j, NULL, NULL);
  ts_tile_for_end(b, &k, NULL, NULL);
  ts_tile_for_end(b, &o, NULL, NULL);
}

/* Leaves [first, first + size) of the tree, size a power of two: what is behind the last one is
 * not there, and its neighbour goes up as it is. */
static V pairs(Make *m, const V *at, int64_t first, int64_t size, const TsTileAccess *how) {
  if (size == 1) {
    TsTileType t = ts_tile_vector(m->s->acc, TOGETHER);
    V from[3] = {at[0], ts_tile_index(&m->b, first), at[1]};
    return ts_tile_load(&m->b, m->leaf, from, &t, how);
  }
  V x = pairs(m, at, first, size / 2, how);
  if (first + size / 2 >= m->s->leaves) return x;
  return ts_tile_op2(&m->b, TS_OP_add, x, pairs(m, at, first + size / 2, size / 2, how));
}

static void put_ends(Make *m) {
  static const int64_t line[1] = {2};
  TsTileBuild *b = &m->b;
  int64_t n = m->s->axis.inner, size = 1;
  TsTileAccess from = {.edge = n % TOGETHER != 0, .naxis = 1, .axes = line};
  TsTileAccess to = {.edge = from.edge};
  V zero = ts_tile_index(b, 0);
  TsTileLoop o = ts_tile_for(b, zero, m->count, 1, true, 0, NULL);
  TsTileLoop j = ts_tile_for(b, zero, ts_tile_index(b, n), TOGETHER, true, 0, NULL);
  V at[2] = {o.i, j.i};
  while (size < m->s->leaves) size *= 2;
  put_result(m, o.i, j.i, pairs(m, at, 0, size, &from), &to);
  ts_tile_for_end(b, &j, NULL, NULL);
  ts_tile_for_end(b, &o, NULL, NULL);
}

static TsTile *build(const Columns *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  Make m = {.s = s};
  int64_t B = ts_tile_size(k, "B");
  TsTileType x = ts_tile_type(s->in, 3, (int64_t[]){B, s->axis.n, s->axis.inner});
  TsTileType y = ts_tile_type(s->out, 2, (int64_t[]){B, s->axis.inner});
  TsTileType leaf = ts_tile_type(s->acc, 3, (int64_t[]){B, s->leaves, s->axis.inner});
  m.x = ts_tile_param(k, "x", &x, false);
  m.y = ts_tile_param(k, "y", &y, true);
  m.b = ts_tile_build(k);
  if (s->leaves > 1) m.leaf = ts_tile_alloc(&m.b, TS_SPACE_scratch, &leaf);
  m.count = ts_short_dim(&m.b, 0);
  if (s->axis.n < FEW)
    put_few(&m);
  else
    put_leaves(&m);
  if (m.leaf) put_ends(&m);
  return k;
}

/* ---- nodes */
/* The reduced axes as one: they are neighbours, and there is one that is kept behind them. */
static bool one_axis(const TsMeta *m, const TsAttr *axes, TsStepsAxis *a) {
  bool gone[TS_MAX_RANK] = {false};
  if (axes->type != TS_ATTR_ints) return false;
  for (int i = 0; i < axes->n; i++)
    gone[axes->ints[i] < 0 ? axes->ints[i] + m->ndim : axes->ints[i]] = true;
  *a = (TsStepsAxis){0, 1, 1, 1};
  int64_t *at = &a->outer;
  for (int i = 0; i < m->ndim; i++) {
    if (m->dim[i] == 1) continue;
    if (gone[i] && at == &a->inner) return false;
    if (gone[i])
      at = &a->n;
    else if (at == &a->n)
      at = &a->inner;
    *at *= m->dim[i];
  }
  return at == &a->inner;
}

/* Wide tiles, until there are too few blocks. */
static void choose(Columns *s) {
  s->leaves = (s->axis.n + LEAF - 1) / LEAF;
  s->rows = s->leaves > 1 ? LEAF : s->axis.n;
  s->width = WIDE;
  if (s->axis.n < FEW) {
    int size = ts_dtypes[s->in].nbytes;
    s->width = LINE / (size < 2 ? 2 : size);
    return;
  }
  int64_t rounds = s->axis.outer * s->leaves;
  while (s->width > NARROW && (s->rows * s->width > TILE ||
                               rounds * ((s->axis.inner + s->width - 1) / s->width) < BLOCKS))
    s->width /= 2;
}

int ts_lower_columns(const TsSched *sched, const TsGroup *group, TsLayoutFn *layout, void *arg,
                     TsSchedKernel *out, TsError *err) {
  const TsNode *n = group->node[0];
  const TsMeta *from = &n->in[0]->meta;
  TsDtype in = (TsDtype)from->dtype, to = (TsDtype)n->out[0].meta.dtype;
  Columns s = {.op = (TsOp)n->op, .in = in, .acc = (TsDtype)ts_dtypes[in].compute, .out = to};
  if (s.acc != TS_DT_f32 && s.acc != TS_DT_f64) return 0;
  if (!ts_sched_row_major(layout, arg, n->in[0]) ||
      !ts_sched_row_major(layout, arg, (TsVal)(uintptr_t)&n->out[0]))
    return 0;
  if (!ts_dtype_is(in, TS_KIND_F) || ts_dtype_in_blocks(in) || !ts_dtype_is(to, TS_KIND_F))
    return 0;
  if (!one_axis(from, &n->attr[0], &s.axis) || !ts_meta_numel(from)) return 0;
  if (s.axis.n < 2 || s.axis.inner < (s.axis.n < FEW ? LINE / 4 : NARROW)) return 0;
  choose(&s);
  if (s.leaves > MOST_LEAVES) return 0;
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[] = {ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL)};
  ts_steps_add(&x, build(&s), args, &s.axis.outer);
  return ts_steps_end(&x, out);
}
