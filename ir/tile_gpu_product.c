/* The explicit form of a matrix product for a GPU with a copy engine.
 *
 * A block has two roles. `load` is one thread that keeps the copy engine busy: stage after
 * stage of A and B goes to shared memory, as soon as the other role has left the stage. `mma`
 * multiplies what is there. Two rows of barriers connect them: full counts a stage's bytes,
 * empty says that nobody reads it any more. Both go round the stages in the same order, across
 * tiles: while the sums of a tile are stored, the first stages of the next one already come in.
 * That overlap is why blocks are persistent (P of them, each takes every P-th tile) instead of
 * one a tile.
 *
 * With a cluster, a round of the grid is done by two blocks: the tile here is that of both, its
 * rows are divided among them, and the columns of B, which both need, are fetched once for the
 * two. Sharing the larger operand pays most.
 *
 * Tiles go down `group` tiles of rows before the next column, so that what runs at a time is a
 * square of the result: its rows of A and columns of B stay in the second cache.
 *
 * On the matrix unit products are asynchronous: a stage is given back one round later, when the
 * products that read it are done (wait for all but one group). Behind the end of K the copy
 * engine fills in zeros, which add nothing; of a chain of fused multiply-adds they could turn
 * -0 into +0, so unit "fma" does the last stage step by step. */
#include "ir/tile_gpu_product.h"

#include <stdlib.h>

#include "ir/tile_gpu_build.h"

enum {
  PATTERN = TS_GPU_PATTERN,
  GROUP_ROWS = TS_GPU_GROUP_ROWS,
  WARP_ROWS = 32,
  LOAD_WARPS = 4,
  FOLLOW_WARPS = 2, /* of those of the first group that have nothing to load */
  FOLLOW_COLS = 16, /* that are in registers at a time */
  SHARED = 232448
};

typedef TsTileVal V;

typedef struct Product {
  TsGpuProduct x;
  TsTileBuild b;
  bool unit;                             /* the matrix unit */
  int64_t rows, width;                   /* of the cluster's tile; columns of a stored piece */
  V a, bm, bias, residual, c;            /* memory */
  V m, n, k, p, tm, tn, total, nk, span; /* sizes */
  V round, rounds;                       /* of this block, in tiles */
  V sa, sb, sc, full, empty;
  V turn, m0, n0;         /* of this tile: its number among the block's, its corner */
  V clock, full_rounds;   /* for pace: counters, tiles of a block that all blocks have */
  TsGpuFollowing rows_of; /* what follows, if it is a block form */
  V param[TS_GPU_FOLLOW_PARAMS];
  V line[TS_GPU_FOLLOW_PARAMS]; /* columns of what has one axis, in shared memory, in two turns
                                 */
  int ahead;     /* parameter whose pieces come before they are asked for, or 0 */
  V came;        /* with them */
  V ready, room; /* rounded sums on their way to role follow, piece by piece */
} Product;

/* ---- short forms */
static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }
static V named(V v, const char *name) {
  if (v) v->name = name;
  return v;
}

static V div_up(Product *p, V x, V y) {
  V less = by(p, TS_OP_sub, y, 1);
  return op2(p, TS_OP_floordiv, op2(p, TS_OP_add, x, less), y);
}

static V size(Product *p, int i) {
  TsTileType t = ts_tile_scalar(TS_DT_i64);
  TsTileStmt *s =
      ts_gpu_say(&p->b, TS_TILE_dim, 0, NULL, TS_GPU_SET({"index", ts_gpu_whole(i)}), &t);
  return s ? s->out[0] : NULL;
}

/* ---- the kernel's parameters and memory */
static V matrix(Product *p, const char *name, TsDtype d, int64_t rows, int64_t cols,
                bool written) {
  TsTileType t = ts_tile_type(d, 2, (int64_t[]){rows, cols});
  return ts_tile_param(p->b.k, name, &t, written);
}

/* What a block form reads and writes beside A and B. */
static void params_of_rows(Product *p, int64_t m, int64_t n) {
  const TsTile *from = p->x.follow->block;
  p->param[0] = p->a, p->param[1] = p->bm;
  for (int i = 2; i < from->nparam; i++) {
    const TsTileValue *was = from->param[i];
    int64_t dim[2] = {was->type.rank == 2 ? m : n, n};
    TsTileType t = ts_tile_type((TsDtype)was->type.dtype, was->type.rank, dim);
    p->param[i] = ts_tile_param(p->b.k, was->name, &t, i >= from->nin);
  }
}

