/* The explicit form of a product that is bound by reading B, for a GPU with a copy engine:
 * ir/tile/gpu/warp_product.h, `bulk`.
 *
 * Of few rows a tile's time is its chain: each step of the unit waits for the one before. So
 * whoever multiplies does nothing else: role `load`, one thread, has the copy engine bring
 * stages of A and B, and role `mma` waits for a stage, reads operands one step ahead and
 * multiplies. Stages go round across tiles of a block. Behind the last tile one more stage is
 * asked for, outside of the matrices, since the first operands of the next stage are read
 * beside the last step of each.
 *
 * B is what a model has learned, and nothing in front of this launch writes it (whoever launches
 * looks: ir/tile/ahead.h). So the first stages of B are asked for at once, while the launch
 * before still runs, and those of A behind it.
 *
 * Sums are k ascending in steps of the instruction, as in all tiles of the unit: zeros behind
 * the end of k add nothing there. */
#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/warp_product.h"

enum { STEP = 16 /* of k, of one instruction */ };

typedef TsTileVal V;

typedef struct Product {
  TsGpuWarpProduct x;
  TsTileBuild b;
  V a, bm, bias, residual, c;      /* memory */
  V m, n, k, p, tm, tn, total, nk; /* sizes */
  V round, rounds, m0, n0;         /* of this block; of a tile */
  V sa, sb, full, empty;
  TsGpuEpiloguePiece rows_of;
  V param[TS_GPU_EPILOGUE_PARAMS];
} Product;

static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

/* ---- parameters, sizes, memory */
static void params(Product *p) {
  TsTile *k = p->b.k;
  const TsGpuWarpProduct *x = &p->x;
  int64_t m = ts_tile_size(k, "M"), n = ts_tile_size(k, "N"), kk = ts_tile_size(k, "K");
  ts_tile_size(k, "P");
  p->a = ts_gpu_matrix(&p->b, "a", x->in, m, kk, false),
  p->bm = ts_gpu_matrix(&p->b, "b", x->in, n, kk, false);
  if (x->epilogue)
    ts_gpu_epilogue_params(x->epilogue, k, m, n, (V[]){p->a, p->bm}, p->param);
  else
    ts_gpu_named_params(&p->b, x->out, m, n, x->bias ? &p->bias : NULL,
                        x->residual ? &p->residual : NULL, &p->c);
}

static void sizes(Product *p) {
  static const char *const names[4] = {"m", "n", "k", "p"};
  V *const to[4] = {&p->m, &p->n, &p->k, &p->p};
  for (int i = 0; i < 4; i++) *to[i] = ts_gpu_size(&p->b, i, names[i]);
  p->tm = ts_gpu_named(ts_gpu_div_up(&p->b, p->m, p->x.rows), "tm");
  p->tn = ts_gpu_named(ts_gpu_div_up(&p->b, p->n, p->x.cols), "tn");
  p->total = ts_gpu_named(op2(p, TS_OP_mul, p->tm, p->tn), "total");
  V nk = by(p, TS_OP_maximum, ts_gpu_div_up(&p->b, p->k, p->x.depth), 1);
  p->nk = ts_gpu_named(nk, "nk");
}

static void block_memory(Product *p) {
  const TsGpuWarpProduct *x = &p->x;
  int64_t a[3] = {x->stages, x->rows, x->depth}, b[3] = {x->stages, x->cols, x->depth};
  p->sa = ts_gpu_shared(&p->b, "sa", x->in, 3, a, TS_GPU_PATTERN);
  p->sb = ts_gpu_shared(&p->b, "sb", x->in, 3, b, TS_GPU_PATTERN);
  p->full = ts_gpu_barriers(&p->b, "full", x->stages, 1);
  p->empty = ts_gpu_barriers(&p->b, "empty", x->stages, 1);
}

/* Of the block's tile number nth: down all rows, then the next column. */
static void corner(Product *p, V nth) {
  V t = op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, nth, p->p));
  V col = op2(p, TS_OP_floordiv, t, p->tm);
  V row = op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, col, p->tm));
  p->m0 = ts_gpu_named(by(p, TS_OP_mul, row, p->x.rows), "m0");
  p->n0 = ts_gpu_named(by(p, TS_OP_mul, col, p->x.cols), "n0");
}

