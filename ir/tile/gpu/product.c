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
#include "ir/tile/gpu/product.h"

#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/chain_tile.h"
#include "ir/tile/gpu/product_state.h"

enum { LOAD_WARPS = 4 };

typedef TsTileVal V;
typedef TsGpuProductState Product;

/* ---- short forms */
static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }
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
static V operand(Product *p, const char *name, const TsGpuOperandLayout *layout, int64_t rows,
                 int64_t cols, const int64_t *many) {
  TsTileType t = {.dtype = p->x.in};
  for (int i = 0; p->x.batch && i < 2; i++) {
    t.stride[t.rank] = layout->step[i];
    t.dim[t.rank++] = layout->step[i] ? many[i] : 1;
  }
  t.stride[t.rank] = layout->row, t.dim[t.rank++] = rows;
  t.stride[t.rank] = 1, t.dim[t.rank++] = cols;
  t.strided = layout->row != 0;
  if (!t.strided) memset(t.stride, 0, sizeof t.stride);
  return ts_tile_param(p->b.k, name, &t, false);
}

static V matrices(Product *p, const char *name, TsDtype d, int64_t count, int64_t rows,
                  int64_t cols, bool written) {
  TsTileType t = ts_tile_type(d, 4, (int64_t[]){count, 1, rows, cols});
  return ts_tile_param(p->b.k, name, &t, written);
}

/* many: groups, numbers of places. */
static void ragged_params(Product *p, int64_t m, int64_t n, int64_t k, const int64_t *many,
                          int64_t last) {
  const TsGpuProduct *x = &p->x;
  bool rows = x->ragged == TS_GPU_RAGGED_rows, transposed = x->transposed_b;
  TsTileType places = ts_tile_vector(TS_DT_i64, many[1]);
  p->a = ts_gpu_matrix(&p->b, "a", x->in, rows ? m : k, rows ? k : m, false);
  p->bm = rows ? matrices(p, "b", x->in, many[0], transposed ? n : k, transposed ? k : n, false)
               : ts_gpu_matrix(&p->b, "b", x->in, k, n, false);
  p->places = ts_tile_param(p->b.k, "places", &places, false);
  if (!rows && p->unit) {
    p->tail[0] = ts_gpu_matrix(&p->b, "last_a", x->in, last, m, false);
    p->tail[1] = ts_gpu_matrix(&p->b, "last_b", x->in, last, n, false);
  }
  p->c = rows ? ts_gpu_matrix(&p->b, "c", x->out, m, n, true)
              : matrices(p, "c", x->out, many[0], m, n, true);
}

static void params(Product *p) {
  TsTile *k = p->b.k;
  const TsGpuProduct *x = &p->x;
  int64_t m = ts_tile_size(k, "M"), n = ts_tile_size(k, "N"), kk = ts_tile_size(k, "K");
  int64_t many[2] = {0, 0};
  int64_t last = 0;
  if (x->ragged) {
    many[0] = ts_tile_size(k, "G"), many[1] = ts_tile_size(k, "I");
    last = ts_tile_size(k, "L");
  }
  if (x->batch) many[0] = ts_tile_size(k, "B"), many[1] = ts_tile_size(k, "H");
  ts_tile_size(k, "P");
  if (x->ragged) {
    ragged_params(p, m, n, kk, many, last);
    return;
  }
  p->a = operand(p, "a", &x->a, x->transposed_a ? kk : m, x->transposed_a ? m : kk, many);
  p->bm = operand(p, "b", &x->b, x->transposed_b ? n : kk, x->transposed_b ? kk : n, many);
  if (x->batch) {
    TsTileType t = ts_tile_type(x->out, 4, (int64_t[]){many[0], many[1], m, n});
    p->c = ts_tile_param(k, "c", &t, true);
    return;
  }
  if (x->epilogue)
    ts_gpu_epilogue_params(x->epilogue, k, m, n, (V[]){p->a, p->bm}, p->param);
  else
    ts_gpu_named_params(&p->b, x->out, m, n, x->bias ? &p->bias : NULL,
                        x->residual ? &p->residual : NULL, &p->c);
}