static void params(Product *p) {
  TsTile *k = p->b.k;
  const TsGpuProduct *x = &p->x;
  int64_t m = ts_tile_size(k, "M"), n = ts_tile_size(k, "N"), kk = ts_tile_size(k, "K");
  ts_tile_size(k, "P");
  p->a =
      x->turned_a ? matrix(p, "a", x->in, kk, m, false) : matrix(p, "a", x->in, m, kk, false);
  p->bm =
      x->turned_b ? matrix(p, "b", x->in, n, kk, false) : matrix(p, "b", x->in, kk, n, false);
  if (x->follow) {
    params_of_rows(p, m, n);
    return;
  }
  TsTileType line = ts_tile_vector(x->out, n);
  if (x->bias) p->bias = ts_tile_param(k, "bias", &line, false);
  if (x->residual) p->residual = matrix(p, "residual", x->out, m, n, false);
  p->c = matrix(p, "c", x->out, m, n, true);
}

static void sizes(Product *p) {
  const TsGpuProduct *x = &p->x;
  p->m = named(size(p, 0), "m"), p->n = named(size(p, 1), "n");
  p->k = named(size(p, 2), "k"), p->p = named(size(p, 3), "p");
  p->tm = named(div_up(p, p->m, number(p, p->rows)), "tm");
  p->tn = named(div_up(p, p->n, number(p, x->cols)), "tn");
  p->total = named(op2(p, TS_OP_mul, p->tm, p->tn), "total");
  V nk = p->unit ? div_up(p, p->k, number(p, x->depth)) : by(p, TS_OP_floordiv, p->k, x->depth);
  p->nk = named(p->unit ? by(p, TS_OP_maximum, nk, 1) : nk, "nk");
  p->span = named(by(p, TS_OP_mul, p->tn, x->group), "span");
}

static V memory(Product *p, const char *name, TsDtype d, int rank, const int64_t *dim,
                int swizzle, int split) {
  TsTileType t = ts_tile_type(d, rank, dim);
  t.swizzle = (uint16_t)swizzle;
  t.split = (uint8_t)(p->x.cluster > 1 ? split : 0);
  return named(ts_tile_alloc(&p->b, TS_SPACE_shared, &t), name);
}

/* Stages of an operand of `wide` rows or columns. The matrix unit reads patterns of 128 bytes
 * either way; for multiply-adds only rows along k are exchanged, so that threads that read
 * neighbouring rows find them in different banks. */
static V stages(Product *p, const char *name, int64_t wide, bool along_k, int split) {
  const TsGpuProduct *x = &p->x;
  int64_t depth = x->depth,
          dim[3] = {x->stages, along_k ? wide : depth, along_k ? depth : wide};
  int swizzle = p->unit ? PATTERN : along_k ? (int)depth * ts_dtypes[x->in].nbytes : 0;
  return memory(p, name, x->in, 3, dim, swizzle, along_k ? split : split ? 2 : 0);
}

static V line_memory(Product *p, V of) {
  TsTileType t = ts_tile_vector((TsDtype)of->type.dtype, 2 * p->x.cols);
  return named(ts_tile_alloc(&p->b, TS_SPACE_shared, &t), "line");
}

static void block_memory(Product *p) {
  const TsGpuProduct *x = &p->x;
  p->sa = stages(p, "sa", p->rows, !x->turned_a, 1);
  p->sb = stages(p, "sb", x->cols, x->turned_b, 0);
  int pieces = x->cols / (int)p->width;
  int64_t piece[3] = {x->split || p->ahead ? pieces : x->buffers, p->rows, p->width};
  if (p->unit) p->sc = memory(p, "sc", x->out, 3, piece, PATTERN, 1);
  for (int i = 2; x->follow && i < x->follow->block->nin; i++)
    if (p->param[i]->type.rank == 1) p->line[i] = line_memory(p, p->param[i]);
  if (p->bias && p->unit) p->line[0] = line_memory(p, p->bias);
  p->full = ts_gpu_barriers(&p->b, "full", x->stages, 1);
  p->empty = ts_gpu_barriers(&p->b, "empty", x->stages, 1);
  if (x->split) p->ready = ts_gpu_barriers(&p->b, "ready", pieces, 1);
  if (p->ahead) p->came = ts_gpu_barriers(&p->b, "came", pieces, 1);
  if (x->split || p->ahead) p->room = ts_gpu_barriers(&p->b, "room", pieces, 1);
}

/* ---- where a tile and a stage are */
/* Of tile number t: down a group of rows, then the next column. */
static void corner(Product *p, V t) {
  const TsGpuProduct *x = &p->x;
  V g = op2(p, TS_OP_floordiv, t, p->span);
  V in = op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, g, p->span));
  V first = by(p, TS_OP_mul, g, x->group);
  V high = by(p, TS_OP_minimum, op2(p, TS_OP_sub, p->tm, first), x->group);
  V col = op2(p, TS_OP_floordiv, in, high);
  V row = op2(p, TS_OP_sub, in, op2(p, TS_OP_mul, col, high));
  p->m0 = named(by(p, TS_OP_mul, op2(p, TS_OP_add, first, row), p->rows), "m0");
  p->n0 = named(by(p, TS_OP_mul, col, x->cols), "n0");
}