/* ---- role load */
static void fetch(Product *p, V to, V from, V s, V row, V k, int64_t wide, bool once) {
  int64_t shape[2] = {wide, p->x.depth};
  V zero = number(p, 0);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk, TS_GPU_IN(to, from, p->full, s, s, zero, zero, row, k),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)},
                        {"stream", (TsAttr){.type = TS_ATTR_bool, .i = once}}),
             NULL);
}

static void expect(Product *p, V s, int64_t lines) {
  int64_t bytes = lines * p->x.depth * ts_dtypes[p->x.in].nbytes;
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->full, s),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
}

static void fetch_a(Product *p, V s, V k) {
  fetch(p, p->sa, p->a, s, p->m0, k, p->x.rows, false);
}

static void fetch_b(Product *p, V s, V k) {
  fetch(p, p->sb, p->bm, s, p->n0, k, p->x.cols, p->x.rows <= 64);
}

static void fetch_stage(Product *p, V s, V parity, V k) {
  ts_gpu_await(&p->b, p->empty, s, parity);
  expect(p, s, p->x.rows + p->x.cols);
  ts_gpu_arrive(&p->b, p->full, s);
  fetch_a(p, s, k);
  fetch_b(p, s, k);
}

/* As many stages of the first tile as there is room for: B, then, behind the launch before, A.
 * Gives their number; out: slot and parity behind them. */
static V fetch_ahead(Product *p, V *out) {
  TsTileBuild *b = &p->b;
  V any = by(p, TS_OP_minimum, p->rounds, 1), zero = number(p, 0);
  V n = by(p, TS_OP_minimum, op2(p, TS_OP_mul, any, p->nk), p->x.stages);
  corner(p, zero);
  TsTileLoop k = ts_tile_for(b, zero, n, 1, false, 2, (V[]){zero, number(p, 1)});
  if (!k.stmt) return NULL;
  V s = k.carry[0], parity = k.carry[1];
  ts_gpu_await(b, p->empty, s, parity);
  expect(p, s, p->x.cols);
  fetch_b(p, s, by(p, TS_OP_mul, k.i, p->x.depth));
  ts_gpu_advance(b, &s, &parity, p->x.stages);
  ts_tile_for_end(b, &k, (V[]){s, parity}, out);
  ts_gpu_plain(b, TS_TILE_await_launch);
  k = ts_tile_for(b, zero, n, 1, false, 0, NULL);
  if (!k.stmt) return NULL;
  expect(p, k.i, p->x.rows);
  ts_gpu_arrive(b, p->full, k.i);
  fetch_a(p, k.i, by(p, TS_OP_mul, k.i, p->x.depth));
  ts_tile_for_end(b, &k, NULL, NULL);
  return n;
}

static void load_role(Product *p) {
  TsTileBuild *b = &p->b;
  TsTileRegion *before = ts_gpu_role(b, "load", 1);
  V first[2] = {0}, out[2] = {0}, in[2] = {0};
  V ahead = fetch_ahead(p, first);
  if (!ahead) return;
  TsTileLoop l = ts_tile_for(b, number(p, 0), p->rounds, 1, false, 2, first);
  if (!l.stmt) return;
  corner(p, l.i);
  V done = op2(p, TS_OP_sub, ahead, op2(p, TS_OP_mul, ahead, l.i)); /* none of later tiles */
  TsTileLoop k = ts_tile_for(b, by(p, TS_OP_maximum, done, 0), p->nk, 1, false, 2, l.carry);
  if (!k.stmt) return;
  V s = k.carry[0], parity = k.carry[1];
  fetch_stage(p, s, parity, by(p, TS_OP_mul, k.i, p->x.depth));
  ts_gpu_advance(b, &s, &parity, p->x.stages);
  ts_tile_for_end(b, &k, (V[]){s, parity}, in);
  ts_tile_for_end(b, &l, in, out);
  p->m0 = p->m, p->n0 = p->n;
  if (out[0]) fetch_stage(p, out[0], out[1], p->k);
  b->at = before;
}

