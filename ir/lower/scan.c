/* Running sums, products and maxima, and linear recurrences on a device: one chain an element
 * of the other axes, in increasing index, as vm/kernels/rows/rows.h has them. Where the axis is the
 * last one, a block takes rows by pieces through shared memory, so that lines are read
 * whole. */
#include "ir/lower/short.h"
#include "ir/lower/steps.h"

typedef TsTileVal V;

enum { ROWS = 16, PIECE = 32, COLUMNS = 128, IN_FLIGHT = 8 };

typedef struct Scan {
  TsOp op;
  TsDtype in, acc, out;
  TsStepsAxis axis;
  bool index; /* cummax gives places too */
} Scan;

typedef struct Make {
  const Scan *s;
  TsTileBuild b;
  TsTileType chains; /* of the accumulator */
  V x[2], y, place;
} Make;

static V step(Make *m, V first, V acc, const V *x) {
  TsTileBuild *b = &m->b;
  switch (m->s->op) {
  case TS_OP_cumsum: return ts_tile_op2(b, TS_OP_add, acc, x[0]);
  case TS_OP_cumprod: return ts_tile_op2(b, TS_OP_mul, acc, x[0]);
  default:
    return ts_tile_op3(b, TS_OP_where, first, x[1], ts_tile_op3(b, TS_OP_fma, x[0], acc, x[1]));
  }
}

/* Whether x takes the place of the largest so far. */
static V rises(Make *m, V x, V acc) {
  TsTileBuild *b = &m->b;
  V up = ts_tile_op2(b, TS_OP_gt, x, acc);
  if (!ts_dtype_is(m->s->acc, TS_KIND_F)) return up;
  V nan = ts_tile_op2(b, TS_OP_logical_and, ts_tile_op2(b, TS_OP_ne, x, x),
                      ts_tile_op2(b, TS_OP_eq, acc, acc));
  return ts_tile_op2(b, TS_OP_logical_or, up, nan);
}

static V begin(Make *m) {
  TsTileType t = m->chains;
  bool whole = !ts_dtype_is(m->s->acc, TS_KIND_F);
  if (m->s->op == TS_OP_cumprod) return ts_tile_const(&m->b, 1, &t);
  if (m->s->op == TS_OP_cummax)
    return whole ? ts_tile_bits(&m->b, 1ull << 63, &t) : ts_tile_const(&m->b, -1.0 / 0.0, &t);
  return ts_tile_const(&m->b, whole ? 0 : -0.0, &t);
}

/* One element of every chain; i: its index, i64 scalar. */
static void advance(Make *m, V i, V *carry, const V *x) {
  TsTileBuild *b = &m->b;
  if (m->s->op != TS_OP_cummax) {
    V first = ts_short_splat(b, &m->chains, ts_tile_op2(b, TS_OP_lt, i, ts_tile_index(b, 1)));
    carry[0] = step(m, first, carry[0], x);
    return;
  }
  V up = rises(m, x[0], carry[0]);
  carry[0] = ts_tile_op3(b, TS_OP_where, up, x[0], carry[0]);
  carry[1] = ts_tile_op3(b, TS_OP_where, up, ts_short_splat(b, &m->chains, i), carry[1]);
}

static int inputs(const Scan *s) { return s->op == TS_OP_linear_scan ? 2 : 1; }

