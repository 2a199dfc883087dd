/* See ir/tile/gpu/experts.h.
 *
 * Of few rows the time is that of reading codes. One thread (role `load`) has the copy engine
 * bring stages of them, and of each tile the scales as one line; whoever multiplies makes
 * numbers of codes in registers (unpack), reads rows of x, which are few and in the first
 * cache, as it needs them, and hands the stage back. Stages go round across tiles of a block,
 * so the next tile's come in while this one's sums are written. Neighbouring blocks have the
 * same columns of different items: rows of one expert that fill several items read its codes
 * from the second cache.
 *
 * Sums are k ascending in steps of the unit, as those of ir/tile/gpu/warp_product.c of the
 * same numbers in bf16: codes behind the end of k are zeros, which add nothing there.
 *
 * Rejected: numbers written to shared memory for the unit to read (four times the bytes of the
 * codes, there and back), and the scale in the block, 17 bytes (no copy of such rows is
 * aligned).
 *
 * Tiles of up to 8 rows are turned by whoever makes code (jit/emit/roles/turned.c): half of the
 * unit's steps. Codes and scales are what a model has learned, and which experts were chosen is
 * often known before the launch in front: so stages come while that one runs
 * (ir/tile/ahead.h), and rows of x are read behind it. */
#include "ir/tile/gpu/experts.h"

#include <string.h>

#include "ir/tile/gpu/build.h"

enum { DEEP = 32 /* numbers of a scale */, STAGE = 256 /* numbers, of 128 bytes */, LINES = 2 };

typedef TsTileVal V;

typedef struct Product {
  TsGpuExperts x;
  TsTileBuild b;
  V rows, codes, scales, places, bias, y;                 /* memory */
  V matrices, items, p, tn, total, nk, round, rounds, n0; /* sizes; of a tile */
  V item, first, line, length;                            /* of a tile: of codes, stages */
  V sq, ss, full, empty, there, left;
} Product;

static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }

/* ---- which tile */
static int warps_of(int cols) { return cols >= 64 ? 4 : cols / 16; }

/* The widest tile that divides the columns; few rows have narrower ones where there would be
 * less than two a processor. */
TsGpuExperts ts_gpu_experts(int64_t rows, int64_t experts, int64_t n, int64_t k,
                            const TsGpuMachine *gpu) {
  TsGpuExperts x = {.n = n, .k = k, .times = 1, .sorted = rows > 8};
  x.rows = rows > 16 * experts ? 32 : rows > 4 * experts ? 16 : 8;
  int64_t most = rows / x.rows + experts + 1; /* those of no expert are one more */
  x.items = x.sorted && rows > most ? most : rows;
  for (x.cols = 64; x.cols >= 16; x.cols /= 2) {
    bool few = x.rows <= 16 && x.items * (n / x.cols) < 2 * gpu->processors && x.cols > 32;
    if (n % x.cols == 0 && !few) break;
  }
  if (x.cols < 16) return x.cols = 0, x;
  x.warps = warps_of(x.cols);
  x.beside = x.rows > 16 ? 2 : x.cols > 32 ? 3 : 4;
  int64_t room = gpu->target->shared_bytes / x.beside - 2048 - LINES * x.cols * k / DEEP;
  x.stages = (int)(room / (x.cols * STAGE / 2));
  int enough = (int)((k + STAGE - 1) / STAGE) + 1;
  if (x.stages > enough) x.stages = enough;
  if (x.stages < 2) x.cols = 0;
  return x;
}

/* ---- parameters, sizes, memory */
static void params(Product *p) {
  TsTile *k = p->b.k;
  const TsGpuExperts *x = &p->x;
  static const char *const name[6] = {"M", "W", "L", "I", "R", "P"};
  int64_t size[6];
  for (int i = 0; i < 6; i++) size[i] = ts_tile_size(k, name[i]);
  TsTileType places = ts_tile_vector(TS_DT_i64, size[3]),
             line = ts_tile_vector(TS_DT_bf16, size[1]);
  p->rows = ts_gpu_matrix(&p->b, "x", TS_DT_bf16, size[0], x->k, false);
  p->codes = ts_gpu_matrix(&p->b, "codes", TS_DT_u8, size[1], x->k / 2, false);
  p->scales = ts_gpu_matrix(&p->b, "scales", TS_DT_u8, size[2], x->cols * x->k / DEEP, false);
  p->places = ts_tile_param(k, "places", &places, false);
  if (x->bias) p->bias = ts_tile_param(k, "bias", &line, false);
  p->y = ts_gpu_matrix(&p->b, "y", TS_DT_bf16, size[4], x->n, true);
}