/* Tiles of this block: number round, round + P, .. */
static TsTileLoop tiles(Product *p, V s, V parity) {
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, 2, (V[]){s, parity});
  if (!l.stmt) return l;
  p->turn = l.i;
  corner(p, op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, l.i, p->p)));
  return l;
}

/* With nothing carried. */
static TsTileLoop tiles_without(Product *p) {
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, 0, NULL);
  if (!l.stmt) return l;
  p->turn = l.i;
  corner(p, op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, l.i, p->p)));
  return l;
}

/* ---- role load */
static void fetch(Product *p, V to, V from, bool along_k, V at, V k0, int64_t wide, V s) {
  int64_t d = p->x.depth, shape[2] = {along_k ? wide : d, along_k ? d : wide};
  V zero = number(p, 0);
  V first = along_k ? at : k0, second = along_k ? k0 : at;
  ts_gpu_say(&p->b, TS_TILE_copy_bulk,
             TS_GPU_IN(to, from, p->full, s, s, zero, zero, first, second),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
}

static void fetch_stage(Product *p, V s, V parity, V k0) {
  const TsGpuProduct *x = &p->x;
  int64_t bytes = (p->rows + x->cols) * x->depth * ts_dtypes[x->in].nbytes;
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->empty, s, parity), 0, NULL, NULL);
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->full, s),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->full, s), 0, NULL, NULL);
  fetch(p, p->sa, p->a, !x->turned_a, p->m0, k0, p->rows, s);
  fetch(p, p->sb, p->bm, x->turned_b, p->n0, k0, x->cols, s);
}

/* Of 65536 for a block, in steps of 8; with one group of warps there are enough for all. */
static void registers(Product *p, bool loads) {
  static const int pool[4][2] = {{24, 240}, {0, 0}, {40, 232}, {32, 160}};
  int n = pool[p->unit ? p->x.rows / GROUP_ROWS : 0][loads ? 0 : 1];
  if (n && !p->x.split)
    ts_gpu_say(&p->b, TS_TILE_registers, 0, NULL, TS_GPU_SET({"count", ts_gpu_whole(n)}), NULL);
}

/* All stages of a tile: the whole ones, and for multiply-adds one more with the rest of k. */
static V stages_of_tile(Product *p) {
  return p->unit ? p->nk : div_up(p, p->k, number(p, p->x.depth));
}

/* Fetches stages from lo on. */
static void fetch_stages(Product *p, V lo, V hi, const V *carry, V *out) {
  TsTileLoop k = ts_tile_for(&p->b, lo, hi, 1, false, 2, carry);
  if (!k.stmt) return;
  V s = k.carry[0], parity = k.carry[1];
  fetch_stage(p, s, parity, by(p, TS_OP_mul, k.i, p->x.depth));
  ts_gpu_advance(&p->b, &s, &parity, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){s, parity}, out);
}

/* Blocks that began together drift apart along k. When what they read at a time does not fit
 * into the second cache, each then fetches the same rows and columns from memory again; so they
 * wait for each other every `limit` stages, as long as all have a tile. Since stages are
 * fetched ahead, products do not stop for it. */
static void keep_step(Product *p, V first, V chunks) {
  V left = op2(p, TS_OP_sub, p->full_rounds, p->turn);
  V once = by(p, TS_OP_maximum, by(p, TS_OP_minimum, left, 1), 0);
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), once, 1, false, 0, NULL);
  if (!l.stmt) return;
  V step = op2(p, TS_OP_add, op2(p, TS_OP_mul, p->turn, chunks), first);
  ts_gpu_say(&p->b, TS_TILE_pace, TS_GPU_IN(p->clock, step, p->p), 0, NULL, NULL);
  ts_tile_for_end(&p->b, &l, NULL, NULL);
}

static void fetch_in_step(Product *p, const V *carry, V *out) {
  V all = stages_of_tile(p), limit = number(p, p->x.limit), chunks = div_up(p, all, limit);
  TsTileLoop c = ts_tile_for(&p->b, number(p, 0), chunks, 1, false, 2, carry);
  if (!c.stmt) return;
  keep_step(p, c.i, chunks);
  V lo = op2(p, TS_OP_mul, c.i, limit), inner[2] = {0};
  fetch_stages(p, lo, op2(p, TS_OP_minimum, op2(p, TS_OP_add, lo, limit), all), c.carry, inner);
  ts_tile_for_end(&p->b, &c, inner, out);
}

/* What is added to a tile, to where its own pieces will go, as soon as those of the tile before
 * have left. */