/* What is late stands beside the first stages of a tile. */
static int64_t least_stages(const Product *p) {
  return p->x.late ? TS_GPU_LATE_STEPS * ts_gpu_product_pieces(p) + 1 : 1;
}

static V place(Product *p, TsGpuPlace kind, V item) {
  return ts_gpu_place(&p->b, p->places, p->items, kind, item);
}

/* How many tiles there are: rows of them are items; or those of a group, for all groups. */
static void find_items(Product *p) {
  p->items = ts_gpu_items(&p->b, size(p, 4));
  if (p->x.ragged == TS_GPU_RAGGED_depth) {
    p->each = p->total;
    p->total = ts_gpu_named(op2(p, TS_OP_mul, p->each, size(p, 3)), "all");
    return;
  }
  p->tm = ts_gpu_named(place(p, TS_GPU_PLACE_count, number(p, 0)), "tm");
  p->total = ts_gpu_named(op2(p, TS_OP_mul, p->tm, p->tn), "total");
}

static void sizes(Product *p) {
  const TsGpuProduct *x = &p->x;
  p->m = ts_gpu_named(size(p, 0), "m"), p->n = ts_gpu_named(size(p, 1), "n");
  p->k = ts_gpu_named(size(p, 2), "k");
  p->p = ts_gpu_named(size(p, x->ragged ? 6 : x->batch ? 5 : 3), "p");
  p->tm = ts_gpu_named(div_up(p, p->m, number(p, p->rows)), "tm");
  p->tn = ts_gpu_named(div_up(p, p->n, number(p, x->cols)), "tn");
  p->total = ts_gpu_named(op2(p, TS_OP_mul, p->tm, p->tn), "total");
  if (x->batch) {
    p->each = p->total, p->high = ts_gpu_named(size(p, 4), "h");
    V all = op2(p, TS_OP_mul, size(p, 3), p->high);
    p->total = ts_gpu_named(op2(p, TS_OP_mul, p->each, all), "all");
  }
  V nk = p->unit ? div_up(p, p->k, number(p, x->depth)) : by(p, TS_OP_floordiv, p->k, x->depth);
  p->nk = ts_gpu_named(p->unit ? by(p, TS_OP_maximum, nk, least_stages(p)) : nk, "nk");
  p->span = ts_gpu_named(by(p, TS_OP_mul, p->tn, x->group), "span");
  ts_gpu_order(p->b.k, "bands", x->group);
}

static V memory(Product *p, const char *name, TsDtype d, int rank, const int64_t *dim,
                int swizzle, int split) {
  TsTileType t = ts_tile_type(d, rank, dim);
  t.swizzle = (uint16_t)swizzle;
  t.split = (uint8_t)(p->x.cluster > 1 ? split : 0);
  return ts_gpu_named(ts_tile_alloc(&p->b, TS_SPACE_shared, &t), name);
}

/* Stages of an operand of `wide` rows or columns. The matrix unit reads patterns of 128 bytes
 * either way; for multiply-adds only rows along k are exchanged, so that threads that read
 * neighbouring rows find them in different banks. */
static V stages(Product *p, const char *name, int64_t wide, bool along_k, int split) {
  const TsGpuProduct *x = &p->x;
  int64_t depth = x->depth,
          dim[3] = {x->stages, along_k ? wide : depth, along_k ? depth : wide};
  int swizzle = p->unit ? TS_GPU_PATTERN : along_k ? (int)depth * ts_dtypes[x->in].nbytes : 0;
  return memory(p, name, x->in, 3, dim, swizzle, along_k ? split : split ? 2 : 0);
}

static V line_memory(Product *p, V of) {
  TsTileType t = ts_tile_vector((TsDtype)of->type.dtype, 2 * p->x.cols);
  return ts_gpu_named(ts_tile_alloc(&p->b, TS_SPACE_shared, &t), "line");
}