static V place(Product *p, V at) {
  TsTileType one = ts_tile_scalar(TS_DT_i64);
  return ts_tile_load(&p->b, p->places, &at, &one, NULL);
}

static void sizes(Product *p) {
  p->matrices = ts_gpu_size(&p->b, 1, "w"), p->p = ts_gpu_size(&p->b, 5, "p");
  p->tn = number(p, p->x.n / p->x.cols);
  p->nk = number(p, (p->x.k + STAGE - 1) / STAGE);
}

static void block_memory(Product *p) {
  const TsGpuExperts *x = &p->x;
  int64_t codes[3] = {x->stages, x->cols, STAGE / 2},
          scales[2] = {LINES, x->cols * x->k / DEEP};
  p->sq = ts_gpu_shared(&p->b, "sq", TS_DT_u8, 3, codes, TS_GPU_PATTERN);
  p->ss = ts_gpu_shared(&p->b, "ss", TS_DT_u8, 2, scales, 0);
  p->full = ts_gpu_barriers(&p->b, "full", x->stages, 1);
  p->empty = ts_gpu_barriers(&p->b, "empty", x->stages, 1);
  p->there = ts_gpu_barriers(&p->b, "there", LINES, 1);
  p->left = ts_gpu_barriers(&p->b, "left", LINES, 1);
}

static void tiles(Product *p) {
  p->items = p->x.sorted ? place(p, number(p, 0)) : ts_gpu_size(&p->b, 3, "items");
  p->total = ts_gpu_named(op2(p, TS_OP_mul, p->items, p->tn), "total");
  V left = op2(p, TS_OP_sub, p->total, p->round), up = by(p, TS_OP_sub, p->p, 1);
  p->rounds = ts_gpu_named(op2(p, TS_OP_floordiv, op2(p, TS_OP_add, left, up), p->p), "rounds");
}

/* The block's tile number nth: all items, then the next columns. Of no expert there is nothing
 * to add up. */
static void corner(Product *p, V nth) {
  V t = op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, nth, p->p));
  V col = op2(p, TS_OP_floordiv, t, p->items);
  p->item = ts_gpu_named(op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, col, p->items)), "item");
  V expert = place(p, p->x.sorted ? by(p, TS_OP_add, p->item, 1) : p->item);
  V experts = by(p, TS_OP_floordiv, p->matrices, p->x.n), zero = number(p, 0);
  V is = op2(p, TS_TILE_ult, expert, experts);
  p->n0 = ts_gpu_named(by(p, TS_OP_mul, col, p->x.cols), "n0");
  V first = op2(p, TS_OP_add, by(p, TS_OP_mul, expert, p->x.n), p->n0);
  p->first = ts_gpu_named(ts_tile_op3(&p->b, TS_OP_where, is, first, p->matrices), "first");
  V line = op2(p, TS_OP_add, op2(p, TS_OP_mul, expert, p->tn), col);
  p->line = ts_gpu_named(ts_tile_op3(&p->b, TS_OP_where, is, line, zero), "line");
  p->length = ts_gpu_named(ts_tile_op3(&p->b, TS_OP_where, is, p->nk, zero), "length");
}

/* ---- role load */
static void expect(Product *p, V barrier, V s, int64_t bytes) {
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(barrier, s),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_arrive(&p->b, barrier, s);
}

static void fetch_scales(Product *p, V s, V parity) {
  V zero = number(p, 0);
  int64_t line[1] = {p->x.cols * p->x.k / DEEP};
  ts_gpu_await(&p->b, p->left, s, parity);
  expect(p, p->there, s, line[0]);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk,
             TS_GPU_IN(p->ss, p->scales, p->there, s, s, zero, p->line, zero),
             TS_GPU_SET({"shape", ts_gpu_list(1, line)}), NULL);
}

static void fetch_codes(Product *p, V s, V parity, V stage) {
  int64_t shape[2] = {p->x.cols, STAGE / 2};
  V zero = number(p, 0), at = by(p, TS_OP_mul, stage, STAGE / 2);
  ts_gpu_await(&p->b, p->empty, s, parity);
  expect(p, p->full, s, shape[0] * shape[1]);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk,
             TS_GPU_IN(p->sq, p->codes, p->full, s, s, zero, zero, p->first, at),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
}

/* What roles carry from tile to tile: a slot of codes, its parity, a slot of scales, its. */
enum { C_slot, C_parity, C_line, C_line_parity, CARRIED };

