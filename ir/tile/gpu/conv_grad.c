/* The gradient of a convolution's weights for the matrix unit: see ir/tile/gpu/conv.h. A round
 * is one leaf, one tap, one tile of the weights, a product along rows of both operands; taps of
 * a leaf follow one another, so that its rows are in the second cache for all but the first.
 * Leaves are of one length, whatever the tile or the batch around them, and begin at the first
 * image, so the order of additions follows from the sizes alone.
 *
 * Rejected: one chain over all positions (a tile of 64 x 64 weights would be all that a device
 * has to do), and additions in memory (their order would be that of blocks). */
#include "ir/tile/gpu/build.h"
#include "ir/tile/gpu/conv.h"

enum {
  ROWS = TS_GPU_CONV_ROWS,
  DEPTH = TS_GPU_CONV_DEPTH, /* positions of a stage */
  LEAF = TS_GPU_CONV_LEAF,
  LOAD_WARPS = 4,
  BUFFERS = TS_GPU_CONV_BUFFERS,
  WIDTH = TS_GPU_PATTERN / 4, /* columns of a piece of sums */
};

typedef TsTileVal V;

typedef struct Grad {
  TsGpuConv x;
  TsTileBuild b;
  V g, a, d;
  V m, p, round, rounds;
  V sg, sa, sd, full, empty;
  V nth, tap, first, n0, c0, to, nk; /* of this tile; to: its first row of d */
  int64_t taps, tn, tc;
} Grad;

static V number(Grad *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Grad *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Grad *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

static void params(Grad *p) {
  TsTile *k = p->b.k;
  const TsGpuConv *x = &p->x;
  int64_t m = ts_tile_size(k, "M"), rows = ts_tile_size(k, "D");
  ts_tile_size(k, "P");
  TsTileType g = ts_tile_type(x->in, 2, (int64_t[]){m, x->n});
  TsTileType a = ts_tile_type(x->in, 2, (int64_t[]){m, x->l});
  TsTileType d = ts_tile_type(TS_DT_f32, 2, (int64_t[]){rows, x->channels});
  p->g = ts_tile_param(k, "g", &g, false), p->a = ts_tile_param(k, "a", &a, false);
  p->d = ts_tile_param(k, "d", &d, true);
}

static void block_memory(Grad *p) {
  const TsGpuConv *x = &p->x;
  int64_t g[3] = {x->stages, DEPTH, ROWS}, a[3] = {x->stages, DEPTH, x->cols};
  int64_t d[3] = {BUFFERS, ROWS, WIDTH};
  p->sg = ts_gpu_shared(&p->b, "sg", x->in, 3, g, TS_GPU_PATTERN);
  p->sa = ts_gpu_shared(&p->b, "sa", x->in, 3, a, TS_GPU_PATTERN);
  p->sd = ts_gpu_shared(&p->b, "sd", TS_DT_f32, 3, d, TS_GPU_PATTERN);
  p->full = ts_gpu_barriers(&p->b, "full", x->stages, 1);
  p->empty = ts_gpu_barriers(&p->b, "empty", x->stages, 1);
}

static V digit(Grad *p, V *rest, int64_t n) {
  V low = n > 1 ? by(p, TS_OP_mod, *rest, n) : number(p, 0);
  if (n > 1) *rest = by(p, TS_OP_floordiv, *rest, n);
  return low;
}

/* Tiles of a block: leaf, then columns and rows of the weights, then tap. */
static TsTileLoop tiles(Grad *p, const V *carry) {
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, 2, carry);
  if (!l.stmt) return l;
  V rest = op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, l.i, p->p));
  p->nth = l.i;
  p->tap = digit(p, &rest, p->taps);
  p->n0 = by(p, TS_OP_mul, digit(p, &rest, p->tn), ROWS);
  p->c0 = by(p, TS_OP_mul, digit(p, &rest, p->tc), p->x.cols);
  p->first = by(p, TS_OP_mul, rest, LEAF);
  V line = op2(p, TS_OP_add, by(p, TS_OP_mul, rest, p->taps), p->tap);
  p->to = op2(p, TS_OP_add, by(p, TS_OP_mul, line, p->tn * ROWS), p->n0);
  V left = by(p, TS_OP_minimum, op2(p, TS_OP_sub, p->m, p->first), LEAF);
  p->nk = ts_gpu_div_up(&p->b, left, DEPTH);
  return l;
}

/* ---- role load */
static void fetch(Grad *p, V to, V from, V row, V col, int64_t cols, V s) {
  int64_t shape[2] = {DEPTH, cols};
  V zero = number(p, 0);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk, TS_GPU_IN(to, from, p->full, s, s, zero, zero, row, col),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
}

