/* experts_linear on a device: rows times the matrices of the experts that were chosen for
 * them, in blocks.
 *
 * bf16 rows and mxfp4 whose scales lie beside the codes are multiplied by the matrix unit
 * (ir/tile/gpu/experts.h), however many rows there are: bits of a row are the unit's chain of
 * it. A few rows are items of their own; more are brought together by expert first, by
 * counting: how many rows of its expert stand before a row, and how many items before its own.
 * All else has the VM's chain, a thread a column of a row, which reads what it needs of the
 * blocks. */
#include "ir/lower/blocks_value.h"
#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "ir/tile/gpu/experts.h"

typedef TsTileVal V;

enum { COLUMNS = 64, SPAN = TS_BLOCKS_SPAN, PIECE = 256, IN_FLIGHT = 8 };

typedef struct Experts {
  TsDtype w, x; /* of blocks; of rows, results and biases */
  TsDtype index;
  bool apart, bias;
  int64_t experts, n, k, rows, times;
} Experts;

static V by(TsTileBuild *b, int op, V x, int64_t y) { return ts_short_by(b, op, x, y); }

/* ---- a thread a column. Sizes: R rows, M rows of x, B bytes, S bytes of scales, E biases */
static void column_of(TsTileBuild *b, const Experts *e, V x, V w, V scales, V bias, V y, V row,
                      V expert, V first) {
  TsTileType t = ts_tile_vector(TS_DT_i64, COLUMNS), f = ts_tile_vector(TS_DT_f32, COLUMNS),
             own = ts_tile_vector(e->x, COLUMNS), one = ts_tile_scalar(e->x), none = f;
  TsTileAccess edge = {.edge = true};
  none.dtype = TS_DT_bool;
  V zero = ts_tile_index(b, 0), is = by(b, TS_TILE_ult, expert, e->experts);
  V matrix = by(b, TS_OP_mul, ts_tile_op3(b, TS_OP_where, is, expert, zero), e->n);
  V column = by(b, TS_OP_minimum, ts_short_positions(b, &t, first), e->n - 1);
  column = ts_tile_op2(b, TS_OP_add, column, ts_short_splat(b, &t, matrix));
  V from = by(b, TS_OP_mul, column, e->k / SPAN), of = by(b, TS_OP_floordiv, row, e->times);
  V acc = ts_tile_const(b, 0, &f), sum = NULL;
  TsTileLoop in = ts_tile_for(b, zero, ts_tile_index(b, e->k / SPAN), 1, false, 1, &acc);
  if (!in.stmt) return;
  sum = in.carry[0];
  V span = ts_tile_op2(b, TS_OP_add, from, ts_short_splat(b, &t, in.i));
  TsBlocksSpan s =
      e->apart ? ts_blocks_span_apart(b, w, scales, span) : ts_blocks_span(b, e->w, w, span);
  V k0 = by(b, TS_OP_mul, in.i, SPAN);
  for (int i = 0; i < SPAN; i++) {
    V each = ts_tile_load(b, x, (V[]){of, by(b, TS_OP_add, k0, i)}, &one, NULL);
    each = ts_tile_broadcast(b, ts_tile_cast(b, each, TS_DT_f32), &f, NULL);
    sum = ts_tile_op3(b, TS_OP_fma, each, ts_blocks_value(b, &s, ts_short_int(b, &t, i)), sum);
  }
  ts_tile_for_end(b, &in, &sum, &acc);
  if (e->bias) {
    V more = ts_short_gather(b, bias, column, false);
    acc = ts_tile_op2(b, TS_OP_add, acc, ts_tile_cast(b, more, TS_DT_f32));
  }
  V whole = is ? ts_tile_broadcast(b, is, &none, NULL) : NULL;
  acc = ts_tile_op3(b, TS_OP_where, whole, acc, ts_tile_const(b, 0, &f));
  ts_tile_store(b, y, (V[]){row, first}, ts_tile_cast(b, acc, (TsDtype)own.dtype), &edge);
}