/* ---- role mma */
static V fragment(Product *p, V memory, V slot, int64_t k, bool transposed) {
  static const int64_t axes[2] = {2, 1};
  int64_t wide = transposed ? p->x.cols : p->x.rows;
  V at[3] = {slot, number(p, 0), number(p, k)};
  TsTileType t =
      transposed ? ts_gpu_fragment(p->x.in, STEP, wide) : ts_gpu_fragment(p->x.in, wide, STEP);
  TsTileAccess how = {.naxis = transposed ? 2 : 0, .axes = axes};
  return ts_tile_load(&p->b, memory, at, &t, transposed ? &how : NULL);
}

/* Where this role is: the slot, its parity, operands of the stage's first step. */
enum { S_slot, S_parity, S_a, S_b, S_count };

static void read(Product *p, V slot, int64_t k, V *v) {
  v[S_a] = fragment(p, p->sa, slot, k, false), v[S_b] = fragment(p, p->sb, slot, k, true);
}

static V multiply(Product *p, V a, V b, V acc) {
  if (!a || !b || !acc) return NULL;
  return ts_gpu_give(&p->b, TS_TILE_mma, TS_GPU_IN(a, b, acc),
                     TS_GPU_SET({"unit", ts_gpu_word("mma")}), &acc->type);
}

/* A stage in steps; operands of the next one come beside a product. The stage is left behind its
 * last product: what says so (arrive) does not wait for reads whose values nobody has used yet,
 * and where two blocks share a processor such a read was seen to come behind the copy that
 * refills the stage. */
static V stage(Product *p, V *v, V acc) {
  int n = p->x.depth / STEP;
  V slot = v[S_slot], next = slot, parity = v[S_parity];
  ts_gpu_advance(&p->b, &next, &parity, p->x.stages);
  for (int i = 0; i + 1 < n; i++) {
    V a = v[S_a], b = v[S_b];
    read(p, slot, (int64_t)(i + 1) * STEP, v);
    acc = multiply(p, a, b, acc);
  }
  ts_gpu_await(&p->b, p->full, next, parity);
  acc = multiply(p, v[S_a], v[S_b], acc);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->empty, slot),
             TS_GPU_SET({"apart", (TsAttr){.type = TS_ATTR_bool, .i = 1}}), NULL);
  read(p, next, 0, v);
  v[S_slot] = next, v[S_parity] = parity;
  return acc;
}

static V sums(Product *p, V *v) {
  TsTileType t = ts_gpu_fragment(TS_DT_f32, p->x.rows, p->x.cols);
  V next[1 + S_count] = {ts_tile_const(&p->b, 0, &t)}, out[1 + S_count] = {NULL};
  memcpy(next + 1, v, sizeof *v * S_count);
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 1 + S_count, next);
  if (!l.stmt) return NULL;
  memcpy(next, l.carry, sizeof next);
  next[0] = stage(p, next + 1, next[0]);
  ts_tile_for_end(&p->b, &l, next, out);
  memcpy(v, out + 1, sizeof *v * S_count);
  return out[0];
}

/* ---- what follows */
static V named_rows(Product *p, V x, V n) {
  TsTileBuild *b = &p->b;
  TsTileType t = x->type, line = ts_tile_vector(p->x.out, t.dim[1]), of = t;
  TsTileAccess edge = {.edge = true};
  line.space = TS_SPACE_fragment, of.dtype = (uint8_t)p->x.out;
  if (p->bias) {
    V v = ts_tile_cast(b, ts_tile_load(b, p->bias, &n, &line, &edge), TS_DT_f32);
    x = op2(p, TS_OP_add, x, v ? ts_tile_broadcast(b, v, &t, (int64_t[]){1}) : NULL);
  }
  if (p->x.activation) x = ts_tile_op1(b, p->x.activation, x);
  if (p->residual) {
    V r = ts_tile_load(b, p->residual, (V[]){p->m0, n}, &of, &edge);
    x = op2(p, TS_OP_add, x, ts_tile_cast(b, r, TS_DT_f32));
  }
  return ts_tile_cast(b, x, p->x.out);
}