static void load_role(Product *p) {
  TsTileBuild *b = &p->b;
  TsTileRegion *before = ts_gpu_role(b, "load", 1);
  V zero = number(p, 0), one = number(p, 1), first[CARRIED] = {zero, one, zero, one};
  tiles(p);
  TsTileLoop l = ts_tile_for(b, zero, p->rounds, 1, false, CARRIED, first);
  if (!l.stmt) return;
  V next[CARRIED];
  memcpy(next, l.carry, sizeof next);
  corner(p, l.i);
  fetch_scales(p, next[C_line], next[C_line_parity]);
  TsTileLoop k = ts_tile_for(b, zero, p->length, 1, false, 2, next);
  if (!k.stmt) return;
  V s = k.carry[0], parity = k.carry[1];
  fetch_codes(p, s, parity, k.i);
  ts_gpu_advance(b, &s, &parity, p->x.stages);
  ts_tile_for_end(b, &k, (V[]){s, parity}, next);
  ts_gpu_advance(b, &next[C_line], &next[C_line_parity], LINES);
  ts_tile_for_end(b, &l, next, NULL);
  b->at = before;
}

/* ---- role mma */
/* Numbers of this item's rows of y, along the rows of the tile. */
static V rows_of(Product *p) {
  TsTileType t = ts_gpu_fragment(TS_DT_i64, p->x.rows, 0);
  if (p->x.sorted) {
    V at = by(p, TS_OP_add, by(p, TS_OP_mul, p->item, p->x.rows), 1 + p->x.items);
    return ts_tile_load(&p->b, p->places, &at, &t, NULL);
  }
  TsAttr axis = {.type = TS_ATTR_int};
  V own = ts_tile_emit1(&p->b, TS_TILE_iota, 0, NULL, &axis, &t);
  V first = ts_tile_op2(&p->b, TS_OP_eq, own, ts_tile_bits(&p->b, 0, &t));
  V row = ts_tile_broadcast(&p->b, p->item, &t, NULL);
  return first ? ts_tile_op3(&p->b, TS_OP_where, first, row,
                             ts_tile_bits(&p->b, (uint64_t)-1, &t))
               : NULL;
}

static V x_rows(Product *p, V rows) {
  if (p->x.times == 1 || !rows) return rows;
  return op2(p, TS_OP_floordiv, rows, ts_tile_bits(&p->b, (uint64_t)p->x.times, &rows->type));
}

/* `deep` of k, from `at` in the stage on: their numbers, and these elements of the rows. */
static V multiply(Product *p, V acc, V rows, V slot, V line, V stage, int64_t at, int deep) {
  TsTileBuild *b = &p->b;
  const TsGpuOption inside = {"inside", {.type = TS_ATTR_bool, .i = 1}};
  V k = by(p, TS_OP_add, by(p, TS_OP_mul, stage, STAGE), at);
  V scale = by(p, TS_OP_add, by(p, TS_OP_mul, stage, STAGE / DEEP), at / DEEP);
  TsTileType ta = ts_gpu_fragment(TS_DT_bf16, p->x.rows, deep),
             tb = ts_gpu_fragment(TS_DT_bf16, deep, p->x.cols);
  V left = ts_gpu_give(b, TS_TILE_load_rows, TS_GPU_IN(p->rows, rows, k), 1, &inside, &ta);
  V right =
      ts_gpu_give(b, TS_TILE_unpack, TS_GPU_IN(p->sq, p->ss, slot, number(p, at), line, scale),
                  1, &inside, &tb);
  if (!left || !right || !acc) return NULL;
  return ts_gpu_give(b, TS_TILE_mma, TS_GPU_IN(left, right, acc),
                     TS_GPU_SET({"unit", ts_gpu_word("mma")}), &acc->type);
}

static void leave(Product *p, V barrier, V slot) {
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(barrier, slot),
             TS_GPU_SET({"apart", (TsAttr){.type = TS_ATTR_bool, .i = 1}}), NULL);
}

/* Stages first .. behind, of each of which so much of k is there. v: sums, slot, parity. Two
 * blocks of k at a time where rows have an even number of them: their scales are one load. */
