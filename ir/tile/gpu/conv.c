/* See ir/tile/gpu/conv.h. Roles, stages and barriers are those of a product
 * (ir/tile/gpu/product.c has the essay): one thread keeps the copy engine busy, two groups of
 * warps multiply. What differs is where a stage's rows of A begin: a stage is 64 channels of
 * one tap, and the tap moves the tile's rows. So no matrix of windows is ever written: of nine
 * taps eight find their rows in the second cache.
 *
 * Rejected: windows as boxes of more axes (edges of images would need no padding, but tiles
 * then end with each row of an image: 56 of 64 rows in use, 14 of 16, 7 of 8), and tensor maps
 * that know windows (their padding is one for all, and strides of two halve the speed of the
 * engine). */
#include "ir/tile/gpu/conv.h"

#include "ir/tile/gpu/build.h"

enum {
  ROWS = TS_GPU_CONV_TILE,
  DEPTH = TS_GPU_CONV_DEPTH,
  GROUPS = ROWS / TS_GPU_GROUP_ROWS,
  LOAD_WARPS = 4,
  LOAD_REGISTERS = 40,
  MMA_REGISTERS = 232,
  MOST_COLS = 256,
  MOST_STAGES = 8,
  BUFFERS = TS_GPU_CONV_BUFFERS,
};

typedef TsTileVal V;

typedef struct Conv {
  TsGpuConv x;
  TsTileBuild b;
  V a, w, bias, c; /* memory */
  V tn, total, p, round, rounds;
  V sa, sb, sc, full, empty;
  V nth, m0, n0;
  int64_t width, nk; /* columns of a piece; stages of a tile */
} Conv;

static V number(Conv *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Conv *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Conv *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

/* ---- taps */
void ts_gpu_conv_tap(TsTileBuild *b, const TsGpuConv *x, V tap, V *row, V *col) {
  V rest = tap;
  int64_t phases = x->channels;
  *row = *col = NULL;
  for (int a = 3; a-- > 0; phases *= x->stride[a]) {
    int64_t n = x->window[a];
    if (n == 1) continue;
    V i = ts_gpu_by(b, TS_OP_mod, rest, n);
    rest = ts_gpu_by(b, TS_OP_floordiv, rest, n);
    if (x->backwards) i = ts_tile_op2(b, TS_OP_sub, ts_tile_index(b, n - 1), i);
    i = ts_gpu_by(b, TS_OP_mul, i, x->dilation[a]);
    V move =
        ts_gpu_by(b, TS_OP_mul, ts_gpu_by(b, TS_OP_floordiv, i, x->stride[a]), x->pitch[a]);
    V in = ts_gpu_by(b, TS_OP_mul, ts_gpu_by(b, TS_OP_mod, i, x->stride[a]), phases);
    *row = *row ? ts_tile_op2(b, TS_OP_add, *row, move) : move;
    *col = *col ? ts_tile_op2(b, TS_OP_add, *col, in) : in;
  }
}

/* ---- parameters and memory */
static void params(Conv *p) {
  TsTile *k = p->b.k;
  const TsGpuConv *x = &p->x;
  int64_t m = ts_tile_size(k, "M"), taps = x->window[0] * x->window[1] * x->window[2];
  ts_tile_size(k, "P");
  TsTileType a = ts_tile_type(x->in, 2, (int64_t[]){m, x->l});
  TsTileType w = ts_tile_type(x->in, 2, (int64_t[]){x->n, taps * x->channels});
  TsTileType bias = ts_tile_vector(TS_DT_f32, x->n);
  TsTileType c = ts_tile_type(x->out, 2, (int64_t[]){m, x->n});
  p->a = ts_tile_param(k, "a", &a, false), p->w = ts_tile_param(k, "b", &w, false);
  if (x->bias) p->bias = ts_tile_param(k, "bias", &bias, false);
  p->c = ts_tile_param(k, "c", &c, true);
  p->nk = taps * x->channels / DEPTH;
}

static void block_memory(Conv *p) {
  const TsGpuConv *x = &p->x;
  int64_t a[3] = {x->stages, ROWS, DEPTH}, b[3] = {x->stages, x->cols, DEPTH};
  int64_t c[3] = {BUFFERS, ROWS, p->width};
  p->sa = ts_gpu_shared(&p->b, "sa", x->in, 3, a, TS_GPU_PATTERN);
  p->sb = ts_gpu_shared(&p->b, "sb", x->in, 3, b, TS_GPU_PATTERN);
  p->sc = ts_gpu_shared(&p->b, "sc", x->out, 3, c, TS_GPU_PATTERN);
  p->full = ts_gpu_barriers(&p->b, "full", x->stages, 1);
  p->empty = ts_gpu_barriers(&p->b, "empty", x->stages, 1);
}

/* ---- tiles of a block: columns first, so that rows of A are read while they are near */
static TsTileLoop tiles(Conv *p, int n, const V *carry) {
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, n, carry);
  if (!l.stmt) return l;
  V t = op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, l.i, p->p));
  V row = op2(p, TS_OP_floordiv, t, p->tn), col = op2(p, TS_OP_mod, t, p->tn);
  p->nth = l.i;
  p->m0 = by(p, TS_OP_mul, row, ROWS), p->n0 = by(p, TS_OP_mul, col, p->x.cols);
  return l;
}