static void load_role(Grad *p) {
  const TsGpuConv *x = &p->x;
  int64_t bytes = (ROWS + x->cols) * DEPTH * ts_dtypes[x->in].nbytes;
  TsTileRegion *before = ts_gpu_role(&p->b, "load", LOAD_WARPS);
  TsTileLoop l = tiles(p, (V[]){number(p, 0), number(p, 1)});
  V row, col, out[2] = {0};
  if (!l.stmt) return;
  ts_gpu_conv_tap(&p->b, x, p->tap, &row, &col);
  V from = row ? op2(p, TS_OP_add, p->first, row) : p->first;
  V c = col ? op2(p, TS_OP_add, p->c0, col) : p->c0;
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 2, l.carry);
  if (!k.stmt) return;
  V s = k.carry[0], parity = k.carry[1], step = by(p, TS_OP_mul, k.i, DEPTH);
  ts_gpu_await(&p->b, p->empty, s, parity);
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->full, s),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_arrive(&p->b, p->full, s);
  fetch(p, p->sg, p->g, op2(p, TS_OP_add, p->first, step), p->n0, ROWS, s);
  fetch(p, p->sa, p->a, op2(p, TS_OP_add, from, step), c, x->cols, s);
  ts_gpu_advance(&p->b, &s, &parity, x->stages);
  ts_tile_for_end(&p->b, &k, (V[]){s, parity}, out);
  ts_tile_for_end(&p->b, &l, out, NULL);
  p->b.at = before;
}

/* ---- role mma: along rows of both */
static V multiply(Grad *p, V *s, V *parity) {
  TsGpuConvStages r = {p->sg, p->sa, p->full,   p->empty,   true,
                       false, ROWS,  p->x.cols, p->x.stages};
  return ts_gpu_conv_multiply(&p->b, &r, p->nk, s, parity);
}

static void store_piece(Grad *p, V x, int64_t piece) {
  V zero = number(p, 0), buffer = number(p, piece % BUFFERS);
  V col = piece ? by(p, TS_OP_add, p->c0, piece * WIDTH) : p->c0;
  TsGpuConvPiece to = {p->d, p->sd, p->to, col, buffer, zero, {ROWS, WIDTH}};
  ts_gpu_conv_store(&p->b, &to, x);
}

/* Columns are multiples of 64, so pieces of a tile are even in number. */
static void mma_role(Grad *p) {
  TsTileRegion *before = ts_gpu_role(&p->b, "mma", ROWS / 16);
  TsTileLoop l = tiles(p, (V[]){number(p, 0), number(p, 0)});
  if (!l.stmt) return;
  V s = l.carry[0], parity = l.carry[1], acc = multiply(p, &s, &parity);
  for (int64_t i = 0; acc && i < p->x.cols / WIDTH; i++)
    store_piece(p, ts_gpu_span(&p->b, acc, i * WIDTH, WIDTH), i);
  ts_tile_for_end(&p->b, &l, (V[]){s, parity}, NULL);
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  p->b.at = before;
}

static void body(Grad *p) {
  TsTileBuild *b = &p->b;
  p->m = ts_gpu_size(b, 0, "m"), p->p = ts_gpu_size(b, 2, "p");
  V total = by(p, TS_OP_mul, ts_gpu_div_up(b, p->m, LEAF), p->taps * p->tn * p->tc);
  TsTileLoop grid = ts_tile_for(b, number(p, 0), p->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  p->round = grid.i;
  p->rounds = ts_gpu_share(b, total, grid.i, p->p);
  block_memory(p);
  load_role(p);
  mma_role(p);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_conv_grad(const TsGpuConv *x, TsError *err) {
  Grad p = {.x = *x};
  bool narrow = x->in == TS_DT_bf16 || x->in == TS_DT_f16;
  if (!narrow || x->channels % 8 || x->l % 8 || x->n % 8)
    return ts_error_set(err, TS_ERR_argument, "no gradient of weights of %s with %lld channels",
                        ts_dtype_name(x->in), (long long)x->channels),
           NULL;
  TsTile *k = ts_tile_new("conv_weight_grad");
  if (!k) return ts_error_memory(err), NULL;
  ts_gpu_conv_choose(&p.x, ROWS, x->channels);
  p.taps = x->window[0] * x->window[1] * x->window[2];
  p.tn = (x->n + ROWS - 1) / ROWS, p.tc = (x->channels + p.x.cols - 1) / p.x.cols;
  p.b = ts_tile_build(k);
  params(&p);
  k->form = TS_FORM_explicit;
  k->target = ts_target_with(TS_UNIT_roles)->name;
  k->ntile = 3, k->tile[0] = ROWS, k->tile[1] = p.x.cols, k->tile[2] = DEPTH;
  k->stages = p.x.stages, k->threads = 32 * (ROWS / 16 + LOAD_WARPS);
  if (!k->failed) body(&p);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
