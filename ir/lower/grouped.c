/* Products of groups of rows with a matrix each, and the gradients of those matrices, on a
 * GPU. The sizes of groups are numbers that only the device may have, so a first kernel
 * writes down where groups and their tiles are (ir/tile/gpu/ragged.h) and the product reads it:
 * the host knows how many tiles there are at most, and need not wait. Tiles begin with their
 * group; a last one ends with it (store_below), and rows behind all groups are tiles of zeros.
 *
 * The matrix unit takes whole stages, which gradients have along rows. So the last rows of each
 * group are copied to a stage of their own, with zeros behind them.
 *
 * Rejected: rows moved so that groups begin with a tile (x and the result go through memory once
 * more), and one launch a group (the host would have to know the sizes). */
#include "ir/lower/grouped_square.h"
#include "ir/lower/index/index.h"
#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "ir/sched/product/product.h"
#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/product.h"
#include "ir/tile/gpu/ragged.h"

typedef TsTileVal V;

enum { PIECE = 256, IN_FLIGHT = 8, WIDE = 1024, ALIGN = 16, STAGE = 64 };

typedef struct Grouped {
  const TsSched *s;
  const TsNode *node;
  TsSteps steps;
  int nsm;
  bool depth, transposed; /* the gradient of the matrices; w lies as [G, N, K] */
  TsDtype in, out, sizes;
  int64_t rows, m, n, groups; /* rows in groups; of the result's matrices */
  int64_t own; /* rows that each group has room for, or 0: all stand side by side */
  int64_t k;   /* what the product is summed over, of depth the rows */
  int64_t nplace;
  int of_x, of_w, of_sizes, places; /* arguments */
} Grouped;

/* ---- where groups are */
typedef struct Places {
  TsDtype sizes;
  int tile; /* rows; 0: one item a group */
  int64_t own;
} Places;

/* What a walk over the groups knows: the first row and item of the next one, and of each item of
 * a piece its numbers. */
enum { W_row, W_item, W_place, W_STATE = W_place + TS_GPU_PLACE_count };

static V by(TsTileBuild *b, int op, V x, int64_t y) { return ts_gpu_by(b, op, x, y); }

/* A group of so many rows and items, which A has from `from` on or, if NULL, where they are. */
static void walk(TsTileBuild *b, const Places *p, V item, V rows, V n, V group, V from, V *w) {
  if (!item || !rows) return;
  V in = ts_tile_op2(b, TS_OP_sub, item, ts_short_splat(b, &item->type, w[W_item]));
  V mine = ts_tile_op2(b, TS_TILE_ult, in, ts_short_splat(b, &item->type, n));
  V row = ts_short_splat(b, &item->type, w[W_row]),
    end = ts_tile_op2(b, TS_OP_add, w[W_row], rows);
  if (p->tile) row = ts_tile_op2(b, TS_OP_add, row, ts_short_by(b, TS_OP_mul, in, p->tile));
  V to[TS_GPU_PLACE_count] = {row, ts_short_splat(b, &item->type, end),
                              ts_short_splat(b, &item->type, group),
                              from ? ts_short_splat(b, &item->type, from) : row};
  for (int i = 0; i < TS_GPU_PLACE_count; i++)
    w[W_place + i] = ts_tile_op3(b, TS_OP_where, mine, to[i], w[W_place + i]);
  w[W_row] = end, w[W_item] = ts_tile_op2(b, TS_OP_add, w[W_item], n);
}

/* The rest of a group's room, which is zeros: items of no group, whose rows of A are outside. */
static void walk_room(TsTileBuild *b, const Places *p, V item, V rest, V *w) {
  if (p->tile)
    walk(b, p, item, rest, ts_gpu_div_up(b, rest, p->tile), ts_short_dim(b, 0),
         ts_short_dim(b, 2), w);
  else
    w[W_row] = ts_tile_op2(b, TS_OP_add, w[W_row], rest);
}