static void fetch_ahead(Product *p) {
  int pieces = p->x.cols / (int)p->width;
  int64_t bytes = p->rows * PATTERN, shape[2] = {p->rows, p->width};
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), number(p, pieces), 1, false, 0, NULL);
  if (!l.stmt) return;
  V zero = number(p, 0), n = op2(p, TS_OP_add, p->n0, by(p, TS_OP_mul, l.i, p->width));
  V parity = by(p, TS_OP_bitwise_and, p->turn, 1);
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->room, l.i, parity), 0, NULL, NULL);
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->came, l.i),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->came, l.i), 0, NULL, NULL);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk,
             TS_GPU_IN(p->sc, p->param[p->ahead], p->came, l.i, l.i, zero, zero, p->m0, n),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
  ts_tile_for_end(&p->b, &l, NULL, NULL);
}

/* The first stages go before: others still work on the tile before. */
static void fetch_around(Product *p, const V *carry, V *out) {
  V all = stages_of_tile(p), some = by(p, TS_OP_minimum, all, p->x.stages), middle[2] = {0};
  fetch_stages(p, number(p, 0), some, carry, middle);
  fetch_ahead(p);
  fetch_stages(p, some, all, middle, out);
}

static void load_role(Product *p) {
  TsTileRegion *before =
      ts_gpu_role(&p->b, "load", LOAD_WARPS - (p->x.split ? FOLLOW_WARPS : 0));
  registers(p, true);
  TsTileLoop l = tiles(p, number(p, 0), number(p, 1));
  V out[2] = {0};
  if (!l.stmt) return;
  if (p->clock)
    fetch_in_step(p, l.carry, out);
  else if (p->ahead)
    fetch_around(p, l.carry, out);
  else
    fetch_stages(p, number(p, 0), stages_of_tile(p), l.carry, out);
  ts_tile_for_end(&p->b, &l, out, NULL);
  if (p->clock)
    ts_gpu_say(&p->b, TS_TILE_pace, TS_GPU_IN(p->clock, number(p, 0), p->p),
               TS_GPU_SET({"end", (TsAttr){.type = TS_ATTR_bool, .i = 1}}), NULL);
  p->b.at = before;
}

/* ---- role mma: products */
static V fragment(Product *p, TsDtype d, int64_t m, int64_t n, V memory, const V *at,
                  const int64_t *axes) {
  TsTileType t = ts_tile_type(d, n ? 2 : 1, (int64_t[]){m, n});
  t.space = TS_SPACE_fragment;
  TsTileAccess access = {.naxis = axes ? t.rank : 0, .axes = axes};
  return ts_tile_load(&p->b, memory, at, &t, axes ? &access : NULL);
}

static V zeros(Product *p) {
  TsDtype d = p->unit ? TS_DT_f32 : p->x.in;
  TsTileType t = ts_tile_type(d, 2, (int64_t[]){p->rows, p->x.cols});
  t.space = TS_SPACE_fragment;
  return ts_tile_const(&p->b, 0, &t);
}

static V product(Product *p, V s, V acc) {
  const TsGpuProduct *x = &p->x;
  static const int64_t turned[2] = {2, 1};
  V at[3] = {s, number(p, 0), number(p, 0)};
  V a = fragment(p, x->in, p->rows, x->depth, p->sa, at, x->turned_a ? turned : NULL);
  V b = fragment(p, x->in, x->depth, x->cols, p->sb, at, x->turned_b ? turned : NULL);
  TsTileStmt *y =
      ts_gpu_say(&p->b, TS_TILE_mma, TS_GPU_IN(a, b, acc),
                 TS_GPU_SET({"unit", ts_gpu_word(p->unit ? "wgmma" : "fma")}), &acc->type);
  return y ? y->out[0] : NULL;
}

static void leave(Product *p, V s) {
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->empty, s), 0, NULL, NULL);
}

/* Stages on the matrix unit: each is left when the next one's products are under way. */
static V unit_loop(Product *p, V *s, V *parity) {
  V first[4] = {zeros(p), *s, *parity, *s}, out[4];
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 4, first);
  if (!k.stmt) return NULL;
  V at = k.carry[1], turn = k.carry[2];
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->full, at, turn), 0, NULL, NULL);
  V acc = product(p, at, k.carry[0]);
  ts_gpu_commit(&p->b, TS_GPU_PRODUCTS);
  ts_gpu_wait(&p->b, TS_GPU_PRODUCTS, 1);
  TsTileStmt *later =
      ts_gpu_say(&p->b, TS_TILE_if, TS_GPU_IN(by(p, TS_OP_gt, k.i, 0)), 0, NULL, NULL);
  TsTileRegion *body = p->b.at;
  if (!later) return NULL;
  p->b.at = later->region[0];
  leave(p, k.carry[3]);
  p->b.at = body;
  ts_gpu_advance(&p->b, &at, &turn, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){acc, at, turn, k.carry[1]}, out);
  ts_gpu_wait(&p->b, TS_GPU_PRODUCTS, 0);
  leave(p, out[3]);
  *s = out[1], *parity = out[2];
  return out[0];
}

