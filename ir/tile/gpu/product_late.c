/* Rows and stores between the products of the next tile.
 *
 * Sums of a tile are ready when nothing is left to multiply, and rows and stores that come then
 * hold the matrix unit up; with few stages a tile that is much of the time. A second tile of
 * sums does not fit into registers, but one that is rounded does. So a tile ends with its
 * rounding; what follows, some columns at a time, comes behind the products of the next tile's
 * first stages, which are under way meanwhile. Behind the last tile it is all that is left.
 * The first one has nothing before it: what it does with zeros is for rows that C has not. */
#include "ir/tile/gpu/product_state.h"

typedef TsTileVal V;
typedef TsGpuProductState Product;

static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

typedef struct Late {
  V m, n;     /* the tile before */
  V piece[4]; /* its sums, rounded */
} Late;

static int late_results(const Product *p) { return p->x.epilogue ? p->x.epilogue->nout : 1; }

static V late_param(Product *p, int i) {
  return p->x.epilogue ? ts_gpu_rows_param(p, i) : p->c;
}

static V late_buffer(Product *p, V piece, int result) {
  int each = late_results(p);
  if (p->x.buffers == 1) return number(p, 0);
  V done = by(p, TS_OP_add, by(p, TS_OP_mul, piece, each), result);
  if (ts_gpu_product_pieces(p) * each % 2) done = op2(p, TS_OP_add, done, p->nth);
  return by(p, TS_OP_bitwise_and, done, 1);
}

/* Of a piece's columns those from `col` on. */
static void late_columns(Product *p, const Late *t, V piece, int64_t col) {
  V x = ts_gpu_rows_part(p, t->piece[0], col, TS_GPU_LATE_COLS), y = x;
  V in = by(p, TS_OP_mul, piece, p->width);
  if (col) in = by(p, TS_OP_add, in, col);
  if (p->x.epilogue) {
    p->rows_of.width = TS_GPU_LATE_COLS;
    V line = op2(p, TS_OP_add, ts_gpu_rows_line(p, 0), in);
    ts_gpu_epilogue_begin(&p->rows_of, t->m, op2(p, TS_OP_add, t->n, in), line);
    p->rows_of.made[p->x.epilogue->narrow->id] = x;
  }
  for (int i = 0; i < late_results(p); i++) {
    if (p->x.epilogue) y = ts_gpu_rows_result(p, i);
    ts_gpu_rows_put(p, y, late_buffer(p, piece, i), col);
  }
}

static void late_part(Product *p, const Late *t, V piece, int step) {
  V now = p->lines;
  p->lines = by(p, TS_OP_add, p->nth, 1);
  if (step == 0) {
    ts_gpu_wait(&p->b, TS_GPU_STORES, p->x.buffers - late_results(p));
    ts_gpu_plain(&p->b, TS_TILE_sync);
  }
  late_columns(p, t, piece, (int64_t)step * TS_GPU_LATE_COLS);
  V n = op2(p, TS_OP_add, t->n, by(p, TS_OP_mul, piece, p->width));
  for (int i = 0; i < late_results(p) && step == TS_GPU_LATE_STEPS - 1; i++)
    ts_gpu_rows_send(p, late_param(p, i), t->m, n, late_buffer(p, piece, i));
  p->lines = now;
}

/* The next piece takes the place of the one that is done. */
static void late_next(const Product *p, V *piece) {
  for (int i = 0; i + 1 < ts_gpu_product_pieces(p); i++) piece[i] = piece[i + 1];
}

/* The first stages of a tile, with the tile before. */
static V late_loop(Product *p, const Late *t, TsGpuStage *at) {
  int n = ts_gpu_product_pieces(p);
  V carry[8] = {ts_gpu_sums_zero(p), at->s, at->parity, at->s}, out[8];
  for (int i = 0; i < n; i++) carry[4 + i] = t->piece[i];
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), number(p, n), 1, false, 4 + n, carry);
  if (!l.stmt) return NULL;
  TsGpuStage in = {l.carry[1], l.carry[2], l.carry[3]};
  Late now = {.m = t->m, .n = t->n};
  for (int i = 0; i < n; i++) now.piece[i] = l.carry[4 + i];
  V acc = l.carry[0];
  for (int i = 0; i < TS_GPU_LATE_STEPS; i++) {
    acc = ts_gpu_sums_stage(p, acc, &in, i ? NULL : by(p, TS_OP_gt, l.i, 0));
    late_part(p, &now, l.i, i);
  }
  late_next(p, now.piece);
  V yield[8] = {acc, in.s, in.parity, in.before};
  for (int i = 0; i < n; i++) yield[4 + i] = now.piece[i];
  ts_tile_for_end(&p->b, &l, yield, out);
  *at = (TsGpuStage){out[1], out[2], out[3]};
  return out[0];
}