static TsTile *build_columns(const Experts *e) {
  TsTile *k = ts_tile_new("experts_columns");
  if (!k) return NULL;
  int64_t rows = ts_tile_size(k, "R"), all = ts_tile_size(k, "M"), bytes = ts_tile_size(k, "B");
  int64_t nscale = ts_tile_size(k, "S"), nbias = ts_tile_size(k, "E");
  TsTileType tw = ts_tile_vector(TS_DT_u8, bytes), ts = ts_tile_vector(TS_DT_u8, nscale),
             ti = ts_tile_vector(e->index, rows), tb = ts_tile_vector(e->x, nbias);
  TsTileType tx = ts_tile_type(e->x, 2, (int64_t[]){all, e->k}),
             ty = ts_tile_type(e->x, 2, (int64_t[]){rows, e->n}),
             one = ts_tile_scalar(e->index);
  V x = ts_tile_param(k, "x", &tx, false), w = ts_tile_param(k, "w", &tw, false);
  V index = ts_tile_param(k, "index", &ti, false), bias = NULL, scales = NULL;
  if (e->bias) bias = ts_tile_param(k, "bias", &tb, false);
  if (e->apart) scales = ts_tile_param(k, "scales", &ts, false);
  V y = ts_tile_param(k, "y", &ty, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  k->threads = COLUMNS, k->vector = 1;
  V zero = ts_tile_index(b, 0);
  TsTileLoop l = ts_tile_for(b, zero, ts_short_dim(b, 0), 1, true, 0, NULL);
  TsTileLoop c = ts_tile_for(b, zero, ts_tile_index(b, e->n), COLUMNS, true, 0, NULL);
  V expert = ts_tile_cast(b, ts_tile_load(b, index, &l.i, &one, NULL), TS_DT_i64);
  if (c.stmt) column_of(b, e, x, w, scales, bias, y, l.i, expert, c.i);
  ts_tile_for_end(b, &c, NULL, NULL);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- rows by expert */
static V chosen(TsTileBuild *b, const Experts *e, V expert) {
  V is = by(b, TS_TILE_ult, expert, e->experts);
  return is ? ts_tile_op3(b, TS_OP_where, is, expert,
                          ts_short_int(b, &expert->type, e->experts))
            : NULL;
}

static V counted(TsTileBuild *b, V is, V n) {
  return is && n ? ts_tile_op2(b, TS_OP_add, n,
                               ts_tile_op3(b, TS_OP_where, is, ts_short_int(b, &n->type, 1),
                                           ts_short_int(b, &n->type, 0)))
                 : NULL;
}

static V both(TsTileBuild *b, V x, V y) { return ts_tile_op2(b, TS_OP_logical_and, x, y); }

/* Element `at` of a vector, for each of the piece. */
static V for_all(TsTileBuild *b, const TsTileType *t, V memory, V at) {
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  return ts_short_splat(b, t, ts_tile_load(b, memory, &at, &one, NULL));
}

/* How many rows before each of a piece have its expert, which is `mine`. */
static V ranks_of(TsTileBuild *b, const Experts *e, const TsTileType *t, V index, V first,
                  V mine) {
  V row = ts_short_positions(b, t, first), count = ts_short_int(b, t, 0);
  V last = by(b, TS_OP_sub, ts_short_dim(b, 0), 1);
  TsTileLoop o =
      ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), IN_FLIGHT, false, 1, &count);
  if (!o.stmt) return NULL;
  V all = o.carry[0];
  for (int i = 0; i < IN_FLIGHT; i++) {
    V at = by(b, TS_OP_add, o.i, i), in = ts_tile_op2(b, TS_OP_minimum, at, last);
    V same = ts_tile_op2(b, TS_OP_eq, chosen(b, e, for_all(b, t, index, in)), mine);
    V before = ts_tile_op2(b, TS_OP_lt, ts_short_splat(b, t, at), row);
    all = counted(b, both(b, same, before), all);
  }
  ts_tile_for_end(b, &o, &all, &count);
  return count;
}