/* One step of the last stage, which k does not fill. */
static V rest_step(Product *p, V s, V i, V acc) {
  const TsGpuProduct *x = &p->x;
  V zero = number(p, 0);
  int64_t wide_a = x->turned_a ? 2 : 1, wide_b = x->turned_b ? 1 : 2;
  V a = fragment(p, x->in, p->rows, 0, p->sa,
                 x->turned_a ? (V[]){s, i, zero} : (V[]){s, zero, i}, &wide_a);
  V b = fragment(p, x->in, x->cols, 0, p->sb,
                 x->turned_b ? (V[]){s, zero, i} : (V[]){s, i, zero}, &wide_b);
  return ts_tile_emit1(&p->b, TS_TILE_outer, 3, (V[]){a, b, acc}, NULL, &acc->type);
}

/* The rest of k: a loop of one round or none around it, so that nothing is decided twice. */
static V rest(Product *p, V acc, V *s, V *parity) {
  int64_t depth = p->x.depth;
  V some = op2(p, TS_OP_sub, p->k, by(p, TS_OP_mul, p->nk, depth));
  V any = by(p, TS_OP_minimum, some, 1), first[3] = {acc, *s, *parity}, out[3], sum;
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), any, 1, false, 3, first);
  if (!k.stmt) return NULL;
  V at = k.carry[1], turn = k.carry[2];
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->full, at, turn), 0, NULL, NULL);
  TsTileLoop step = ts_tile_for(&p->b, number(p, 0), some, 1, false, 1, k.carry);
  if (!step.stmt) return NULL;
  sum = rest_step(p, at, step.i, step.carry[0]);
  ts_tile_for_end(&p->b, &step, &sum, &sum);
  leave(p, at);
  ts_gpu_advance(&p->b, &at, &turn, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){sum, at, turn}, out);
  *s = out[1], *parity = out[2];
  return out[0];
}

static V fma_loop(Product *p, V *s, V *parity) {
  V first[3] = {zeros(p), *s, *parity}, out[3];
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 3, first);
  if (!k.stmt) return NULL;
  V at = k.carry[1], turn = k.carry[2];
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->full, at, turn), 0, NULL, NULL);
  V acc = product(p, at, k.carry[0]);
  leave(p, at);
  ts_gpu_advance(&p->b, &at, &turn, p->x.stages);
  ts_tile_for_end(&p->b, &k, (V[]){acc, at, turn}, out);
  *s = out[1], *parity = out[2];
  return rest(p, out[0], s, parity);
}

/* ---- role mma: what follows */
static V part(Product *p, V x, int64_t col, int64_t cols) {
  TsTileType t = x->type;
  t.dim[1] = cols;
  TsTileStmt *s = ts_gpu_say(&p->b, TS_TILE_part, TS_GPU_IN(x),
                             TS_GPU_SET({"start", ts_gpu_list(2, (int64_t[]){0, col})}), &t);
  return s ? s->out[0] : NULL;
}

static V widened(Product *p, V x, const TsTileType *t) {
  return ts_tile_cast(&p->b, x, (TsDtype)t->dtype);
}

/* ---- columns that all rows of a tile read: on their way while products are made, then near */
static V line_at(Product *p, int64_t col) {
  V slot = by(p, TS_OP_mul, by(p, TS_OP_bitwise_and, p->turn, 1), p->x.cols);
  return by(p, TS_OP_add, slot, col);
}

static V line_source(Product *p, int i) { return i ? p->param[i] : p->bias; }

static void begin_lines(Product *p) {
  int64_t shape[1] = {p->x.cols};
  bool any = false;
  for (int i = 0; i < TS_GPU_FOLLOW_PARAMS; i++) {
    if (!p->line[i]) continue;
    any = true;
    ts_gpu_say(&p->b, TS_TILE_copy_async,
               TS_GPU_IN(p->line[i], line_source(p, i), line_at(p, 0), p->n0),
               TS_GPU_SET({"shape", ts_gpu_list(1, shape)}), NULL);
  }
  if (any)
    ts_gpu_say(&p->b, TS_TILE_commit, 0, NULL, TS_GPU_SET({"of", ts_gpu_choice(0)}), NULL);
}

static void end_lines(Product *p) {
  bool any = false;
  for (int i = 0; i < TS_GPU_FOLLOW_PARAMS; i++) any = any || p->line[i];
  if (!any) return;
  ts_gpu_say(&p->b, TS_TILE_wait, 0, NULL,
             TS_GPU_SET({"pending", ts_gpu_whole(0)}, {"of", ts_gpu_choice(0)}), NULL);
  ts_gpu_plain(&p->b, TS_TILE_sync);
}