static void block_memory(Product *p) {
  const TsGpuProduct *x = &p->x;
  p->sa = stages(p, "sa", p->rows, !x->transposed_a, 1);
  p->sb = stages(p, "sb", x->cols, x->transposed_b, 0);
  int pieces = ts_gpu_product_pieces(p);
  int64_t piece[3] = {p->prefetched ? pieces : x->buffers, p->rows, p->width};
  if (p->unit) p->sc = memory(p, "sc", x->out, 3, piece, TS_GPU_PATTERN, 1);
  for (int i = 2; x->epilogue && i < x->epilogue->block->nin; i++)
    if (p->param[i]->type.rank == 1) p->line[i] = line_memory(p, p->param[i]);
  if (p->bias && p->unit) p->line[0] = line_memory(p, p->bias);
  p->full = ts_gpu_barriers(&p->b, "full", x->stages, 1);
  p->empty = ts_gpu_barriers(&p->b, "empty", x->stages, 1);
  if (p->prefetched) p->came = ts_gpu_barriers(&p->b, "came", pieces, 1);
  if (p->prefetched) p->room = ts_gpu_barriers(&p->b, "room", pieces, 1);
}

/* ---- where a tile and a stage are */
static void rows_of_item(Product *p, V item) {
  p->m0 = place(p, TS_GPU_PLACE_row, item), p->end = place(p, TS_GPU_PLACE_end, item);
  p->at[0] = place(p, TS_GPU_PLACE_group, item), p->from = place(p, TS_GPU_PLACE_from, item);
}

/* Of tile t the number in its group, whose rows are those of k. */
static V depth_of_group(Product *p, V t) {
  V group = p->at[0] = ts_gpu_named(op2(p, TS_OP_floordiv, t, p->each), "group");
  p->from = place(p, TS_GPU_PLACE_row, group), p->end = place(p, TS_GPU_PLACE_end, group);
  p->k = ts_gpu_named(op2(p, TS_OP_sub, p->end, p->from), "k");
  int64_t d = p->x.depth;
  p->nk = p->unit ? by(p, TS_OP_maximum, ts_gpu_div_up(&p->b, p->k, d), 1)
                  : by(p, TS_OP_floordiv, p->k, d);
  return op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, group, p->each));
}

/* Of tile number t: down a group of rows, then the next column; one matrix after the other. */
void ts_gpu_product_corner(Product *p, V t) {
  const TsGpuProduct *x = &p->x;
  if (x->ragged == TS_GPU_RAGGED_depth) t = depth_of_group(p, t);
  if (x->batch) {
    V number_of = op2(p, TS_OP_floordiv, t, p->each);
    t = op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, number_of, p->each));
    p->at[0] = op2(p, TS_OP_floordiv, number_of, p->high);
    p->at[1] = op2(p, TS_OP_sub, number_of, op2(p, TS_OP_mul, p->at[0], p->high));
  }
  V g = op2(p, TS_OP_floordiv, t, p->span);
  V in = op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, g, p->span));
  V first = by(p, TS_OP_mul, g, x->group);
  V high = by(p, TS_OP_minimum, op2(p, TS_OP_sub, p->tm, first), x->group);
  V col = op2(p, TS_OP_floordiv, in, high);
  V row = op2(p, TS_OP_sub, in, op2(p, TS_OP_mul, col, high));
  p->m0 = ts_gpu_named(by(p, TS_OP_mul, op2(p, TS_OP_add, first, row), p->rows), "m0");
  p->n0 = ts_gpu_named(by(p, TS_OP_mul, col, x->cols), "n0");
  if (x->ragged == TS_GPU_RAGGED_rows) rows_of_item(p, op2(p, TS_OP_add, first, row));
}

/* Tiles of this block: number round, round + P, .. */
static TsTileLoop tiles(Product *p, V s, V parity) {
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, 2, (V[]){s, parity});
  if (!l.stmt) return l;
  p->nth = p->lines = l.i;
  ts_gpu_product_corner(p, op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, l.i, p->p)));
  return l;
}