/* Of all rows. Sizes: R. */
static TsTile *build_ranks(const Experts *e) {
  TsTile *k = ts_tile_new("experts_ranks");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "R");
  TsTileType v = ts_tile_vector(TS_DT_i64, n), t = ts_tile_vector(TS_DT_i64, PIECE);
  V index = ts_tile_param(k, "index", &v, false), ranks = ts_tile_param(k, "ranks", &v, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE, k->vector = 1;
  V zero = ts_tile_index(b, 0);
  TsTileLoop l = ts_tile_for(b, zero, ts_short_dim(b, 0), PIECE, true, 0, NULL);
  V mine = chosen(b, e, ts_tile_load(b, index, &l.i, &t, &edge));
  ts_tile_store(b, ranks, &l.i, ranks_of(b, e, &t, index, l.i, mine), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

static void put(TsTileBuild *b, V memory, V at, V v) {
  TsAttr edge = {.type = TS_ATTR_bool, .i = 1};
  if (memory && at && v)
    ts_tile_emit(b, TS_TILE_scatter, 3, (V[]){memory, at, v}, &edge, 0, NULL);
}

static V only(TsTileBuild *b, V is, V at) {
  return is && at ? ts_tile_op3(b, TS_OP_where, is, at, ts_short_int(b, &at->type, -1)) : NULL;
}

/* What is counted of a piece's rows: items before the one of a row, items in all, rows of its
 * expert. */
enum { C_before, C_items, C_rows, COUNTS };

static void count_items(TsTileBuild *b, const Experts *e, const TsGpuExperts *p, V index,
                        V ranks, V mine, V rank, V *out) {
  const TsTileType *t = &mine->type;
  V last = by(b, TS_OP_sub, ts_short_dim(b, 0), 1), none = ts_short_int(b, t, 0);
  V first = ts_tile_op2(b, TS_OP_sub, rank, by(b, TS_OP_mod, rank, p->rows));
  for (int i = 0; i < COUNTS; i++) out[i] = none;
  TsTileLoop o =
      ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), IN_FLIGHT, false, COUNTS, out);
  if (!o.stmt) return;
  V n[COUNTS] = {o.carry[C_before], o.carry[C_items], o.carry[C_rows]};
  for (int i = 0; i < IN_FLIGHT; i++) {
    V at = by(b, TS_OP_add, o.i, i), in = ts_tile_op2(b, TS_OP_minimum, at, last);
    V other = chosen(b, e, for_all(b, t, index, in)), its = for_all(b, t, ranks, in);
    V there = ts_tile_op2(b, TS_OP_eq, ts_short_splat(b, t, at), ts_short_splat(b, t, in));
    V begins = both(b, by(b, TS_OP_eq, by(b, TS_OP_mod, its, p->rows), 0), there);
    V same = ts_tile_op2(b, TS_OP_eq, other, mine);
    V own = both(b, same, ts_tile_op2(b, TS_OP_lt, its, first));
    V lower = ts_tile_op2(b, TS_OP_logical_or, ts_tile_op2(b, TS_OP_lt, other, mine), own);
    n[C_before] = counted(b, both(b, begins, lower), n[C_before]);
    n[C_items] = counted(b, begins, n[C_items]);
    n[C_rows] = counted(b, both(b, same, there), n[C_rows]);
  }
  ts_tile_for_end(b, &o, n, out);
}

/* Places of ir/tile/gpu/experts.h. A row whose rank is a multiple of `rows` begins an item;
 * before an item stand those of lower experts and of its own. Where an item has fewer rows, who
 * begins it says so. apart: ranks were
 * counted before; else a piece has all rows, and they are counted here. Sizes: R, I. */