/* Pointwise rows on some columns of the sums, which begin at column n of the result. */
static V follow(Product *p, V x, V n, int64_t col) {
  TsTileType t = x->type, line = ts_tile_vector(p->x.out, t.dim[1]);
  TsTileAccess edge = {.edge = true};
  line.space = TS_SPACE_fragment;
  if (p->bias) {
    V near = p->line[0] ? line_at(p, col) : NULL;
    V v = near ? ts_tile_load(&p->b, p->line[0], &near, &line, NULL)
               : ts_tile_load(&p->b, p->bias, &n, &line, &edge);
    v = widened(p, v, &t);
    x = op2(p, TS_OP_add, x, ts_tile_broadcast(&p->b, v, &t, (int64_t[]){1}));
  }
  if (p->x.activation) x = ts_tile_op1(&p->b, p->x.activation, x);
  if (p->residual) {
    V r = ts_tile_load(&p->b, p->residual, (V[]){p->m0, n}, &t, &edge);
    x = op2(p, TS_OP_add, x, widened(p, r, &t));
  }
  return ts_tile_cast(&p->b, x, p->x.out);
}

/* Buffers take turns across tiles: with an odd number of pieces a tile begins with the buffer
 * that the one before did not begin with. */
static V buffer_of(Product *p, int64_t piece) {
  int n = p->x.buffers;
  int64_t all = p->x.cols / p->width * (p->x.follow ? p->x.follow->nout : 1);
  if (n == 1 || all % 2 == 0) return number(p, piece % n);
  return by(p, TS_OP_bitwise_and, by(p, TS_OP_add, p->turn, piece), 1);
}

/* A piece goes to a buffer and from there by the copy engine, which takes what lies inside of
 * C. A buffer is free when as many stores as there are buffers, less one, have yet to read
 * theirs. */
static void put_piece(Product *p, V y, V buffer, int64_t col) {
  V at[3] = {buffer, number(p, 0), number(p, col)};
  ts_tile_store(&p->b, p->sc, at, y, NULL);
}

static void send_piece(Product *p, V to, V n, V buffer) {
  V zero = number(p, 0);
  int64_t shape[2] = {p->rows, p->width};
  ts_gpu_say(&p->b, TS_TILE_fence, 0, NULL, TS_GPU_SET({"scope", ts_gpu_choice(2)}), NULL);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  ts_gpu_say(&p->b, TS_TILE_store_bulk, TS_GPU_IN(to, p->sc, p->m0, n, buffer, zero, zero),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
  ts_gpu_commit(&p->b, TS_GPU_STORES);
}

static void store_piece(Product *p, V to, V y, V n, V buffer) {
  ts_gpu_wait(&p->b, TS_GPU_STORES, p->x.buffers - 1);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  put_piece(p, y, buffer, 0);
  send_piece(p, to, n, buffer);
}

/* ---- rows of a block form */
static void begin_rows(Product *p, V x, V n, int64_t piece) {
  TsGpuFollowing *c = &p->rows_of;
  ts_gpu_follow_begin(c, p->m0, n, line_at(p, piece * p->width));
  c->made[p->x.follow->mma->out[0]->id] = x;
}

static V out_of_rows(Product *p, int i) {
  return ts_gpu_follow(&p->rows_of, p->x.follow->out[i]);
}

static V param_of_rows(Product *p, int i) { return p->param[p->x.follow->to[i]->index]; }

/* Pieces of the tile before are no longer read. */
static void give_room(Product *p) {
  int pieces = p->x.cols / (int)p->width;
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  for (int i = 0; i < pieces; i++)
    ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->room, number(p, i)), 0, NULL, NULL);
}

/* In the place of what was added. */
static void follow_in_place(Product *p, V x, V n, int64_t piece) {
  V at = number(p, piece), zero = number(p, 0);
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->came, at, by(p, TS_OP_bitwise_and, p->turn, 1)),
             0, NULL, NULL);
  begin_rows(p, x, n, piece);
  p->rows_of.ahead = p->ahead;
  p->rows_of.came =
      fragment(p, p->x.out, p->rows, p->width, p->sc, (V[]){at, zero, zero}, NULL);
  V y = out_of_rows(p, 0);
  put_piece(p, y, at, 0);
  send_piece(p, param_of_rows(p, 0), n, at);
}

/* By the threads that multiply: every result of a piece, one after the other. */
static void follow_here(Product *p, V x, V n, int64_t piece) {
  const TsGpuFollow *f = p->x.follow;
  if (p->ahead) {
    follow_in_place(p, x, n, piece);
    return;
  }
  begin_rows(p, x, n, piece);
  for (int i = 0; i < f->nout; i++)
    store_piece(p, param_of_rows(p, i), out_of_rows(p, i), n,
                buffer_of(p, piece * f->nout + i));
}

/* By others: the sums go to them as 16 bits, each piece to a place of its own, as soon as what
 * was there has left. */