static void store(Product *p, V to, V n, V y) {
  TsTileAccess edge = {.edge = true};
  if (y) ts_tile_store(&p->b, to, (V[]){p->m0, n}, y, &edge);
}

static void epilogue(Product *p, V acc) {
  const TsGpuEpilogue *f = p->x.epilogue;
  int64_t piece = p->rows_of.width;
  for (int64_t at = 0; acc && at < p->x.cols; at += piece) {
    V n = at ? by(p, TS_OP_add, p->n0, at) : p->n0;
    V x = piece < p->x.cols ? ts_gpu_span(&p->b, acc, at, piece) : acc;
    if (!f) {
      store(p, p->c, n, named_rows(p, x, n));
      continue;
    }
    ts_gpu_epilogue_begin(&p->rows_of, p->m0, n, NULL);
    p->rows_of.made[f->mma->out[0]->id] = x;
    for (int i = 0; i < f->nout; i++)
      store(p, p->param[f->to[i]->index], n, ts_gpu_epilogue(&p->rows_of, f->out[i]));
  }
}

static void mma_role(Product *p) {
  TsTileBuild *b = &p->b;
  TsTileRegion *before = ts_gpu_role(b, "mma", p->x.warps);
  V zero = number(p, 0), v[S_count] = {zero, zero};
  ts_gpu_plain(b, TS_TILE_await_launch);
  ts_gpu_await(b, p->full, zero, zero);
  read(p, zero, 0, v);
  TsTileLoop l = ts_tile_for(b, zero, p->rounds, 1, false, S_count, v);
  if (!l.stmt) return;
  corner(p, l.i);
  memcpy(v, l.carry, sizeof v);
  epilogue(p, sums(p, v));
  ts_tile_for_end(b, &l, v, NULL);
  b->at = before;
}

/* ---- the kernel */
static int legal(const TsGpuWarpProduct *x, TsError *err) {
  bool half = x->in == TS_DT_bf16 || x->in == TS_DT_f16;
  bool out = x->out == x->in || x->out == TS_DT_f32;
  if (half && out && x->unit == TS_GPU_UNIT_mma && !x->transposed_a && x->transposed_b &&
      x->rows % 16 == 0 && x->rows <= 64 && x->warps <= 8 && x->cols % (16 * x->warps) == 0 &&
      x->depth * ts_dtypes[x->in].nbytes == TS_GPU_PATTERN && x->stages > 1 && !x->ragged &&
      x->bytes == 16)
    return 0;
  return ts_error_set(err, TS_ERR_argument,
                      "no product of %s in tiles of %dx%d by the copy engine",
                      ts_dtype_name(x->in), x->rows, x->cols);
}

static void body(Product *p) {
  TsTileBuild *b = &p->b;
  sizes(p);
  TsTileLoop grid = ts_tile_for(b, number(p, 0), p->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  p->round = grid.i;
  V left = op2(p, TS_OP_sub, p->total, grid.i), up = by(p, TS_OP_sub, p->p, 1);
  p->rounds = ts_gpu_named(op2(p, TS_OP_floordiv, op2(p, TS_OP_add, left, up), p->p), "rounds");
  block_memory(p);
  load_role(p);
  mma_role(p);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_reading_product(const TsGpuWarpProduct *x, const TsTarget *target,
                                    TsError *err) {
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("matmul");
  if (!k) return ts_error_memory(err), NULL;
  Product p = {.x = *x, .b = ts_tile_build(k)};
  int64_t piece = 16 * x->warps;
  V *made = x->epilogue ? calloc(x->epilogue->block->nvalue + 1, sizeof *made) : NULL;
  p.rows_of = (TsGpuEpiloguePiece){.f = x->epilogue,
                                   .b = &p.b,
                                   .param = p.param,
                                   .rows = x->rows,
                                   .width = piece,
                                   .made = made};
  k->form = TS_FORM_explicit;
  k->target = target->name;
  k->ntile = 3;
  k->tile[0] = x->rows, k->tile[1] = x->cols, k->tile[2] = x->depth;
  k->stages = x->stages;
  k->threads = 32 * (x->warps + 1);
  params(&p);
  if (x->epilogue && !made) k->failed = true;
  if (!k->failed) body(&p);
  free(made);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