/* Group i: its rows as far as there are so many, none behind the last group. */
static void walk_one(TsTileBuild *b, const Places *p, V item, V i, V size, V *w) {
  V zero = ts_tile_index(b, 0), room = ts_tile_index(b, p->own);
  V left = p->own ? room : ts_tile_op2(b, TS_OP_sub, ts_short_dim(b, 2), w[W_row]);
  V is = ts_tile_op2(b, TS_OP_lt, i, ts_short_dim(b, 0));
  V rows = ts_tile_op2(b, TS_OP_maximum, ts_tile_op2(b, TS_OP_minimum, size, left), zero);
  V n = p->tile ? ts_gpu_div_up(b, rows, p->tile) : ts_tile_index(b, 1);
  rows = ts_tile_op3(b, TS_OP_where, is, rows, zero);
  walk(b, p, item, rows, ts_tile_op3(b, TS_OP_where, is, n, zero), i, NULL, w);
  if (!p->own || !is) return;
  V rest = ts_tile_op2(b, TS_OP_sub, room, rows);
  walk_room(b, p, item, ts_tile_op3(b, TS_OP_where, is, rest, zero), w);
}

/* Some sizes at a time, for whose loads nothing waits. */
static void walk_all(TsTileBuild *b, const Places *p, V sizes, V item, V *w) {
  TsTileType one = ts_tile_scalar(p->sizes);
  V groups = ts_short_dim(b, 0), all = ts_short_dim(b, 2), zero = ts_tile_index(b, 0);
  V last = by(b, TS_OP_sub, groups, 1);
  TsTileLoop l = ts_tile_for(b, zero, groups, IN_FLIGHT, false, W_STATE, w);
  if (!l.stmt) return;
  V next[W_STATE], at[IN_FLIGHT], size[IN_FLIGHT];
  for (int i = 0; i < W_STATE; i++) next[i] = l.carry[i];
  for (int i = 0; i < IN_FLIGHT; i++) {
    at[i] = by(b, TS_OP_add, l.i, i);
    V inside = ts_tile_op2(b, TS_OP_minimum, at[i], last);
    size[i] = ts_tile_cast(b, ts_tile_load(b, sizes, &inside, &one, NULL), TS_DT_i64);
  }
  for (int i = 0; i < IN_FLIGHT; i++) walk_one(b, p, item, at[i], size[i], next);
  ts_tile_for_end(b, &l, next, w);
  if (!p->tile || p->own) return;
  V rest = ts_tile_op2(b, TS_OP_sub, all, w[W_row]);
  walk(b, p, item, rest, ts_gpu_div_up(b, rest, p->tile), groups, all, w);
}