static void hand_over(Product *p, V x, V n, int64_t piece) {
  V at = number(p, piece);
  V parity = by(p, TS_OP_bitwise_and, by(p, TS_OP_add, p->turn, 1), 1);
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->room, at, parity), 0, NULL, NULL);
  p->rows_of.width = p->width;
  begin_rows(p, x, n, piece);
  V y = ts_gpu_follow(&p->rows_of, p->x.follow->narrow);
  put_piece(p, y, at, 0);
  ts_gpu_say(&p->b, TS_TILE_fence, 0, NULL, TS_GPU_SET({"scope", ts_gpu_choice(2)}), NULL);
  ts_gpu_plain(&p->b, TS_TILE_sync);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->ready, at), 0, NULL, NULL);
}

/* Some columns of a piece, in place. */
static void follow_columns(Product *p, V at, V n, int64_t col, int result) {
  V place[3] = {at, number(p, 0), number(p, col)};
  V x = fragment(p, p->x.out, p->rows, FOLLOW_COLS, p->sc, place, NULL);
  p->rows_of.width = FOLLOW_COLS;
  ts_gpu_follow_begin(&p->rows_of, p->m0, col ? by(p, TS_OP_add, n, col) : n, NULL);
  p->rows_of.made[p->x.follow->narrow->id] = x;
  put_piece(p, out_of_rows(p, result), at, col);
}

/* What is stored as it is goes first. */
static void follow_piece(Product *p, V at) {
  const TsGpuFollow *f = p->x.follow;
  V n = op2(p, TS_OP_add, p->n0, by(p, TS_OP_mul, at, p->width));
  int result = 0;
  bool sent = false;
  ts_gpu_say(&p->b, TS_TILE_await,
             TS_GPU_IN(p->ready, at, by(p, TS_OP_bitwise_and, p->turn, 1)), 0, NULL, NULL);
  for (int i = 0; i < f->nout; i++) {
    if (f->out[i] != f->narrow) result = i;
    if (f->out[i] == f->narrow) send_piece(p, param_of_rows(p, i), n, at), sent = true;
  }
  if (sent) {
    ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
    ts_gpu_plain(&p->b, TS_TILE_sync);
  }
  for (int64_t col = 0; col < p->width; col += FOLLOW_COLS)
    follow_columns(p, at, n, col, result);
  send_piece(p, param_of_rows(p, result), n, at);
}

/* Places become free when they were read, which is waited for one piece later. */
static void follow_role(Product *p) {
  int pieces = p->x.cols / (int)p->width;
  TsTileRegion *before = ts_gpu_role(&p->b, "follow", FOLLOW_WARPS);
  TsTileLoop l = tiles_without(p);
  if (!l.stmt) return;
  TsTileLoop k = ts_tile_for(&p->b, number(p, 0), number(p, pieces), 1, false, 0, NULL);
  if (!k.stmt) return;
  follow_piece(p, k.i);
  ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->room, k.i), 0, NULL, NULL);
  ts_tile_for_end(&p->b, &k, NULL, NULL);
  ts_tile_for_end(&p->b, &l, NULL, NULL);
  p->b.at = before;
}

static void epilogue(Product *p, V acc) {
  int64_t width = p->unit ? p->width : p->x.cols;
  for (int64_t at = 0; acc && at < p->x.cols; at += width) {
    V n = at ? by(p, TS_OP_add, p->n0, at) : p->n0;
    V x = width < p->x.cols ? part(p, acc, at, width) : acc;
    TsTileAccess edge = {.edge = true};
    if (p->x.split)
      hand_over(p, x, n, at / width);
    else if (p->x.follow)
      follow_here(p, x, n, at / width);
    else if (p->unit)
      store_piece(p, p->c, follow(p, x, n, at), n, buffer_of(p, at / width));
    else
      ts_tile_store(&p->b, p->c, (V[]){p->m0, n}, follow(p, x, n, at), &edge);
  }
}

/* 8 x 64 bytes of a thread, 4 x 8 threads of a warp. */
static int warp_cols(TsDtype d) { return 512 / ts_dtypes[d].nbytes; }

static int mma_warps(const Product *p) {
  const TsGpuProduct *x = &p->x;
  return p->unit ? x->rows / 16 : x->rows / WARP_ROWS * (x->cols / warp_cols(x->in));
}

static void mma_role(Product *p) {
  TsTileRegion *before = ts_gpu_role(&p->b, "mma", mma_warps(p));
  registers(p, false);
  TsTileLoop l = tiles(p, number(p, 0), number(p, 0));
  if (!l.stmt) return;
  V s = l.carry[0], parity = l.carry[1];
  if (p->ahead) give_room(p);
  begin_lines(p);
  V acc = p->unit ? unit_loop(p, &s, &parity) : fma_loop(p, &s, &parity);
  end_lines(p);
  epilogue(p, acc);
  ts_tile_for_end(&p->b, &l, (V[]){s, parity}, NULL);
  if (p->unit && !p->x.split) ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  p->b.at = before;
}

