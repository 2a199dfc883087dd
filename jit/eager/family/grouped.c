/* Products of groups of rows with a matrix each, and the gradients of those matrices, on a
 * device. The sizes of groups are numbers that only the device may have, so a first kernel
 * writes down where groups and their tiles are (ir/tile/gpu/ragged.h) and the product reads it:
 * the host knows how many tiles there are at most, and need not wait. Tiles begin with their
 * group; a last one ends with it (store_below), and rows behind all groups are tiles of zeros.
 *
 * The matrix unit takes whole stages, which gradients have along rows. So the last rows of each
 * group are copied to a stage of their own, with zeros behind them.
 *
 * Rejected: rows moved so that groups begin with a tile (x and the result go through memory once
 * more), and one launch a group (the host would have to know the sizes). */
#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/product.h"
#include "ir/lower/index/index.h"
#include "jit/eager/family/own.h"

typedef TsTileVal V;

enum { PIECE = 256, AHEAD = 8, WIDE = 1024, ALIGN = 16, STAGE = 64 };

typedef struct Grouped {
  TsOffloader *o;
  TsCall *call;
  int device, nsm;
  bool depth, turned; /* the gradient of the matrices; w lies as [G, N, K] */
  TsDtype in, out;
  int64_t rows, m, n, groups; /* rows in groups; of the result's matrices */
  int64_t k;                  /* what the product is summed over, of depth the rows */
  TsTensor *x, *w, *sizes;    /* row-major */
  TsTensor *places, *tail[2];
} Grouped;