/* ---- chains side by side: [outer, n, inner], tiles of columns */
static void columns(Make *m, V outer_count) {
  static const int64_t axes[1] = {2};
  TsTileBuild *b = &m->b;
  const Scan *s = m->s;
  int64_t c = COLUMNS, n = s->axis.n;
  bool edge = s->axis.inner % c != 0;
  TsTileAccess a = {.edge = edge, .naxis = 1, .axes = axes};
  TsTileType in = ts_tile_vector(s->in, c);
  m->chains = ts_tile_vector(s->acc, c);
  TsTileLoop outer = ts_tile_for(b, ts_tile_index(b, 0), outer_count, 1, true, 0, NULL);
  TsTileLoop inner =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, s->axis.inner), c, true, 0, NULL);
  V carry[2] = {begin(m), ts_short_int(b, &m->chains, 0)};
  int ncarry = s->op == TS_OP_cummax ? 2 : 1, each = n % IN_FLIGHT ? 1 : IN_FLIGHT;
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, n), each, false, ncarry, carry);
  if (b->k->failed) return;
  V now[2] = {l.carry[0], ncarry > 1 ? l.carry[1] : NULL}, x[IN_FLIGHT][2], i[IN_FLIGHT];
  for (int k = 0; k < each; k++) {
    i[k] = ts_tile_op2(b, TS_OP_add, l.i, ts_tile_index(b, k));
    V at[3] = {outer.i, i[k], inner.i};
    for (int j = 0; j < inputs(s); j++)
      x[k][j] = ts_tile_cast(b, ts_tile_load(b, m->x[j], at, &in, &a), s->acc);
  }
  for (int k = 0; k < each; k++) {
    V at[3] = {outer.i, i[k], inner.i};
    advance(m, i[k], now, x[k]);
    ts_tile_store(b, m->y, at, ts_tile_cast(b, now[0], s->out), &a);
    if (m->place) ts_tile_store(b, m->place, at, now[1], &a);
  }
  ts_tile_for_end(b, &l, now, NULL);
  ts_tile_for_end(b, &inner, NULL, NULL);
  ts_tile_for_end(b, &outer, NULL, NULL);
}

/* ---- rows: [rows, n] by pieces */
static void rows(Make *m, V count) {
  static const int64_t down[1] = {0};
  TsTileBuild *b = &m->b;
  const Scan *s = m->s;
  int64_t dim[2] = {ROWS, PIECE}, room[2] = {ROWS, PIECE + 1}, n = s->axis.n;
  TsTileType in = ts_tile_type(s->in, 2, dim), tile = ts_tile_type(s->acc, 2, dim);
  TsTileType memory = ts_tile_type(s->acc, 2, room), index = ts_tile_type(TS_DT_i64, 2, room);
  TsTileAccess edge = {.edge = true}, along = {.naxis = 1, .axes = down};
  V zero = ts_tile_index(b, 0), buffer[2], places = NULL;
  m->chains = ts_tile_vector(s->acc, ROWS);
  TsTileLoop outer = ts_tile_for(b, zero, count, ROWS, true, 0, NULL);
  memory.space = index.space = TS_SPACE_shared;
  for (int j = 0; j < inputs(s); j++) buffer[j] = ts_tile_alloc(b, TS_SPACE_shared, &memory);
  if (m->place) places = ts_tile_alloc(b, TS_SPACE_shared, &index);
  V carry[4] = {begin(m), ts_short_int(b, &m->chains, 0)}, corner[2] = {zero, zero};
  V begins[2] = {outer.i, zero};
  int ncarry = s->op == TS_OP_cummax ? 2 : 1, all = ncarry + inputs(s);
  for (int j = 0; j < inputs(s); j++)
    carry[ncarry + j] = ts_tile_load(b, m->x[j], begins, &in, &edge);
  TsTileLoop l = ts_tile_for(b, zero, ts_tile_index(b, n), PIECE, false, all, carry);
  if (b->k->failed) return;
  V now[4] = {l.carry[0], ncarry > 1 ? l.carry[1] : NULL}, at[2] = {outer.i, l.i};
  V next[2] = {outer.i, ts_tile_op2(b, TS_OP_add, l.i, ts_tile_index(b, PIECE))};
  V x[PIECE][2], y[PIECE], p[PIECE];
  for (int j = 0; j < inputs(s); j++)
    ts_tile_store(b, buffer[j], corner, ts_tile_cast(b, l.carry[ncarry + j], s->acc), NULL);
  for (int j = 0; j < inputs(s); j++) /* under way while this piece is added up */
    now[ncarry + j] = ts_tile_load(b, m->x[j], next, &in, &edge);
  for (int k = 0; k < PIECE; k++) {
    V column[2] = {zero, ts_tile_index(b, k)};
    for (int j = 0; j < inputs(s); j++)
      x[k][j] = ts_tile_load(b, buffer[j], column, &m->chains, &along);
  }
  for (int k = 0; k < PIECE; k++) {
    advance(m, ts_tile_op2(b, TS_OP_add, l.i, ts_tile_index(b, k)), now, x[k]);
    y[k] = now[0], p[k] = now[1];
  }
  for (int k = 0; k < PIECE; k++) {
    V column[2] = {zero, ts_tile_index(b, k)};
    ts_tile_store(b, buffer[0], column, y[k], &along);
    if (places) ts_tile_store(b, places, column, p[k], &along);
  }
  V done = ts_tile_load(b, buffer[0], corner, &tile, NULL);
  ts_tile_store(b, m->y, at, ts_tile_cast(b, done, s->out), &edge);
  if (places) {
    TsTileType t = ts_tile_type(TS_DT_i64, 2, dim);
    ts_tile_store(b, m->place, at, ts_tile_load(b, places, corner, &t, NULL), &edge);
  }
  ts_tile_for_end(b, &l, now, NULL);
  ts_tile_for_end(b, &outer, NULL, NULL);
}