/* ---- the kernel */
int ts_gpu_product_ahead(const TsGpuProduct *x) {
  const TsGpuFollow *f = x->follow;
  int found = 0;
  if (!f || x->split || f->nout != 1 || x->limit || ts_dtypes[x->out].nbytes != 2) return 0;
  for (int i = 2; i < f->block->nin; i++) {
    const TsTileType *t = &f->block->param[i]->type;
    if (t->rank == 2 && (found || (TsDtype)t->dtype != x->out)) return 0;
    if (t->rank == 2) found = i;
  }
  return found;
}

static int legal(const TsGpuProduct *x, bool unit, TsError *err) {
  int bytes = ts_dtypes[x->in].nbytes;
  bool eight = bytes == 1;
  bool narrow = bytes == 2 || (eight && !x->turned_a && x->turned_b);
  bool out = x->out == TS_DT_f32 || (eight ? ts_dtypes[x->out].nbytes == 2 : x->out == x->in);
  bool wide = x->in == TS_DT_f32 || x->in == TS_DT_f64;
  bool fits = unit ? narrow && x->rows % GROUP_ROWS == 0 && x->rows <= 3 * GROUP_ROWS &&
                         x->cols % 64 == 0 && x->cols <= 256 && x->depth * bytes == PATTERN &&
                         out && (x->buffers == 1 || x->buffers == 2)
                   : wide && x->out == x->in && x->rows % WARP_ROWS == 0 &&
                         x->cols % warp_cols(x->in) == 0 && x->depth * bytes == 64 &&
                         x->cluster == 1;
  if (x->split)
    fits = fits && x->follow && x->follow->narrow && x->follow->late == 1 &&
           x->rows <= 2 * GROUP_ROWS && x->out != TS_DT_f32;
  if (x->follow) fits = fits && unit && !x->bias && !x->residual && !x->activation;
  fits = fits && x->stages > 1 && x->group > 0 && (x->cluster == 1 || x->cluster == 2);
  if (fits) return 0;
  return ts_error_set(err, TS_ERR_argument, "no product of %s to %s in tiles of %dx%dx%d",
                      ts_dtype_name(x->in), ts_dtype_name(x->out), x->rows, x->cols, x->depth);
}

static void head(const Product *p) {
  TsTile *k = p->b.k;
  const TsGpuProduct *x = &p->x;
  k->form = TS_FORM_explicit;
  k->target = "sm_90a";
  k->ntile = 3;
  k->tile[0] = p->rows, k->tile[1] = x->cols, k->tile[2] = x->depth;
  k->stages = x->stages;
  k->threads = 32 * (mma_warps(p) + LOAD_WARPS);
  k->cluster = x->cluster > 1 ? x->cluster : 0;
}

static void body(Product *p) {
  sizes(p);
  if (p->x.limit) {
    TsTileType t = ts_tile_vector(TS_DT_i32, 3);
    p->clock = named(ts_tile_alloc(&p->b, TS_SPACE_scratch, &t), "clock");
    p->full_rounds = named(op2(p, TS_OP_floordiv, p->total, p->p), "full_rounds");
  }
  TsTileLoop grid = ts_tile_for(&p->b, number(p, 0), p->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  p->round = grid.i;
  p->rounds = named(div_up(p, op2(p, TS_OP_sub, p->total, grid.i), p->p), "rounds");
  block_memory(p);
  load_role(p);
  if (p->x.split) follow_role(p);
  mma_role(p);
  ts_tile_for_end(&p->b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_product(const TsGpuProduct *x, TsError *err) {
  bool unit = ts_dtypes[x->in].nbytes <= 2;
  if (legal(x, unit, err)) return NULL;
  TsTile *k = ts_tile_new("matmul");
  if (!k) return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
  Product p = {.x = *x, .unit = unit, .rows = (int64_t)x->rows * x->cluster};
  p.width = PATTERN / ts_dtypes[x->out].nbytes;
  p.b = ts_tile_build(k);
  p.ahead = ts_gpu_product_ahead(x);
  params(&p);
  head(&p);
  if (x->follow) {
    V *made = calloc(x->follow->block->nvalue + 1, sizeof *made);
    p.rows_of = (TsGpuFollowing){.f = x->follow,
                                 .b = &p.b,
                                 .param = p.param,
                                 .rows = p.rows,
                                 .width = p.width,
                                 .line = p.line,
                                 .made = made};
    if (!made) k->failed = true;
  }
  if (!k->failed) body(&p);
  free(p.rows_of.made);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_set(err, TS_ERR_memory, "out of memory"), NULL;
}
