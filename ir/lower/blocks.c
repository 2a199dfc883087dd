/* Numbers that are stored in blocks, on a device: casts of them, and products with them. The numbers are those that their cast
 * to f32 has, and each element of a product is a chain in increasing k, so bits are the VM's.
 *
 * A product of a few rows reads the matrix once: a thread has a column of the result, whose blocks lie one behind the
 * other, and finds scales once for each span. For more rows the matrix is written as f32 first, and multiplied as any other
 * one: that takes longer than reading it and no longer than such a product.
 *
 * Rejected: codes as operands of a matrix unit (its sums are others than those of the CPU's chains, and a result may not depend on
 * how many rows there are). */
#include "ir/lower/blocks_value.h"
#include "ir/lower/short.h"
#include "ir/lower/steps.h"
#include "ir/tile/gpu/warp_product.h"

typedef TsTileVal V;

enum { PIECE = 1024, COLUMNS = 64, FEW = 8, SPAN = TS_BLOCKS_SPAN };

static bool is_float(TsDtype d) {
  return d == TS_DT_f32 || d == TS_DT_bf16 || d == TS_DT_f16 || d == TS_DT_f64;
}

static V by(TsTileBuild *b, int op, V x, int64_t y) { return ts_short_by(b, op, x, y); }

/* ---- the whole as floats: sizes N elements, B bytes */
static TsTile *build_cast(TsDtype from, TsDtype to) {
  TsTile *k = ts_tile_new("dequantize");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N"), bytes = ts_tile_size(k, "B");
  TsTileType tw = ts_tile_vector(TS_DT_u8, bytes), ty = ts_tile_vector(to, n),
             t = ts_tile_vector(TS_DT_i64, PIECE);
  V w = ts_tile_param(k, "w", &tw, false), y = ts_tile_param(k, "y", &ty, true);
  TsTileBuild build = ts_tile_build(k), *b = &build;
  k->threads = PIECE / 4, k->vector = 4;
  TsTileLoop l = ts_tile_for(b, ts_tile_index(b, 0), ts_short_dim(b, 0), PIECE, true, 0, NULL);
  V e = ts_short_positions(b, &t, l.i);
  V last = ts_short_splat(b, &t, by(b, TS_OP_sub, ts_short_dim(b, 0), 1));
  e = ts_tile_op2(b, TS_OP_minimum, e, last);
  TsBlocksSpan s = ts_blocks_span(b, from, w, by(b, TS_OP_floordiv, e, SPAN));
  V x = ts_blocks_value(b, &s, by(b, TS_OP_mod, e, SPAN));
  TsTileAccess edge = {.edge = true};
  if (x) ts_tile_store(b, y, &l.i, ts_tile_cast(b, x, to), &edge);
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

static void cast(TsSteps *x, TsDtype from, const TsMeta *w, TsDtype to, int of, int y) {
  int64_t dim[2] = {ts_meta_numel(w), ts_meta_nbytes(w)};
  ts_steps_add(x, build_cast(from, to), (int[]){of, y}, dim);
}

int ts_lower_blocks_cast(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout, void *arg,
                         TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *w = &n->in[0]->meta, *y = &n->out[0].meta;
  TsDtype to = (TsDtype)y->dtype;
  if (!ts_blocks_known((TsDtype)w->dtype) || !is_float(to) || !ts_meta_numel(y)) return 0;
  if (w->dtype == TS_DT_mxfp4 && to == TS_DT_f64) return 0; /* numbers that are no f32 */
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  cast(&x, (TsDtype)w->dtype, w, to, ts_steps_in(&x, 0, NULL), ts_steps_out(&x, 0, NULL));
  return ts_steps_end(&x, out);
}

/* ---- a few rows: sizes N columns, K, B bytes */
typedef struct Product {
  TsDtype w, x, y;
  int rows;
  bool bias;
} Product;

/* A span's products, of all rows. */
static void multiply(TsTileBuild *b, const Product *p, V x, const TsBlocksSpan *s, V k0,
                     const TsTileType *t, V *acc) {
  TsTileType one = ts_tile_scalar(p->x), f = ts_tile_vector(TS_DT_f32, COLUMNS);
  for (int i = 0; i < SPAN; i++) {
    V w = ts_blocks_value(b, s, ts_short_int(b, t, i)), k = by(b, TS_OP_add, k0, i);
    for (int r = 0; r < p->rows; r++) {
      V each = ts_tile_load(b, x, (V[]){ts_tile_index(b, r), k}, &one, NULL);
      each = ts_tile_broadcast(b, ts_tile_cast(b, each, TS_DT_f32), &f, NULL);
      acc[r] = ts_tile_op3(b, TS_OP_fma, each, w, acc[r]);
    }
  }
}

static TsTile *build_few(const Product *p) {
  TsTile *k = ts_tile_new("blocks_product");
  if (!k) return NULL;
  int64_t n = ts_tile_size(k, "N"), depth = ts_tile_size(k, "K"), bytes = ts_tile_size(k, "B");
  TsTileType tw = ts_tile_vector(TS_DT_u8, bytes), line = ts_tile_vector(p->y, n);
  TsTileType tx = ts_tile_type(p->x, 2, (int64_t[]){p->rows, depth});
  TsTileType ty = ts_tile_type(p->y, 2, (int64_t[]){p->rows, n});
  TsTileType t = ts_tile_vector(TS_DT_i64, COLUMNS), f = ts_tile_vector(TS_DT_f32, COLUMNS);
  V x = ts_tile_param(k, "x", &tx, false), w = ts_tile_param(k, "w", &tw, false), bias = NULL;
  if (p->bias) bias = ts_tile_param(k, "bias", &line, false);
  V y = ts_tile_param(k, "y", &ty, true), acc[FEW];
  TsTileBuild build = ts_tile_build(k), *b = &build;
  TsTileAccess edge = {.edge = true};
  k->threads = COLUMNS, k->vector = 1;
  V zero = ts_tile_index(b, 0);
  TsTileLoop l = ts_tile_for(b, zero, ts_short_dim(b, 0), COLUMNS, true, 0, NULL);
  V column = ts_short_positions(b, &t, l.i);
  V last = ts_short_splat(b, &t, by(b, TS_OP_sub, ts_short_dim(b, 0), 1));
  column = ts_tile_op2(b, TS_OP_minimum, column, last);
  V spans = by(b, TS_OP_floordiv, ts_short_dim(b, 1), SPAN);
  V first = ts_tile_op2(b, TS_OP_mul, column, ts_short_splat(b, &t, spans));
  for (int r = 0; r < p->rows; r++) acc[r] = ts_tile_const(b, 0, &f);
  TsTileLoop in = ts_tile_for(b, zero, spans, 1, false, p->rows, acc);
  if (in.stmt) {
    V sums[FEW];
    for (int r = 0; r < p->rows; r++) sums[r] = in.carry[r];
    V span = ts_tile_op2(b, TS_OP_add, first, ts_short_splat(b, &t, in.i));
    TsBlocksSpan s = ts_blocks_span(b, p->w, w, span);
    multiply(b, p, x, &s, by(b, TS_OP_mul, in.i, SPAN), &t, sums);
    ts_tile_for_end(b, &in, sums, acc);
  }
  TsTileType own = ts_tile_vector(p->y, COLUMNS);
  V more = bias ? ts_tile_load(b, bias, &l.i, &own, &edge) : NULL;
  for (int r = 0; r < p->rows && !k->failed; r++) {
    V sum = acc[r];
    if (more) sum = ts_tile_op2(b, TS_OP_add, sum, ts_tile_cast(b, more, TS_DT_f32));
    ts_tile_store(b, y, (V[]){ts_tile_index(b, r), l.i}, ts_tile_cast(b, sum, p->y), &edge);
  }
  ts_tile_for_end(b, &l, NULL, NULL);
  return k;
}

/* ---- many rows: the matrix as f32 */
static bool multiply_many(TsSteps *x, const TsSched *s, const TsNode *n, int64_t rows,
                          bool bias) {
  const TsMeta *w = &n->in[1]->meta, *y = &n->out[0].meta;
  int64_t cols = w->dim[0], k = w->dim[1];
  TsGpuMachine gpu;
  if (!ts_lower_warps(s, (double)(rows * cols * k), &gpu)) return false;
  int all = ts_steps_temp(x, cols * k * 4), a = ts_steps_in_as(x, 0, NULL, TS_DT_f32);
  cast(x, (TsDtype)w->dtype, w, TS_DT_f32, ts_steps_in(x, 1, NULL), all);
  TsGpuWarpProduct p = ts_gpu_warp_product_for(TS_DT_f32, TS_DT_f32, TS_GPU_UNIT_fma, false,
                                               true, rows, cols, &gpu);
  while (p.bytes > 4 && (k * 4 % p.bytes || cols * 4 % p.bytes)) p.bytes /= 2;
  p.bias = bias;
  bool same = y->dtype == TS_DT_f32;
  int list[4] = {a, all}, m = 2, sums = same ? ts_steps_out(x, 0, NULL) : 0;
  if (!same) sums = ts_steps_temp(x, rows * cols * 4);
  if (bias) list[m++] = ts_steps_in_as(x, 2, NULL, TS_DT_f32);
  list[m++] = sums;
  int64_t dim[4] = {rows, cols, k, ts_gpu_warp_product_blocks(&p, &gpu)}, count = rows * cols;
  ts_steps_add(x, ts_tile_gpu_warp_product(&p, gpu.target, x->err), list, dim);
  if (same) return true;
  TsStepsView from = {sums, TS_DT_f32, {1}};
  TsStepsView to = {ts_steps_out(x, 0, NULL), (TsDtype)y->dtype, {1}};
  ts_steps_copy(x, 1, &count, &to, &from);
  return true;
}

int ts_lower_blocks_product(const TsSched *sched, const TsGroup *g, TsLayoutFn *layout,
                            void *arg, TsSchedKernel *out, TsError *err) {
  const TsNode *n = g->node[0];
  const TsMeta *xm = &n->in[0]->meta, *w = &n->in[1]->meta, *y = &n->out[0].meta;
  Product p = {.w = (TsDtype)w->dtype, .x = (TsDtype)xm->dtype, .y = (TsDtype)y->dtype};
  p.bias = n->nin > 2 && n->in[2];
  if (!ts_blocks_known(p.w) || !is_float(p.x) || p.x == TS_DT_f64 || p.y != p.x) return 0;
  if (!ts_meta_numel(y) || !w->dim[1] || (p.bias && n->in[2]->meta.dtype != y->dtype)) return 0;
  int64_t rows = ts_meta_numel(xm) / w->dim[1];
  TsSteps x;
  ts_steps_begin(&x, sched, layout, arg, n, err);
  if (rows > FEW) {
    if (!multiply_many(&x, sched, n, rows, p.bias)) x.failed = true;
    return ts_steps_end(&x, out);
  }
  p.rows = (int)rows;
  int list[4] = {ts_steps_in(&x, 0, NULL), ts_steps_in(&x, 1, NULL)}, m = 2;
  if (p.bias) list[m++] = ts_steps_in(&x, 2, NULL);
  list[m++] = ts_steps_out(&x, 0, NULL);
  ts_steps_add(&x, build_few(&p), list, (int64_t[]){w->dim[0], w->dim[1], ts_meta_nbytes(w)});
  return ts_steps_end(&x, out);
}