/* Sizes: groups, items, rows. */
static TsTile *build_places(const Places *p) {
  TsTile *k = ts_tile_new("groups");
  if (!k) return NULL;
  int64_t groups = ts_tile_size(k, "G"), items = ts_tile_size(k, "I");
  ts_tile_size(k, "T");
  TsTileType ts = ts_tile_vector(p->sizes, groups), t = ts_tile_vector(TS_DT_i64, PIECE);
  TsTileType tp = ts_tile_type(TS_DT_i64, 2, (int64_t[]){TS_GPU_PLACES, items});
  V sizes = ts_tile_param(k, "sizes", &ts, false), to = ts_tile_param(k, "places", &tp, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileAccess edge = {.edge = true};
  k->threads = PIECE, k->vector = 1;
  V zero = ts_tile_index(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, ts_short_dim(&b, 1), PIECE, true, 0, NULL);
  V item = ts_short_positions(&b, &t, l.i);
  V none = ts_short_int(&b, &t, 0), w[W_STATE] = {zero, zero, none, none, none, none};
  walk_all(&b, p, sizes, item, w);
  for (int i = 0; i < TS_GPU_PLACES; i++) {
    V what = i < TS_GPU_PLACE_count ? w[W_place + i] : ts_short_splat(&b, &t, w[W_item]);
    ts_tile_store(&b, to, (V[]){ts_tile_index(&b, i), l.i}, what, &edge);
  }
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static void make_places(Grouped *g, int tile) {
  Places p = {g->sizes, tile, g->own};
  int64_t items = tile ? g->rows / tile + (g->own ? 2 : 1) * g->groups + 1 : g->groups;
  g->nplace = items * TS_GPU_PLACES;
  g->places = ts_steps_temp(&g->steps, g->nplace * ts_dtypes[TS_DT_i64].nbytes);
  ts_steps_add(&g->steps, build_places(&p), (int[]){g->of_sizes, g->places},
               (int64_t[]){g->groups, items, g->rows});
}

/* ---- last stages */
/* Row r of the last stage of a group is its row `whole stages` + r, or zeros. Sizes: rows of x,
 * columns, rows of the stages, numbers of places. */
static TsTile *build_tail(TsDtype d) {
  TsTile *k = ts_tile_new("last_rows");
  if (!k) return NULL;
  int64_t rows = ts_tile_size(k, "T"), cols = ts_tile_size(k, "C"), all = ts_tile_size(k, "L");
  TsTileType tx = ts_tile_type(d, 2, (int64_t[]){rows, cols});
  TsTileType ty = ts_tile_type(d, 2, (int64_t[]){all, cols}), t = ts_tile_vector(d, WIDE);
  TsTileType tp = ts_tile_vector(TS_DT_i64, ts_tile_size(k, "I"));
  V x = ts_tile_param(k, "x", &tx, false), places = ts_tile_param(k, "places", &tp, false);
  V y = ts_tile_param(k, "y", &ty, true);
  TsTileBuild b = ts_tile_build(k);
  TsTileAccess edge = {.edge = true};
  k->threads = WIDE / 8, k->vector = 8;
  V zero = ts_tile_index(&b, 0), end = ts_short_dim(&b, 0);
  TsTileLoop l = ts_tile_for(&b, zero, ts_short_dim(&b, 2), 1, true, 0, NULL);
  TsTileLoop c = ts_tile_for(&b, zero, ts_short_dim(&b, 1), WIDE, true, 0, NULL);
  V items = ts_gpu_items(&b, ts_short_dim(&b, 3)), group = by(&b, TS_OP_floordiv, l.i, STAGE);
  V lo = ts_gpu_place(&b, places, items, TS_GPU_PLACE_row, group);
  V hi = ts_gpu_place(&b, places, items, TS_GPU_PLACE_end, group);
  V whole = by(&b, TS_OP_floordiv, ts_tile_op2(&b, TS_OP_sub, hi, lo), STAGE);
  V row = ts_tile_op2(&b, TS_OP_add, lo, by(&b, TS_OP_mul, whole, STAGE));
  row = ts_tile_op2(&b, TS_OP_add, row, by(&b, TS_OP_mod, l.i, STAGE));
  row = ts_tile_op3(&b, TS_OP_where, ts_tile_op2(&b, TS_OP_lt, row, hi), row, end);
  V v = ts_tile_load(&b, x, (V[]){row, c.i}, &t, &edge);
  ts_tile_store(&b, y, (V[]){l.i, c.i}, v, &edge);
  ts_tile_for_end(&b, &c, NULL, NULL);
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static int make_tail(Grouped *g, int x, int64_t cols) {
  int64_t rows = g->groups * STAGE;
  int to = ts_steps_temp(&g->steps, rows * cols * ts_dtypes[g->in].nbytes);
  ts_steps_add(&g->steps, build_tail(g->in), (int[]){x, g->places, to},
               (int64_t[]){g->rows, cols, rows, g->nplace});
  return to;
}

/* ---- products */
static int64_t mean_rows(const Grouped *g) { return (g->rows + g->groups - 1) / g->groups; }

/* By roles, where the copy engine takes rows and there is the unit that these are for. */
static void by_roles(Grouped *g) {
  TsSteps *s = &g->steps;
  int64_t m = g->depth ? g->m : mean_rows(g), k = g->depth ? mean_rows(g) : g->k;
  TsGpuProduct x = ts_gpu_product_for(g->in, g->out, g->depth, g->transposed, m, g->n, k,
                                      g->groups, g->nsm, false);
  x = ts_gpu_product(g->in, g->out, g->depth, g->transposed, x.rows, x.cols);
  x.cluster = 1;
  x.ragged = g->depth ? TS_GPU_RAGGED_depth : TS_GPU_RAGGED_rows;
  make_places(g, g->depth ? 0 : x.rows);
  int list[6] = {g->of_x, g->of_w, g->places}, n = 3;
  if (g->depth && ts_dtypes[g->in].nbytes <= 2) {
    list[n++] = make_tail(g, g->of_x, g->m);
    list[n++] = make_tail(g, g->of_w, g->n);
  }
  list[n++] = ts_steps_out(s, 0, NULL);
  int64_t dim[7] = {g->m, g->n, g->k, g->groups, g->nplace, g->groups * STAGE, g->nsm};
  ts_steps_add(s, ts_tile_gpu_product(&x, s->err), list, dim);
}

/* 16 bits may be summed in the order of a matrix unit. */
static bool is_free(const Grouped *g) {
  return ts_dtypes[g->in].nbytes == 2 && g->s->profile != TS_PROFILE_strict;
}

static TsGpuWarpUnit unit_of(const Grouped *g) {
  int64_t stage = TS_GPU_PATTERN / ts_dtypes[g->in].nbytes;
  bool fits = !g->depth && g->n % 2 == 0 && (g->transposed || g->k % stage == 0);
  return is_free(g) && fits ? TS_GPU_UNIT_mma : TS_GPU_UNIT_fma;
}

/* Bytes that rows are multiples of. */
static int step_of(const Grouped *g) {
  int64_t row[3] = {g->depth ? g->m : g->k, g->transposed ? g->k : g->n, g->n};
  int bytes = ALIGN,
      each[3] = {ts_dtypes[g->in].nbytes, ts_dtypes[g->in].nbytes, ts_dtypes[g->out].nbytes};
  for (int i = 0; i < 3; i++)
    while (row[i] * each[i] % bytes) bytes /= 2;
  return bytes;
}

static void by_warps(Grouped *g, const TsGpuMachine *gpu) {
  TsSteps *s = &g->steps;
  int64_t m = g->depth ? g->m * g->groups : g->rows;
  int64_t rows = g->depth ? g->m : g->transposed ? g->n : g->k;
  TsGpuWarpProduct w = ts_gpu_warp_product_for(g->in, g->out, unit_of(g), g->depth,
                                               g->transposed, g->depth ? m : mean_rows(g),
                                               g->depth ? g->n : g->n * g->groups, gpu);
  w.bytes = step_of(g), w.ragged = g->depth ? TS_GPU_RAGGED_depth : TS_GPU_RAGGED_rows;
  make_places(g, g->depth ? 0 : w.rows);
  int list[4] = {g->of_x, g->of_w, g->places, ts_steps_out(s, 0, NULL)};
  int64_t dim[6] = {g->m, g->n, g->k, g->nplace, rows * g->groups};
  dim[5] = ts_gpu_warp_product_blocks(&w, gpu);
  ts_steps_add(s, ts_tile_gpu_warp_product(&w, gpu->target, s->err), list, dim);
}

/* By a unit that makes squares of sums. */
static void by_squares(Grouped *g, const char *unit, TsDtype factor) {
  TsSteps *s = &g->steps;
  TsGroupedSquare x = {.unit = unit, .in = g->in, .factor = factor, .out = g->out};
  x.depth = g->depth, x.transposed = g->transposed, x.lanes = g->s->target->lanes;
  x.groups = g->groups, x.m = g->m, x.n = g->n, x.k = g->k;
  x.rows = ts_grouped_square_rows(g->depth ? g->m : mean_rows(g));
  make_places(g, g->depth ? 0 : x.rows);
  int list[4] = {g->of_x, g->of_w, g->places, ts_steps_out(s, 0, NULL)};
  int64_t dim[2] = {g->rows, g->nplace};
  ts_steps_add(s, ts_grouped_square(&x), list, dim);
}

static bool wants_warps(const Grouped *g) {
  bool exact = ts_dtypes[g->in].nbytes == 2 && !is_free(g);
  return !g->nsm || exact || step_of(g) < ALIGN;
}

/* ---- operands */
static bool takes(const TsNode *n) {
  TsDtype d = (TsDtype)n->in[0]->meta.dtype, y = (TsDtype)n->out[0].meta.dtype;
  bool half = d == TS_DT_bf16 || d == TS_DT_f16;
  if (n->in[1]->meta.dtype != d || !ts_index_takes(&n->in[2]->meta)) return false;
  return half ? y == d || y == TS_DT_f32 : (d == TS_DT_f32 || d == TS_DT_f64) && y == d;
}

static bool find_sizes(Grouped *g) {
  const TsNode *n = g->node;
  const TsMeta *x = &n->in[0]->meta, *w = &n->in[1]->meta;
  g->depth = n->op == TS_OP_grouped_matmul_weight_grad;
  g->in = (TsDtype)x->dtype, g->out = (TsDtype)n->out[0].meta.dtype;
  g->sizes = (TsDtype)n->in[2]->meta.dtype;
  g->groups = n->in[2]->meta.dim[0];
  g->own = x->ndim == 3 && x->dim[0] == g->groups ? x->dim[1] : 0;
  g->rows = x->ndim == 3 ? x->dim[0] * x->dim[1] : x->dim[0];
  if (x->ndim == 3 && !g->own && x->dim[0] != 1) return false; /* several groups share a room */
  int64_t columns = x->dim[x->ndim - 1];
  g->m = g->depth ? columns : g->rows, g->k = g->depth ? g->rows : columns;
  g->n = w->dim[w->ndim - 1];
  if (!ts_meta_numel(&n->out[0].meta) || !g->k || !g->groups) return false;
  return g->rows <= INT32_MAX && g->groups * (g->depth ? g->m : g->k) <= INT32_MAX;
}

/* w lies as [G, N, K], row-major. */
static bool is_transposed(const Grouped *g, TsLayoutFn *layout, void *arg) {
  TsVal w = g->node->in[1];
  int64_t stride[TS_MAX_RANK], rows = w->meta.dim[1], cols = w->meta.dim[2];
  if (ts_sched_row_major(layout, arg, w) || !layout(arg, w, stride)) return false;
  return stride[1] == 1 && stride[2] == rows && stride[0] == rows * cols;
}

int ts_lower_grouped(const TsSched *s, const TsGroup *group, TsLayoutFn *layout, void *arg,
                     TsSchedKernel *out, TsError *err) {
  static const TsStepsOrder across = {{0, 2, 1}};
  Grouped g = {.s = s, .node = group->node[0]};
  TsSteps *x = &g.steps;
  TsGpuMachine gpu;
  if (!takes(g.node) || !find_sizes(&g)) return 0;
  g.transposed = !g.depth && is_transposed(&g, layout, arg);
  TsDtype factor;
  const char *unit = ts_sched_square_unit(s, g.in, &factor);
  if (!unit && !ts_target_has(s->target, TS_UNIT_mma)) return 0;
  g.nsm = ts_lower_roles(s, (double)(g.rows * g.n * (g.depth ? g.m : g.k)));
  bool warps = !unit && wants_warps(&g);
  double work = (double)((g.depth ? g.m * g.groups : g.rows) * g.n * g.k);
  if (warps && (step_of(&g) < 4 || !ts_lower_warps(s, work, &gpu))) return 0;
  ts_steps_begin(x, s, layout, arg, g.node, err);
  ts_steps_guard(x, 2);
  g.of_x = ts_steps_in(x, 0, NULL);
  g.of_w = ts_steps_in(x, 1, g.transposed ? &across : NULL);
  g.of_sizes = ts_steps_in(x, 2, NULL);
  if (unit)
    by_squares(&g, unit, factor);
  else if (warps)
    by_warps(&g, &gpu);
  else
    by_roles(&g);
  return ts_steps_end(x, out);
}