static TsTile *build_items(const Experts *e, const TsGpuExperts *p, bool apart) {
  TsTile *k = ts_tile_new("experts_items");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "R"), np = ts_tile_size(k, "I");
  TsTileType v = ts_tile_vector(TS_DT_i64, n), t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileType to = ts_tile_vector(TS_DT_i64, np);
  V index = ts_tile_param(k, "index", &v, false), ranks = NULL, rank, out[COUNTS] = {NULL};
  if (apart) ranks = ts_tile_param(k, "ranks", &v, false);
  V places = ts_tile_param(k, "places", &to, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE, k->vector = 1;
  V zero = ts_tile_index(b, 0);
  TsTileLoop l = ts_tile_for(b, zero, ts_short_dim(b, 0), PIECE, true, 0, NULL);
  V row = ts_short_positions(b, &t, l.i), none = ts_short_int(b, &t, 0);
  V mine = chosen(b, e, ts_tile_load(b, index, &l.i, &t, &edge));
  if (apart) {
    rank = ts_tile_load(b, ranks, &l.i, &t, &edge);
  } else {
    rank = ranks_of(b, e, &t, index, l.i, mine);
    ranks = ts_tile_alloc(b, TS_SPACE_shared, &t);
    ts_tile_store(b, ranks, &zero, rank, NULL);
  }
  if (mine && rank && ranks) count_items(b, e, p, index, ranks, mine, rank, out);
  V in_item = by(b, TS_OP_mod, rank, p->rows);
  V is = ts_tile_op2(b, TS_OP_lt, row, ts_short_splat(b, &t, ts_short_dim(b, 0)));
  V place = by(b, TS_OP_add, by(b, TS_OP_mul, out[C_before], p->rows), 1 + p->items);
  put(b, places, only(b, is, ts_tile_op2(b, TS_OP_add, place, in_item)), row);
  V leads = both(b, is, by(b, TS_OP_eq, in_item, 0));
  put(b, places, only(b, leads, by(b, TS_OP_add, out[C_before], 1)), mine);
  put(b, places, only(b, by(b, TS_OP_eq, row, 0), none), out[C_items]);
  V left = ts_tile_op2(b, TS_OP_sub, out[C_rows], rank), no_row = ts_short_int(b, &t, -1);
  for (int i = 1; i < p->rows; i++) {
    V empty = both(b, leads, by(b, TS_OP_le, left, i));
    put(b, places, only(b, empty, by(b, TS_OP_add, place, i)), no_row);
  }
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

static int make_places(TsSteps *x, const Experts *e, const TsGpuExperts *p, int index,
                       int64_t *n) {
  int64_t bytes = ts_dtypes[TS_DT_i64].nbytes;
  *n = 1 + p->items + p->items * p->rows;
  int places = ts_steps_temp(x, *n * bytes);
  bool apart = e->rows > PIECE;
  int64_t dim[2] = {e->rows, *n};
  if (!apart) {
    ts_steps_add(x, build_items(e, p, false), (int[]){index, places}, dim);
    return places;
  }
  int ranks = ts_steps_temp(x, e->rows * bytes);
  ts_steps_add(x, build_ranks(e), (int[]){index, ranks}, dim);
  ts_steps_add(x, build_items(e, p, true), (int[]){index, ranks, places}, dim);
  return places;
}

/* ---- by the matrix unit */
static bool fits_unit(const TsSched *s, const Experts *e, TsGpuExperts *p, TsGpuMachine *gpu) {
  if (!e->apart || e->x != TS_DT_bf16 || s->profile == TS_PROFILE_strict) return false;
  double work = (double)e->rows * (double)e->n * (double)e->k;
  if (!ts_lower_roles(s, work) || !ts_lower_warps(s, work, gpu)) return false;
  if (e->experts * e->n > INT32_MAX || e->rows > INT32_MAX) return false;
  *p = ts_gpu_experts(e->rows, e->experts, e->n, e->k, gpu);
  p->times = e->times, p->bias = e->bias;
  return p->cols > 0;
}

static void by_unit(TsSteps *x, const Experts *e, const TsGpuExperts *p,
                    const TsGpuMachine *gpu) {
  int index = ts_steps_in_as(x, 2, NULL, TS_DT_i64), n = 0, list[6];
  int64_t nplace = e->rows, blocks = (int64_t)gpu->processors * p->beside;
  int places = p->sorted ? make_places(x, e, p, index, &nplace) : index;
  if (p->items * (e->n / p->cols) < blocks) blocks = p->items * (e->n / p->cols);
  list[n++] = ts_steps_in(x, 0, NULL), list[n++] = ts_steps_in(x, 1, NULL);
  list[n++] = ts_steps_in(x, 4, NULL), list[n++] = places;
  if (e->bias) list[n++] = ts_steps_in(x, 3, NULL);
  list[n++] = ts_steps_out(x, 0, NULL);
  int64_t dim[6] = {e->rows / e->times,
                    e->experts * e->n,
                    e->experts * e->n / p->cols,
                    nplace,
                    e->rows,
                    blocks};
  ts_steps_add(x, ts_tile_gpu_experts(p, gpu->target, x->err), list, dim);
}

/* ---- operands */
static bool find(const TsNode *n, Experts *e) {
  const TsMeta *x = &n->in[0]->meta, *w = &n->in[1]->meta, *index = &n->in[2]->meta,
               *y = &n->out[0].meta;
  *e =
      (Experts){.w = (TsDtype)w->dtype, .x = (TsDtype)x->dtype, .index = (TsDtype)index->dtype};
  e->bias = n->nin > 3 && n->in[3], e->apart = n->nin > 4 && n->in[4];
  e->experts = w->dim[0], e->n = w->dim[1], e->k = e->apart ? 2 * w->dim[2] : w->dim[2];
  e->rows = ts_meta_numel(index);
  e->times = x->ndim > index->ndim ? 1 : index->dim[index->ndim - 1];
  bool floats = e->x == TS_DT_f32 || e->x == TS_DT_bf16 || e->x == TS_DT_f16;
  if (!floats || y->dtype != x->dtype || (!e->apart && !ts_blocks_known(e->w))) return false;
  return ts_meta_numel(y) && e->k && (!e->bias || n->in[3]->meta.dtype == x->dtype);
}

int ts_lower_experts(const TsSched *s, const TsGroup *g, TsLayoutFn *layout, void *arg,
                     TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  Experts e;
  TsGpuExperts p;
  TsGpuMachine gpu;
  TsSteps x;
  if (!find(n, &e)) return 0;
  ts_steps_begin(&x, s, layout, arg, n, err);
  if (fits_unit(s, &e, &p, &gpu)) {
    by_unit(&x, &e, &p, &gpu);
    return ts_steps_end(&x, out);
  }
  int list[6], m = 0;
  for (int i = 0; i < n->nin; i++)
    if (n->in[i]) list[m++] = ts_steps_in(&x, i, NULL);
  list[m++] = ts_steps_out(&x, 0, NULL);
  int64_t dim[5] = {e.rows, e.rows / e.times, ts_meta_nbytes(&n->in[1]->meta)};
  dim[3] = e.apart ? ts_meta_nbytes(&n->in[4]->meta) : 0, dim[4] = e.experts * e.n;
  ts_steps_add(&x, build_columns(&e), list, dim);
  return ts_steps_end(&x, out);
}