/* ---- where groups are */
typedef struct Places {
  TsDtype sizes;
  int tile; /* rows; 0: one item a group */
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

/* Group i: its rows as far as there are so many, none behind the last group. */
static void walk_one(TsTileBuild *b, const Places *p, V item, V i, V size, V *w) {
  V zero = ts_tile_index(b, 0), left = ts_tile_op2(b, TS_OP_sub, ts_short_dim(b, 2), w[W_row]);
  V is = ts_tile_op2(b, TS_OP_lt, i, ts_short_dim(b, 0));
  V rows = ts_tile_op2(b, TS_OP_maximum, ts_tile_op2(b, TS_OP_minimum, size, left), zero);
  V n = p->tile ? ts_gpu_div_up(b, rows, p->tile) : ts_tile_index(b, 1);
  rows = ts_tile_op3(b, TS_OP_where, is, rows, zero);
  walk(b, p, item, rows, ts_tile_op3(b, TS_OP_where, is, n, zero), i, NULL, w);
}

/* Some sizes at a time, for whose loads nothing waits. */
static void walk_all(TsTileBuild *b, const Places *p, V sizes, V item, V *w) {
  TsTileType one = ts_tile_scalar(p->sizes);
  V groups = ts_short_dim(b, 0), all = ts_short_dim(b, 2), zero = ts_tile_index(b, 0);
  V last = by(b, TS_OP_sub, groups, 1);
  TsTileLoop l = ts_tile_for(b, zero, groups, AHEAD, false, W_STATE, w);
  if (!l.stmt) return;
  V next[W_STATE], at[AHEAD], size[AHEAD];
  for (int i = 0; i < W_STATE; i++) next[i] = l.carry[i];
  for (int i = 0; i < AHEAD; i++) {
    at[i] = by(b, TS_OP_add, l.i, i);
    V inside = ts_tile_op2(b, TS_OP_minimum, at[i], last);
    size[i] = ts_tile_cast(b, ts_tile_load(b, sizes, &inside, &one, NULL), TS_DT_i64);
  }
  for (int i = 0; i < AHEAD; i++) walk_one(b, p, item, at[i], size[i], next);
  ts_tile_for_end(b, &l, next, w);
  if (!p->tile) return;
  V rest = ts_tile_op2(b, TS_OP_sub, all, w[W_row]);
  walk(b, p, item, rest, ts_gpu_div_up(b, rest, p->tile), groups, all, w);
}

/* Sizes: groups, items, rows. */
static TsTile *build_places(const void *arg) {
  const Places *p = arg;
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
  V item = ts_tile_op2(&b, TS_OP_add, ts_short_iota(&b, &t, 0), ts_short_splat(&b, &t, l.i));
  V none = ts_short_int(&b, &t, 0), w[W_STATE] = {zero, zero, none, none, none, none};
  walk_all(&b, p, sizes, item, w);
  for (int i = 0; i < TS_GPU_PLACES; i++) {
    V what = i < TS_GPU_PLACE_count ? w[W_place + i] : ts_short_splat(&b, &t, w[W_item]);
    ts_tile_store(&b, to, (V[]){ts_tile_index(&b, i), l.i}, what, &edge);
  }
  ts_tile_for_end(&b, &l, NULL, NULL);
  return k;
}

static TsTensor *room(const Grouped *g, TsDtype d, int64_t n) {
  TsMeta m = {.dtype = (uint8_t)d, .ndim = 1, .device = (uint8_t)g->device, .dim = {n}};
  return ts_tensor_new(g->call->ctx, &m);
}

static int make_places(Grouped *g, int tile) {
  Places p = {ts_tensor_dtype(g->sizes), tile};
  TsOwn k = {.build = build_places, .arg = &p, .nin = 1, .nout = 1, .ndim = 3};
  int64_t items = tile ? g->rows / tile + g->groups + 1 : g->groups;
  if (!(g->places = room(g, TS_DT_i64, items * TS_GPU_PLACES))) return -1;
  k.in[0] = g->sizes, k.out[0] = g->places;
  k.dim[0] = g->groups, k.dim[1] = items, k.dim[2] = g->rows;
  ts_own_word(&k, 'P' << 8), ts_own_word(&k, p.sizes), ts_own_word(&k, tile);
  return ts_own_run(g->o, g->call, g->device, &k);
}

/* ---- last stages */
/* Row r of the last stage of a group is its row `whole stages` + r, or zeros. Sizes: rows of x,
 * columns, rows of the stages, numbers of places. */
static TsTile *build_tail(const void *arg) {
  TsDtype d = *(const TsDtype *)arg;
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

static int make_tail(Grouped *g, int i) {
  TsTensor *x = i ? g->w : g->x;
  TsOwn k = {.build = build_tail, .arg = &g->in, .nin = 2, .nout = 1, .ndim = 4};
  int64_t cols = x->meta.dim[1], rows = g->groups * STAGE;
  if (!(g->tail[i] = room(g, g->in, rows * cols))) return -1;
  k.in[0] = x, k.in[1] = g->places, k.out[0] = g->tail[i];
  k.dim[0] = g->rows, k.dim[1] = cols, k.dim[2] = rows;
  k.dim[3] = ts_tensor_numel(g->places);
  ts_own_word(&k, 'L' << 8), ts_own_word(&k, g->in);
  return ts_own_run(g->o, g->call, g->device, &k);
}

/* ---- products */
static TsTile *build_roles(const void *arg) {
  TsError err = {0};
  return ts_tile_gpu_product(arg, &err);
}

typedef struct Warps {
  TsGpuWarpProduct w;
  const TsTarget *target;
} Warps;

static TsTile *build_warps(const void *arg) {
  const Warps *x = arg;
  TsError err = {0};
  return ts_tile_gpu_mma(&x->w, x->target, &err);
}

static int64_t mean_rows(const Grouped *g) { return (g->rows + g->groups - 1) / g->groups; }

static int run_product(Grouped *g, TsOwn *k, int tile) {
  k->in[0] = g->x, k->in[1] = g->w, k->nin = 2, k->nout = 1, k->out[0] = g->call->out[0];
  k->dim[0] = g->m, k->dim[1] = g->n, k->dim[2] = g->k;
  int done = make_places(g, tile);
  k->in[k->nin++] = g->places;
  for (int i = 0; i < 2 && done == 1 && g->depth && k->build == build_roles; i++) {
    if (ts_dtypes[g->in].nbytes > 2) break;
    done = make_tail(g, i);
    k->in[k->nin++] = g->tail[i];
  }
  return done;
}

/* By roles, where the copy engine takes rows and there is the unit that these are for. */
static int by_roles(Grouped *g) {
  int64_t m = g->depth ? g->m : mean_rows(g), k = g->depth ? mean_rows(g) : g->k;
  TsGpuProduct x =
      ts_gpu_product_for(g->in, g->out, g->depth, g->turned, m, g->n, k, g->groups, g->nsm);
  x = ts_gpu_product(g->in, g->out, g->depth, g->turned, x.rows, x.cols);
  x.cluster = 1;
  x.ragged = g->depth ? TS_GPU_RAGGED_depth : TS_GPU_RAGGED_rows;
  TsOwn own = {.build = build_roles, .arg = &x, .ndim = 7};
  int done = run_product(g, &own, g->depth ? 0 : x.rows);
  if (done != 1) return done;
  own.dim[3] = g->groups, own.dim[4] = ts_tensor_numel(g->places), own.dim[6] = g->nsm;
  own.dim[5] = g->groups * STAGE;
  ts_own_word(&own, 'R' << 8), ts_own_word(&own, x.rows | x.cols << 16);
  ts_own_word(&own, g->in | g->out << 8 | g->depth << 16 | g->turned << 17);
  return ts_own_run(g->o, g->call, g->device, &own);
}

/* 16 bits may be summed in the order of a matrix unit. */
static bool is_free(const Grouped *g) {
  return ts_dtypes[g->in].nbytes == 2 && g->call->ctx->profile != TS_PROFILE_strict;
}

static TsGpuWarpUnit unit_of(const Grouped *g) {
  int64_t stage = TS_GPU_PATTERN / ts_dtypes[g->in].nbytes;
  bool fits = !g->depth && g->n % 2 == 0 && (g->turned || g->k % stage == 0);
  return is_free(g) && fits ? TS_GPU_UNIT_mma : TS_GPU_UNIT_fma;
}

/* Bytes that rows are multiples of. */
static int step_of(const Grouped *g) {
  int64_t row[3] = {g->depth ? g->m : g->k, g->turned ? g->k : g->n, g->n};
  int bytes = ALIGN,
      each[3] = {ts_dtypes[g->in].nbytes, ts_dtypes[g->in].nbytes, ts_dtypes[g->out].nbytes};
  for (int i = 0; i < 3; i++)
    while (row[i] * each[i] % bytes) bytes /= 2;
  return bytes;
}

static int by_warps(Grouped *g) {
  TsGpuMachine gpu;
  int64_t m = g->depth ? g->m * g->groups : g->rows;
  int64_t rows = g->depth ? g->m : g->turned ? g->n : g->k;
  if (step_of(g) < 4 ||
      !ts_own_warps(g->device, (double)(m * g->n * g->k), &gpu))
    return 0;
  Warps x = {.target = gpu.target};
  x.w = ts_gpu_warp_product_for(g->in, g->out, unit_of(g), g->depth, g->turned,
                                g->depth ? m : mean_rows(g), g->depth ? g->n : g->n * g->groups,
                                &gpu);
  x.w.bytes = step_of(g), x.w.ragged = g->depth ? TS_GPU_RAGGED_depth : TS_GPU_RAGGED_rows;
  TsOwn own = {.build = build_warps, .arg = &x, .ndim = 6};
  int done = run_product(g, &own, g->depth ? 0 : x.w.rows);
  if (done != 1) return done;
  own.dim[5] = ts_gpu_warp_product_blocks(&x.w, &gpu);
  own.dim[3] = ts_tensor_numel(g->places), own.dim[4] = rows * g->groups;
  ts_own_word(&own, 'W' << 8), ts_own_word(&own, x.w.rows | x.w.cols << 16);
  ts_own_word(&own, x.w.unit | x.w.warps << 8 | x.w.stages << 16 | (int64_t)x.w.group << 24);
  ts_own_word(&own, g->in | g->out << 8 | g->depth << 16 | g->turned << 17 | x.w.bytes << 18);
  return ts_own_run(g->o, g->call, g->device, &own);
}

static bool wants_warps(const Grouped *g) {
  bool exact = ts_dtypes[g->in].nbytes == 2 && !is_free(g);
  return !g->nsm || exact || step_of(g) < ALIGN;
}

/* ---- operands */
static TsTensor *ready(const Grouped *g, TsTensor *x) {
  if (x->contiguous && x->offset % ALIGN == 0) return ts_own_ready(g->call, x);
  return ts_tensor_copy(g->call->ctx, x);
}

/* w as it lies, if that is [G, N, K] row-major; else row-major. */
static TsTensor *matrices(Grouped *g, TsTensor *w) {
  const TsMeta *m = &w->meta;
  TsMeta t = *m;
  int64_t stride[3] = {w->stride[0], w->stride[2], w->stride[1]};
  t.dim[1] = m->dim[2], t.dim[2] = m->dim[1];
  g->turned = stride[2] == 1 && stride[1] == t.dim[2] && stride[0] == t.dim[1] * t.dim[2] &&
              w->offset % ALIGN == 0 && !w->contiguous;
  return g->turned ? ts_tensor_view(w, &t, stride, w->offset) : ready(g, w);
}

static bool takes(const TsCall *call) {
  TsDtype d = ts_tensor_dtype(call->in[0]), y = ts_tensor_dtype(call->out[0]);
  bool half = d == TS_DT_bf16 || d == TS_DT_f16;
  if (d != ts_tensor_dtype(call->in[1]) || !ts_index_takes(&call->in[2]->meta)) return false;
  return half ? y == d || y == TS_DT_f32 : (d == TS_DT_f32 || d == TS_DT_f64) && y == d;
}

static int run(Grouped *g) {
  TsCall *call = g->call;
  g->x = ready(g, call->in[0]);
  g->w = !g->x ? NULL : g->depth ? ready(g, call->in[1]) : matrices(g, call->in[1]);
  if (!g->w || !(g->sizes = ts_own_ready(call, call->in[2]))) return -1;
  int64_t work = g->rows * g->n * (g->depth ? g->m : g->k);
  g->nsm = ts_own_roles(g->device, (double)work);
  return wants_warps(g) ? by_warps(g) : by_roles(g);
}

int ts_offload_grouped(TsOffloader *o, TsCall *call, int device) {
  Grouped g = {.o = o, .call = call, .device = device};
  g.depth = call->op == TS_OP_grouped_matmul_weight_grad;
  if ((!g.depth && call->op != TS_OP_grouped_matmul) || !takes(call)) return 0;
  const TsMeta *x = &call->in[0]->meta, *w = &call->in[1]->meta;
  g.in = ts_tensor_dtype(call->in[0]), g.out = ts_tensor_dtype(call->out[0]);
  g.rows = x->dim[0], g.groups = call->in[2]->meta.dim[0];
  g.m = g.depth ? x->dim[1] : g.rows, g.k = g.depth ? g.rows : x->dim[1];
  g.n = w->dim[w->ndim - 1];
  if (!call->out[0]->contiguous || !ts_tensor_numel(call->out[0]) || !g.k || !g.groups)
    return 0;
  if (g.rows > INT32_MAX || g.groups * (g.depth ? g.m : g.k) > INT32_MAX) return 0;
  int done = ts_offload_in_range(o, call, device, 2, 0, g.rows + 1);
  if (done == 1) done = run(&g);
  TsTensor *made[] = {g.x, g.w, g.sizes, g.places, g.tail[0], g.tail[1]};
  for (size_t i = 0; i < sizeof made / sizeof *made; i++) ts_tensor_unref(made[i]);
  return done;
}