/* ---- role load */
static void fetch(Product *p, V to, V from, bool along_k, V at, V k0, int64_t wide, V s) {
  int64_t d = p->x.depth, shape[2] = {along_k ? wide : d, along_k ? d : wide};
  V zero = number(p, 0), in[11] = {to, from, p->full, s, s, zero, zero};
  int n = 7;
  for (int i = 0; from && from->type.rank == 4 && i < 2; i++)
    in[n++] = from->type.dim[i] == 1 ? zero : p->at[i];
  in[n++] = along_k ? at : k0, in[n++] = along_k ? k0 : at;
  ts_gpu_say(&p->b, TS_TILE_copy_bulk, n, in, TS_GPU_SET({"shape", ts_gpu_list(2, shape)}),
             NULL);
}

/* A stage: from row m of A and the tile's column of B on, along k from k on. */
static void fetch_both(Product *p, V a, V b, V s, V m, V k) {
  const TsGpuProduct *x = &p->x;
  int64_t bytes = (p->rows + x->cols) * x->depth * ts_dtypes[x->in].nbytes;
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->full, s),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->full, s), 0, NULL, NULL);
  fetch(p, p->sa, a, !x->transposed_a, m, k, p->rows, s);
  fetch(p, p->sb, b, x->transposed_b, p->n0, k, x->cols, s);
}

/* Stages of a group's rows, the last one from where there are zeros behind it. */
static void fetch_rows(Product *p, V s, V k0) {
  TsTileRegion *before = p->b.at;
  V at = op2(p, TS_OP_add, p->from, k0), last = by(p, TS_OP_mul, p->at[0], p->x.depth);
  if (!p->tail[0]) {
    fetch_both(p, p->a, p->bm, s, p->m0, at);
    return;
  }
  V whole = op2(p, TS_OP_le, by(p, TS_OP_add, k0, p->x.depth), p->k);
  TsTileStmt *which = whole ? ts_tile_emit(&p->b, TS_TILE_if, 1, &whole, NULL, 0, NULL) : NULL;
  if (!which) return;
  p->b.at = which->region[0];
  fetch_both(p, p->a, p->bm, s, p->m0, at);
  p->b.at = which->region[1];
  fetch_both(p, p->tail[0], p->tail[1], s, p->m0, last);
  p->b.at = before;
}

static void fetch_stage(Product *p, V s, V parity, V k0) {
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->empty, s, parity), 0, NULL, NULL);
  if (p->x.ragged == TS_GPU_RAGGED_depth)
    fetch_rows(p, s, k0);
  else
    fetch_both(p, p->a, p->bm, s, p->x.ragged ? p->from : p->m0, k0);
}

/* Of 65536 for a block, in steps of 8; with one group of warps there are enough for all. */
static void registers(Product *p, bool loads) {
  static const int pool[4][2] = {{24, 240}, {0, 0}, {40, 232}, {32, 160}};
  int groups = p->unit ? p->x.rows / TS_GPU_GROUP_ROWS : 0;
  bool more = groups == 2 && p->x.late && !p->x.limit;
  int n = pool[more ? 0 : groups][loads ? 0 : 1];
  if (n)
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
  V left = op2(p, TS_OP_sub, p->full_rounds, p->nth);
  V once = by(p, TS_OP_maximum, by(p, TS_OP_minimum, left, 1), 0);
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), once, 1, false, 0, NULL);
  if (!l.stmt) return;
  V step = op2(p, TS_OP_add, op2(p, TS_OP_mul, p->nth, chunks), first);
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
static void prefetch_pieces(Product *p) {
  int pieces = ts_gpu_product_pieces(p);
  int64_t bytes = p->rows * TS_GPU_PATTERN, shape[2] = {p->rows, p->width};
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), number(p, pieces), 1, false, 0, NULL);
  if (!l.stmt) return;
  V zero = number(p, 0), n = op2(p, TS_OP_add, p->n0, by(p, TS_OP_mul, l.i, p->width));
  V parity = by(p, TS_OP_bitwise_and, p->nth, 1);
  ts_gpu_say(&p->b, TS_TILE_await, TS_GPU_IN(p->room, l.i, parity), 0, NULL, NULL);
  ts_gpu_say(&p->b, TS_TILE_expect, TS_GPU_IN(p->came, l.i),
             TS_GPU_SET({"bytes", ts_gpu_whole(bytes)}), NULL);
  ts_gpu_say(&p->b, TS_TILE_arrive, TS_GPU_IN(p->came, l.i), 0, NULL, NULL);
  ts_gpu_say(&p->b, TS_TILE_copy_bulk,
             TS_GPU_IN(p->sc, p->param[p->prefetched], p->came, l.i, l.i, zero, zero, p->m0, n),
             TS_GPU_SET({"shape", ts_gpu_list(2, shape)}), NULL);
  ts_tile_for_end(&p->b, &l, NULL, NULL);
}