static void some_sums(Product *p, V first, V behind, int64_t deep, V rows, V line, V *v) {
  TsTileBuild *b = &p->b;
  int each = p->x.k % (2 * DEEP) ? DEEP : 2 * DEEP;
  TsTileLoop l = ts_tile_for(b, first, behind, 1, false, 3, v);
  if (!l.stmt) return;
  V acc = l.carry[0], slot = l.carry[1], parity = l.carry[2];
  ts_gpu_await(b, p->full, slot, parity);
  for (int64_t at = 0; at < deep; at += each)
    acc = multiply(p, acc, rows, slot, line, l.i, at, each);
  leave(p, p->empty, slot);
  ts_gpu_advance(b, &slot, &parity, p->x.stages);
  ts_tile_for_end(b, &l, (V[]){acc, slot, parity}, v);
}

static V sums(Product *p, V rows, V *v) {
  TsTileBuild *b = &p->b;
  TsTileType t = ts_gpu_fragment(TS_DT_f32, p->x.rows, p->x.cols);
  V now[3] = {ts_tile_const(b, 0, &t), v[C_slot], v[C_parity]};
  V whole = by(p, TS_OP_minimum, p->length, p->x.k / STAGE);
  ts_gpu_await(b, p->there, v[C_line], v[C_line_parity]);
  if (p->x.k >= STAGE) some_sums(p, number(p, 0), whole, STAGE, rows, v[C_line], now);
  if (p->x.k % STAGE) some_sums(p, whole, p->length, p->x.k % STAGE, rows, v[C_line], now);
  leave(p, p->left, v[C_line]);
  v[C_slot] = now[1], v[C_parity] = now[2];
  return now[0];
}

static void store(Product *p, V rows, V acc) {
  TsTileBuild *b = &p->b;
  TsTileAccess edge = {.edge = true};
  if (!acc) return;
  if (p->bias) {
    TsTileType t = ts_tile_vector(TS_DT_bf16, p->x.cols);
    t.space = TS_SPACE_fragment;
    V v = ts_tile_cast(b, ts_tile_load(b, p->bias, &p->first, &t, &edge), TS_DT_f32);
    acc =
        op2(p, TS_OP_add, acc, v ? ts_tile_broadcast(b, v, &acc->type, (int64_t[]){1}) : NULL);
  }
  ts_gpu_say(b, TS_TILE_store_rows,
             TS_GPU_IN(p->y, rows, p->n0, ts_tile_cast(b, acc, TS_DT_bf16)), TS_GPU_PLAIN,
             NULL);
}

static void mma_role(Product *p) {
  TsTileBuild *b = &p->b;
  TsTileRegion *before = ts_gpu_role(b, "mma", p->x.warps);
  V zero = number(p, 0), v[CARRIED] = {zero, zero, zero, zero};
  ts_gpu_plain(b, TS_TILE_await_launch);
  tiles(p);
  TsTileLoop l = ts_tile_for(b, zero, p->rounds, 1, false, CARRIED, v);
  if (!l.stmt) return;
  memcpy(v, l.carry, sizeof v);
  corner(p, l.i);
  V rows = rows_of(p);
  store(p, rows, sums(p, x_rows(p, rows), v));
  ts_gpu_advance(b, &v[C_line], &v[C_line_parity], LINES);
  ts_tile_for_end(b, &l, v, NULL);
  b->at = before;
}

/* ---- the kernel */
static int legal(const TsGpuExperts *x, TsError *err) {
  if (x->k % DEEP == 0 && x->cols >= 16 && x->n % x->cols == 0 && x->stages > 1 &&
      (x->rows == 8 || x->rows % 16 == 0) && x->rows <= 64 && x->cols % (16 * x->warps) == 0)
    return 0;
  return ts_error_set(err, TS_ERR_argument, "no product of experts in tiles of %dx%d", x->rows,
                      x->cols);
}

TsTile *ts_tile_gpu_experts(const TsGpuExperts *x, const TsTarget *target, TsError *err) {
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("experts");
  if (!k) return ts_error_memory(err), NULL;
  Product p = {.x = *x, .b = ts_tile_build(k)};
  k->form = TS_FORM_explicit;
  k->target = target->name;
  k->ntile = 3;
  k->tile[0] = x->rows, k->tile[1] = x->cols, k->tile[2] = STAGE;
  k->stages = x->stages;
  k->threads = 32 * (x->warps + 1);
  params(&p);
  sizes(&p);
  TsTileLoop grid = ts_tile_for(&p.b, number(&p, 0), p.p, 1, true, 0, NULL);
  if (grid.stmt) {
    p.round = grid.i;
    block_memory(&p);
    load_role(&p);
    mma_role(&p);
    ts_tile_for_end(&p.b, &grid, NULL, NULL);
  }
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