/* ---- role load */
static void fetch(Conv *p, V to, V from, V row, V col, int64_t rows, V s) {
  int64_t shape[2] = {rows, DEPTH};
  V zero = number(p, 0);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk, TS_GPU_IN(to, from, p->full, s, s, zero, zero, row, col),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
}

static void fetch_stage(Conv *p, V s, V parity, V i) {
  const TsGpuConv *x = &p->x;
  int64_t bytes = (ROWS + x->cols) * DEPTH * ts_dtypes[x->in].nbytes,
          each = x->channels / DEPTH;
  V row, col, tap = each == 1 ? i : by(p, TS_OP_floordiv, i, each);
  V c0 = each == 1 ? number(p, 0) : by(p, TS_OP_mul, by(p, TS_OP_mod, i, each), DEPTH);
  ts_gpu_conv_tap(&p->b, x, tap, &row, &col);
  row = row ? op2(p, TS_OP_add, p->m0, row) : p->m0;
  col = col ? op2(p, TS_OP_add, col, c0) : c0;
  ts_gpu_await(&p->b, p->empty, s, parity);
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->full, s),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_arrive(&p->b, p->full, s);
  fetch(p, p->sa, p->a, row, col, ROWS, s);
  fetch(p, p->sb, p->w, p->n0, by(p, TS_OP_mul, i, DEPTH), x->cols, s);
}

static void load_role(Conv *p) {
  TsTileRegion *before = ts_gpu_role(&p->b, "load", LOAD_WARPS);
  ts_gpu_registers(&p->b, LOAD_REGISTERS);
  TsTileLoop l = tiles(p, 2, (V[]){number(p, 0), number(p, 1)});
  if (!l.stmt) return;
  V out[2] = {0};
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), number(p, p->nk), 1, false, 2, l.carry);
  if (!k.stmt) return;
  V s = k.carry[0], parity = k.carry[1];
  fetch_stage(p, s, parity, k.i);
  ts_gpu_advance(&p->b, &s, &parity, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){s, parity}, out);
  ts_tile_for_end(&p->b, &l, out, NULL);
  p->b.at = before;
}

/* ---- role mma */
V ts_gpu_conv_multiply(TsTileBuild *b, const TsGpuConvStages *r, V nk, V *s, V *parity) {
  V first[4] = {ts_gpu_zeros(b, r->rows, r->cols), *s, *parity, *s}, out[4];
  TsTileLoop k = ts_tile_for(b, ts_tile_index(b, 0), nk, 1, false, 4, first);
  if (!k.stmt) return NULL;
  V at = k.carry[1], phase = k.carry[2];
  ts_gpu_await(b, r->full, at, phase);
  V acc = ts_gpu_mma(b, ts_gpu_operand(b, r->a, at, r->transposed_a),
                     ts_gpu_operand(b, r->b, at, r->transposed_b), k.carry[0]);
  ts_gpu_commit(b, TS_GPU_PRODUCTS);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 1);
  TsTileRegion *body = ts_gpu_when(b, ts_gpu_by(b, TS_OP_gt, k.i, 0));
  ts_gpu_arrive(b, r->empty, k.carry[3]);
  b->at = body;
  ts_gpu_advance(b, &at, &phase, r->stages);
  ts_tile_for_end(b, &k, (V[]){acc, at, phase, k.carry[1]}, out);
  ts_gpu_wait(b, TS_GPU_PRODUCTS, 0);
  ts_gpu_arrive(b, r->empty, out[3]);
  *s = out[1], *parity = out[2];
  return out[0];
}

static V multiply(Conv *p, V *s, V *parity) {
  TsGpuConvStages r = {p->sa, p->sb, p->full,   p->empty,   false,
                       true,  ROWS,  p->x.cols, p->x.stages};
  return ts_gpu_conv_multiply(&p->b, &r, number(p, p->nk), s, parity);
}

static V with_bias(Conv *p, V x, V n) {
  if (!p->bias || !x) return x;
  TsTileType line = ts_gpu_fragment(TS_DT_f32, x->type.dim[1], 0);
  TsTileAccess edge = {.edge = true};
  V v = ts_tile_load(&p->b, p->bias, &n, &line, &edge);
  return op2(p, TS_OP_add, x, ts_gpu_spread(&p->b, v, &x->type, 1));
}