/* The first stages go before: others still work on the tile before. */
static void fetch_around(Product *p, const V *carry, V *out) {
  V all = stages_of_tile(p), some = by(p, TS_OP_minimum, all, p->x.stages), middle[2] = {0};
  fetch_stages(p, number(p, 0), some, carry, middle);
  prefetch_pieces(p);
  fetch_stages(p, some, all, middle, out);
}

static void load_role(Product *p) {
  TsTileRegion *before = ts_gpu_role(&p->b, "load", LOAD_WARPS);
  registers(p, true);
  if (p->clock)
    ts_gpu_plain(&p->b, TS_TILE_await_launch); /* the launch before has the same clock */
  TsTileLoop l = tiles(p, number(p, 0), number(p, 1));
  V out[2] = {0};
  if (!l.stmt) return;
  if (p->clock)
    fetch_in_step(p, l.carry, out);
  else if (p->prefetched)
    fetch_around(p, l.carry, out);
  else
    fetch_stages(p, number(p, 0), stages_of_tile(p), l.carry, out);
  ts_tile_for_end(&p->b, &l, out, NULL);
  if (p->clock)
    ts_gpu_say(&p->b, TS_TILE_pace, TS_GPU_IN(p->clock, number(p, 0), p->p),
               TS_GPU_SET({"end", (TsAttr){.type = TS_ATTR_bool, .i = 1}}), NULL);
  p->b.at = before;
}

static void mma_role(Product *p) {
  TsTileRegion *before = ts_gpu_role(&p->b, "mma", ts_gpu_sums_warps(p));
  registers(p, false);
  if (p->x.late) {
    ts_gpu_late_role(p);
    p->b.at = before;
    return;
  }
  TsTileLoop l = tiles(p, number(p, 0), number(p, 0));
  if (!l.stmt) return;
  V s = l.carry[0], parity = l.carry[1];
  if (p->prefetched) ts_gpu_rows_room(p);
  ts_gpu_rows_fetch(p);
  V acc = p->unit ? ts_gpu_sums_unit(p, &s, &parity) : ts_gpu_sums_fma(p, &s, &parity);
  ts_gpu_rows_wait(p);
  ts_gpu_rows_all(p, acc);
  ts_tile_for_end(&p->b, &l, (V[]){s, parity}, NULL);
  if (p->unit) ts_gpu_wait(&p->b, TS_GPU_STORES, 0);
  p->b.at = before;
}

/* ---- the kernel */
int ts_gpu_product_prefetched(const TsGpuProduct *x) {
  const TsGpuEpilogue *f = x->epilogue;
  int found = 0;
  if (!f || x->late || x->limit) return 0;
  if (f->nout != 1 || ts_dtypes[x->out].nbytes != 2) return 0;
  for (int i = 2; i < f->block->nin; i++) {
    const TsTileType *t = &f->block->param[i]->type;
    if (t->rank == 2 && (found || (TsDtype)t->dtype != x->out)) return 0;
    if (t->rank == 2) found = i;
  }
  return found;
}

static bool ragged_fits(const TsGpuProduct *x) {
  bool plain = !x->epilogue && !x->bias && !x->residual && !x->activation && !x->late;
  bool laid_out =
      x->ragged == TS_GPU_RAGGED_rows ? !x->transposed_a : x->transposed_a && !x->transposed_b;
  return plain && laid_out && !x->batch && !x->limit && x->cluster == 1;
}

