/* Stages of a product multiplied: by the matrix unit, by fused multiply-adds, and the rest of
 * k. See ir/tile/gpu/product.c. */
#include "ir/tile/gpu/chain_tile.h"
#include "ir/tile/gpu/product_state.h"

typedef TsTileVal V;
typedef TsGpuProductState Product;

static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

int ts_gpu_sums_warps(const Product *p) {
  const TsGpuProduct *x = &p->x;
  return p->unit ? x->rows / 16 : ts_gpu_chain_warps(x->in, x->rows, x->cols);
}

V ts_gpu_sums_fragment(Product *p, TsDtype d, int64_t m, int64_t n, V memory, const V *at,
                       const int64_t *axes) {
  TsTileType t = ts_tile_type(d, n ? 2 : 1, (int64_t[]){m, n});
  t.space = TS_SPACE_fragment;
  TsTileAccess access = {.naxis = axes ? t.rank : 0, .axes = axes};
  return ts_tile_load(&p->b, memory, at, &t, axes ? &access : NULL);
}

V ts_gpu_sums_zero(Product *p) {
  TsDtype d = p->x.in == TS_DT_i8 ? TS_DT_i32 : p->unit ? TS_DT_f32 : p->x.in;
  TsTileType t = ts_tile_type(d, 2, (int64_t[]){p->rows, p->x.cols});
  t.space = TS_SPACE_fragment;
  return ts_tile_const(&p->b, 0, &t);
}

static V product(Product *p, V s, V acc) {
  const TsGpuProduct *x = &p->x;
  static const int64_t transposed[2] = {2, 1};
  V at[3] = {s, number(p, 0), number(p, 0)};
  V a = ts_gpu_sums_fragment(p, x->in, p->rows, x->depth, p->sa, at,
                             x->transposed_a ? transposed : NULL);
  V b = ts_gpu_sums_fragment(p, x->in, x->depth, x->cols, p->sb, at,
                             x->transposed_b ? transposed : NULL);
  TsTileStmt *y =
      ts_gpu_say(&p->b, TS_TILE_mma, TS_GPU_IN(a, b, acc),
                 TS_GPU_SET({"unit", ts_gpu_word(p->unit ? "wgmma" : "fma")}), &acc->type);
  return y ? y->out[0] : NULL;
}

static void leave(Product *p, V s) {
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->empty, s), 0, NULL, NULL);
}

/* The products of a stage. Then the one before is left: if `later`, or always (NULL). */
V ts_gpu_sums_stage(Product *p, V acc, TsGpuStage *at, V later) {
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->full, at->s, at->parity), 0, NULL, NULL);
  acc = product(p, at->s, acc);
  ts_gpu_commit(&p->b, TS_GPU_PRODUCTS);
  ts_gpu_wait(&p->b, TS_GPU_PRODUCTS, 1);
  TsTileRegion *body = later ? ts_gpu_when(&p->b, later) : NULL;
  leave(p, at->before);
  if (body) p->b.at = body;
  at->before = at->s;
  ts_gpu_advance(&p->b, &at->s, &at->parity, p->x.stages);
  return acc;
}

void ts_gpu_sums_end(Product *p, const TsGpuStage *at) {
  ts_gpu_wait(&p->b, TS_GPU_PRODUCTS, 0);
  leave(p, at->before);
}

V ts_gpu_sums_unit(Product *p, V *s, V *parity) {
  V first[4] = {ts_gpu_sums_zero(p), *s, *parity, *s}, out[4];
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 4, first);
  if (!k.stmt) return NULL;
  TsGpuStage at = {k.carry[1], k.carry[2], k.carry[3]};
  V acc = ts_gpu_sums_stage(p, k.carry[0], &at, by(p, TS_OP_gt, k.i, 0));
  ts_tile_for_end(&p->b, &k, (V[]){acc, at.s, at.parity, at.before}, out);
  ts_gpu_sums_end(p, &(TsGpuStage){.before = out[3]});
  *s = out[1], *parity = out[2];
  return out[0];
}

/* One step of the last stage, which k does not fill. */
static V rest_step(Product *p, V s, V i, V acc) {
  const TsGpuProduct *x = &p->x;
  V zero = number(p, 0);
  int64_t wide_a = x->transposed_a ? 2 : 1, wide_b = x->transposed_b ? 1 : 2;
  V a = ts_gpu_sums_fragment(p, x->in, p->rows, 0, p->sa,
                             x->transposed_a ? (V[]){s, i, zero} : (V[]){s, zero, i}, &wide_a);
  V b = ts_gpu_sums_fragment(p, x->in, x->cols, 0, p->sb,
                             x->transposed_b ? (V[]){s, zero, i} : (V[]){s, i, zero}, &wide_b);
  return ts_tile_emit1(&p->b, TS_TILE_outer, 3, (V[]){a, b, acc}, NULL, &acc->type);
}

/* The rest of k: a loop of one round or none around it, so that nothing is decided twice. */
static V rest(Product *p, V acc, V *s, V *parity) {
  int64_t depth = p->x.depth;
  V some = op2(p, TS_OP_sub, p->k, by(p, TS_OP_mul, p->nk, depth));
  V any = by(p, TS_OP_minimum, some, 1), first[3] = {acc, *s, *parity}, out[3], sum;
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), any, 1, false, 3, first);
  if (!k.stmt) return NULL;
  V at = k.carry[1], phase = k.carry[2];
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->full, at, phase), 0, NULL, NULL);
  TsTileLoop step = ts_tile_for(&p->b, number(p, 0), some, 1, false, 1, k.carry);
  if (!step.stmt) return NULL;
  sum = rest_step(p, at, step.i, step.carry[0]);
  ts_tile_for_end(&p->b, &step, &sum, &sum);
  leave(p, at);
  ts_gpu_advance(&p->b, &at, &phase, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){sum, at, phase}, out);
  *s = out[1], *parity = out[2];
  return out[0];
}

V ts_gpu_sums_fma(Product *p, V *s, V *parity) {
  V first[3] = {ts_gpu_sums_zero(p), *s, *parity}, out[3];
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 3, first);
  if (!k.stmt) return NULL;
  V at = k.carry[1], phase = k.carry[2];
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->full, at, phase), 0, NULL, NULL);
  V acc = product(p, at, k.carry[0]);
  leave(p, at);
  ts_gpu_advance(&p->b, &at, &phase, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){acc, at, phase}, out);
  *s = out[1], *parity = out[2];
  return rest(p, out[0], s, parity);
}