static TsTile *build(const Scan *s) {
  TsTile *k = ts_tile_new(ts_op_info(s->op)->name);
  if (!k) return NULL;
  Make m = {.s = s};
  int64_t B = ts_tile_size(k, "B"), side[3] = {B, s->axis.n, s->axis.inner};
  int rank = s->axis.inner > 1 ? 3 : 2;
  TsTileType in = ts_tile_type(s->in, rank, side), out = ts_tile_type(s->out, rank, side);
  TsTileType index = ts_tile_type(TS_DT_i64, rank, side);
  for (int j = 0; j < inputs(s); j++) m.x[j] = ts_tile_param(k, NULL, &in, false);
  m.y = ts_tile_param(k, "y", &out, true);
  if (s->index) m.place = ts_tile_param(k, "place", &index, true);
  m.b = ts_tile_build(k);
  k->vector = 4;
  k->threads = rank == 3 ? COLUMNS : 64;
  V count = ts_short_dim(&m.b, 0);
  if (rank == 3)
    columns(&m, count);
  else
    rows(&m, count);
  return k;
}

static bool takes(TsDtype d) {
  return ts_dtype_is(d, TS_KIND_F | TS_KIND_I | TS_KIND_U | TS_KIND_B) &&
         !ts_dtype_in_blocks(d);
}

int ts_lower_scan(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                  TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *y = &n->out[0].meta;
  TsDtype in = (TsDtype)n->in[0]->meta.dtype, to = (TsDtype)y->dtype;
  Scan s = {.op = (TsOp)n->op, .in = in, .out = to, .index = n->op == TS_OP_cummax};
  if (!takes(in) || !takes(to) || !y->ndim || !ts_meta_numel(y)) return 0;
  s.acc = (TsDtype)ts_dtypes[in].accum;
  if (inputs(&s) == 2) s.acc = (TsDtype)ts_dtypes[to].compute;
  if (inputs(&s) == 2 && !ts_dtype_is(to, TS_KIND_F)) return 0;
  for (int i = 0; i < inputs(&s); i++)
    if (!ts_meta_same_shape(&n->in[i]->meta, y) || n->in[i]->meta.dtype != in) return 0;
  s.axis = ts_steps_axis(y, n->attr[0].i);
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  int args[4], count = 0;
  for (int i = 0; i < inputs(&s); i++) args[count++] = ts_steps_in(&x, i, NULL);
  args[count++] = ts_steps_out(&x, 0, NULL);
  if (s.index) args[count++] = ts_steps_out(&x, 1, NULL);
  ts_steps_add(&x, build(&s), args, &s.axis.outer);
  return ts_steps_end(&x, out);
}