static int legal(const TsGpuProduct *x, bool unit, TsError *err) {
  int bytes = ts_dtypes[x->in].nbytes;
  bool eight = bytes == 1;
  bool narrow = bytes == 2 || ((eight || x->tf32) && !x->transposed_a && x->transposed_b);
  bool out = x->out == TS_DT_f32 || (eight ? ts_dtypes[x->out].nbytes == 2 : x->out == x->in);
  if (x->in == TS_DT_i8) out = x->out == TS_DT_i32;
  bool wide = x->in == TS_DT_f32 || x->in == TS_DT_f64;
  bool fits = unit ? narrow && x->rows % TS_GPU_GROUP_ROWS == 0 &&
                         x->rows <= 3 * TS_GPU_GROUP_ROWS && x->cols % 64 == 0 &&
                         x->cols <= 256 && x->depth * bytes == TS_GPU_PATTERN && out &&
                         (x->buffers == 1 || x->buffers == 2)
                   : wide && x->out == x->in && x->depth * bytes == 64 && x->cluster == 1 &&
                         ts_gpu_chain_fits(x->in, x->rows, x->cols);
  if (x->batch) fits = fits && !x->epilogue && !x->bias && !x->residual && !x->limit;
  if (x->batch) fits = fits && x->a.row && x->b.row;
  if (x->ragged) fits = fits && ragged_fits(x);
  if (x->late) fits = fits && ts_gpu_product_can_be_late(x);
  if (x->epilogue) fits = fits && unit && !x->bias && !x->residual && !x->activation;
  fits = fits && x->stages > 1 && x->group > 0 && (x->cluster == 1 || x->cluster == 2);
  if (fits) return 0;
  return ts_error_set(err, TS_ERR_argument, "no product of %s to %s in tiles of %dx%dx%d",
                      ts_dtype_name(x->in), ts_dtype_name(x->out), x->rows, x->cols, x->depth);
}

static void head(const Product *p) {
  TsTile *k = p->b.k;
  const TsGpuProduct *x = &p->x;
  k->form = TS_FORM_explicit;
  k->target = ts_target_with(TS_UNIT_roles)->name;
  k->ntile = 3;
  k->tile[0] = p->rows, k->tile[1] = x->cols, k->tile[2] = x->depth;
  k->stages = x->stages;
  k->threads = 32 * (ts_gpu_sums_warps(p) + LOAD_WARPS);
  k->cluster = x->cluster > 1 ? x->cluster : 0;
}

static void body(Product *p) {
  sizes(p);
  if (p->x.limit) {
    TsTileType t = ts_tile_vector(TS_DT_i32, 3);
    p->clock = ts_gpu_named(ts_tile_alloc(&p->b, TS_SPACE_scratch, &t), "clock");
    p->full_rounds = ts_gpu_named(op2(p, TS_OP_floordiv, p->total, p->p), "full_rounds");
  }
  TsTileLoop grid = ts_tile_for(&p->b, number(p, 0), p->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  p->round = grid.i;
  if (p->x.ragged) find_items(p);
  p->rounds = ts_gpu_named(div_up(p, op2(p, TS_OP_sub, p->total, grid.i), p->p), "rounds");
  block_memory(p);
  load_role(p);
  mma_role(p);
  ts_tile_for_end(&p->b, &grid, NULL, NULL);
}

TsTile *ts_tile_gpu_product(const TsGpuProduct *x, TsError *err) {
  bool unit = ts_dtypes[x->in].nbytes <= 2 || x->tf32;
  if (legal(x, unit, err)) return NULL;
  TsTile *k = ts_tile_new("matmul");
  if (!k) return ts_error_memory(err), NULL;
  Product p = {.x = *x, .unit = unit, .rows = (int64_t)x->rows * x->cluster};
  p.width = TS_GPU_PATTERN / ts_dtypes[x->out].nbytes;
  p.b = ts_tile_build(k);
  p.prefetched = ts_gpu_product_prefetched(x);
  params(&p);
  head(&p);
  if (x->epilogue) {
    V *made = calloc(x->epilogue->block->nvalue + 1, sizeof *made);
    p.rows_of = (TsGpuEpiloguePiece){.f = x->epilogue,
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
  return ts_error_memory(err), NULL;
}