static V late_rest(Product *p, V acc, TsGpuStage *at) {
  V first[4] = {acc, at->s, at->parity, at->before}, out[4];
  V lo = number(p, TS_GPU_LATE_STEPS * ts_gpu_product_pieces(p));
  TsTileLoop k = ts_tile_for(&p->b, lo, p->nk, 1, false, 4, first);
  if (!k.stmt) return NULL;
  TsGpuStage in = {k.carry[1], k.carry[2], k.carry[3]};
  acc = ts_gpu_sums_stage(p, k.carry[0], &in, NULL);
  ts_tile_for_end(&p->b, &k, (V[]){acc, in.s, in.parity, in.before}, out);
  *at = (TsGpuStage){out[1], out[2], out[3]};
  return out[0];
}

static V late_rounded(Product *p, V acc, int64_t piece) {
  int64_t at = piece * p->width;
  V x = ts_gpu_rows_part(p, acc, at, p->width), n = by(p, TS_OP_add, p->n0, at);
  if (!p->x.epilogue) return ts_gpu_rows_plain(p, x, n, at);
  p->rows_of.width = p->width;
  ts_gpu_rows_begin(p, x, n, piece);
  return ts_gpu_epilogue(&p->rows_of, p->x.epilogue->narrow);
}

static void late_end(Product *p, const Late *t) {
  int n = ts_gpu_product_pieces(p);
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), number(p, n), 1, false, n, t->piece);
  if (!l.stmt) return;
  Late now = {.m = t->m, .n = t->n};
  for (int i = 0; i < n; i++) now.piece[i] = l.carry[i];
  for (int i = 0; i < TS_GPU_LATE_STEPS; i++) late_part(p, &now, l.i, i);
  late_next(p, now.piece);
  ts_tile_for_end(&p->b, &l, now.piece, NULL);
}

/* Rows that C has not, and nothing. */
static Late late_nothing(Product *p) {
  TsTileType t = ts_tile_type(TS_DT_f32, 2, (int64_t[]){p->rows, p->width});
  Late none = {.m = p->m, .n = number(p, 0)};
  t.space = TS_SPACE_fragment;
  V zero = ts_tile_cast(&p->b, ts_tile_const(&p->b, 0, &t), p->x.out);
  for (int i = 0; i < ts_gpu_product_pieces(p); i++) none.piece[i] = zero;
  return none;
}

void ts_gpu_late_role(Product *p) {
  int n = ts_gpu_product_pieces(p);
  Late t = late_nothing(p);
  V carry[8] = {number(p, 0), number(p, 0), t.m, t.n}, out[8];
  for (int i = 0; i < n; i++) carry[4 + i] = t.piece[i];
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, 4 + n, carry);
  if (!l.stmt) return;
  TsGpuStage at = {l.carry[0], l.carry[1], NULL};
  t.m = l.carry[2], t.n = l.carry[3];
  for (int i = 0; i < n; i++) t.piece[i] = l.carry[4 + i];
  p->nth = p->lines = l.i;
  ts_gpu_product_corner(p, op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, l.i, p->p)));
  ts_gpu_rows_fetch(p);
  V acc = late_rest(p, late_loop(p, &t, &at), &at);
  ts_gpu_sums_end(p, &at);
  ts_gpu_rows_wait(p);
  V yield[8] = {at.s, at.parity, p->m0, p->n0};
  for (int i = 0; i < n && acc; i++) yield[4 + i] = late_rounded(p, acc, i);
  ts_tile_for_end(&p->b, &l, yield, out);
  t = (Late){.m = out[2], .n = out[3]};
  for (int i = 0; i < n; i++) t.piece[i] = out[4 + i];
  p->nth = p->rounds;
  late_end(p, &t);
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
}