/* A buffer is free when all stores but the last have read theirs. */
void ts_gpu_conv_store(TsTileBuild *b, const TsGpuConvPiece *p, V y) {
  V at[3] = {p->buffer, p->zero, p->zero};
  ts_gpu_wait(b, TS_GPU_STORES, BUFFERS - 1);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_tile_store(b, p->shared, at, y, NULL);
  ts_gpu_async_fence(b);
  ts_gpu_plain(b, TS_TILE_sync);
  ts_gpu_plain(b, TS_TILE_await_launch);
  ts_gpu_say(b, TS_TILE_store_bulk,
             TS_GPU_IN(p->memory, p->shared, p->row, p->col, p->buffer, p->zero, p->zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, p->shape)}), NULL);
  ts_gpu_commit(b, TS_GPU_STORES);
}

/* Buffers take turns; with an odd number of pieces a tile begins with the one that the tile before
 * did not begin with. */
static void store_piece(Conv *p, V x, V n, int64_t piece, int64_t pieces) {
  TsTileBuild *b = &p->b;
  V zero = number(p, 0), buffer = number(p, piece % BUFFERS);
  if (pieces % BUFFERS)
    buffer = by(p, TS_OP_bitwise_and, by(p, TS_OP_add, p->nth, piece), BUFFERS - 1);
  V y = ts_tile_cast(b, with_bias(p, x, n), p->x.out);
  TsGpuConvPiece to = {p->c, p->sc, p->m0, n, buffer, zero, {ROWS, p->width}};
  ts_gpu_conv_store(b, &to, y);
}

static void mma_role(Conv *p) {
  TsTileRegion *before = ts_gpu_role(&p->b, "mma", ROWS / 16);
  ts_gpu_registers(&p->b, MMA_REGISTERS);
  TsTileLoop l = tiles(p, 2, (V[]){number(p, 0), number(p, 0)});
  if (!l.stmt) return;
  V s = l.carry[0], parity = l.carry[1], acc = multiply(p, &s, &parity);
  int64_t pieces = p->x.cols / p->width;
  for (int64_t i = 0; i < pieces; i++) {
    V x = pieces > 1 ? ts_gpu_span(&p->b, acc, i * p->width, p->width) : acc;
    store_piece(p, x, i ? by(p, TS_OP_add, p->n0, i * p->width) : p->n0, i, pieces);
  }
  ts_tile_for_end(&p->b, &l, (V[]){s, parity}, NULL);
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  p->b.at = before;
}

/* ---- the kernel */
static void body(Conv *p) {
  TsTileBuild *b = &p->b;
  int64_t tn = (p->x.n + p->x.cols - 1) / p->x.cols;
  V m = ts_gpu_size(b, 0, "m");
  p->p = ts_gpu_size(b, 1, "p");
  p->tn = number(p, tn);
  p->total = by(p, TS_OP_mul, ts_gpu_div_up(b, m, ROWS), tn);
  TsTileLoop grid = ts_tile_for(b, number(p, 0), p->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  p->round = grid.i;
  p->rounds = ts_gpu_share(b, p->total, grid.i, p->p);
  block_memory(p);
  load_role(p);
  mma_role(p);
  ts_tile_for_end(b, &grid, NULL, NULL);
}

void ts_gpu_conv_choose(TsGpuConv *x, int rows, int64_t wide) {
  int64_t whole = (wide + 63) / 64 * 64, bytes = ts_dtypes[x->in].nbytes;
  if (!x->cols) x->cols = (int)(whole < MOST_COLS ? whole : MOST_COLS);
  int64_t room = TS_GPU_SHARED - BUFFERS * rows * TS_GPU_PATTERN - 1024;
  int64_t stages = room / ((rows + x->cols) * DEPTH * bytes);
  if (!x->stages) x->stages = (int)(stages < MOST_STAGES ? stages : MOST_STAGES);
}

TsTile *ts_tile_gpu_conv(const TsGpuConv *x, TsError *err) {
  Conv p = {.x = *x, .width = TS_GPU_PATTERN / ts_dtypes[x->out].nbytes};
  bool narrow = x->in == TS_DT_bf16 || x->in == TS_DT_f16;
  bool fits = narrow && (x->out == x->in || x->out == TS_DT_f32) && x->n >= 1 &&
              x->channels % DEPTH == 0 && x->l % 8 == 0 && x->n % 8 == 0;
  if (!fits)
    return ts_error_set(err, TS_ERR_argument, "no convolution of %s with %lld channels",
                        ts_dtype_name(x->in), (long long)x->channels),
           NULL;
  TsTile *k = ts_tile_new("conv");
  if (!k) return ts_error_memory(err), NULL;
  ts_gpu_conv_choose(&p.x, ROWS, x->n);
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
