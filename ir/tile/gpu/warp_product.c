/* The explicit form of a matrix product for warps that copy and multiply:
 * ir/tile/gpu/warp_product.h.
 *
 * A block has one role. Stages of A and B are on their way to shared memory (cp.async) while
 * the one that came longest ago is multiplied, in steps of the unit. Operands are read one step
 * ahead of their product. Before the last step of a stage all warps meet, when the next stage
 * has come: its first operands are read beside that step, so that the unit does not wait for
 * them, and the stage that all have left is filled again in the next round, in parts between
 * the products: copies and loads of operands do not queue up in front of each other.
 *
 * Copies have a place of their own in the work (the cursor), some stages further on: across
 * tiles of the block too, so that the first stages of the next tile come in while the sums of
 * this one are stored. Behind the last tile they are asked for outside of the matrices, which
 * costs no memory.
 *
 * The order of sums is k ascending, in steps of the instruction; no tile changes it. */
#include "ir/tile/gpu/warp_product.h"

#include <stdlib.h>
#include <string.h>

#include "ir/tile/gpu/build.h"

enum { PATTERN = TS_GPU_PATTERN, STEP = 32 /* bytes along k of one instruction */, CURSOR = 6 };

typedef TsTileVal V;

/* Where copies are: which of the block's tiles, its corner, along k, the slot to fill. With
 * groups, where the group's matrix of B begins, or where it ends along k. */
enum { C_nth, C_m, C_n, C_k, C_slot, C_more };

/* What a tile carries to the next: the slot that is multiplied, the cursor, and of the unit
 * operands of the next step; by their numbers behind the sums. */
enum { CARRIED = 3 + CURSOR };

typedef struct Product {
  TsGpuWarpProduct x;
  TsTileBuild b;
  bool fma;
  int cursor;                            /* numbers of it */
  int64_t piece;                         /* columns of the sums that are stored at a time */
  V a, bm, bias, residual, c;            /* memory */
  V m, n, k, p, tm, tn, total, nk, span; /* sizes */
  V round, rounds, m0, n0;
  V places, items, wide; /* of groups; rows of a matrix of B, or of C */
  V row, end;            /* of this tile in C */
  V length;              /* along k, of this tile */
  V sa, sb;
  TsGpuEpiloguePiece rows_of;
  V param[TS_GPU_EPILOGUE_PARAMS];
} Product;

/* ---- short forms */
static V number(Product *p, int64_t i) { return ts_tile_index(&p->b, i); }
static V op2(Product *p, int op, V x, V y) { return ts_tile_op2(&p->b, op, x, y); }
static V by(Product *p, int op, V x, int64_t y) { return ts_gpu_by(&p->b, op, x, y); }
static V place(Product *p, TsGpuPlace kind, V item) {
  return ts_gpu_place(&p->b, p->places, p->items, kind, item);
}
static int bytes_of(const Product *p) { return ts_dtypes[p->x.in].nbytes; }

/* ---- the kernel's parameters and memory */
static V operand(Product *p, const char *name, bool transposed, int64_t rows, int64_t cols) {
  return ts_gpu_matrix(&p->b, name, p->x.in, transposed ? cols : rows, transposed ? rows : cols,
                       false);
}

/* size: M, N, K; of all places, and rows of all matrices. */
static void ragged_params(Product *p, const int64_t *size, int64_t all, int64_t rows) {
  const TsGpuWarpProduct *x = &p->x;
  int64_t m = size[0], n = size[1], k = size[2];
  bool depth = x->ragged == TS_GPU_RAGGED_depth;
  TsTileType places = ts_tile_vector(TS_DT_i64, all);
  p->bm = ts_gpu_matrix(&p->b, "b", x->in, depth ? k : rows, !depth && x->transposed_b ? k : n,
                        false);
  p->places = ts_tile_param(p->b.k, "places", &places, false);
  p->c = ts_gpu_matrix(&p->b, "c", x->out, depth ? rows : m, n, true);
}

static void params(Product *p) {
  TsTile *k = p->b.k;
  const TsGpuWarpProduct *x = &p->x;
  int64_t m = ts_tile_size(k, "M"), n = ts_tile_size(k, "N"), kk = ts_tile_size(k, "K");
  int64_t all = x->ragged ? ts_tile_size(k, "I") : 0;
  int64_t rows = x->ragged ? ts_tile_size(k, "R") : 0;
  ts_tile_size(k, "P");
  p->a = operand(p, "a", x->transposed_a, m, kk);
  if (x->ragged) {
    ragged_params(p, (int64_t[]){m, n, kk}, all, rows);
    return;
  }
  p->bm = operand(p, "b", x->transposed_b, kk, n);
  if (x->epilogue)
    ts_gpu_epilogue_params(x->epilogue, k, m, n, (V[]){p->a, p->bm}, p->param);
  else
    ts_gpu_named_params(&p->b, x->out, m, n, x->bias ? &p->bias : NULL,
                        x->residual ? &p->residual : NULL, &p->c);
}

/* How many tiles there are: rows of them are items, or those of all groups. */
static void find_items(Product *p) {
  bool depth = p->x.ragged == TS_GPU_RAGGED_depth;
  p->items = ts_gpu_items(&p->b, ts_gpu_size(&p->b, 3, "i"));
  p->wide = depth ? p->m : p->x.transposed_b ? p->n : p->k;
  V count = place(p, TS_GPU_PLACE_count, number(p, 0));
  p->tm = ts_gpu_named(depth ? op2(p, TS_OP_mul, p->tm, count) : count, "tm");
  p->total = ts_gpu_named(op2(p, TS_OP_mul, p->tm, p->tn), "total");
}

static void sizes(Product *p) {
  static const char *const names[3] = {"m", "n", "k"};
  V *const to[3] = {&p->m, &p->n, &p->k};
  const TsGpuWarpProduct *x = &p->x;
  for (int i = 0; i < 3; i++) *to[i] = ts_gpu_size(&p->b, i, names[i]);
  p->p = ts_gpu_size(&p->b, x->ragged ? 5 : 3, "p");
  p->tm = ts_gpu_named(ts_gpu_div_up(&p->b, p->m, x->rows), "tm");
  p->tn = ts_gpu_named(ts_gpu_div_up(&p->b, p->n, x->cols), "tn");
  p->length = p->k;
  p->total = ts_gpu_named(op2(p, TS_OP_mul, p->tm, p->tn), "total");
  V whole = p->fma ? by(p, TS_OP_floordiv, p->k, x->depth)
                   : by(p, TS_OP_maximum, ts_gpu_div_up(&p->b, p->k, x->depth), 1);
  p->nk = ts_gpu_named(whole, "nk");
  p->span = ts_gpu_named(by(p, TS_OP_mul, p->tn, x->group), "span");
  ts_gpu_order(p->b.k, "bands", x->group);
}

/* Stages of an operand. Rows of 128 bytes lie in the pattern that loads of 8x8 matrices read
 * without two of one bank; multiply-adds read rows of 64 bytes along k, or straight lines. */
static V stages(Product *p, const char *name, int64_t wide, bool along_k) {
  int64_t depth = p->x.depth,
          dim[3] = {p->x.stages, along_k ? wide : depth, along_k ? depth : wide};
  int swizzle = !p->fma ? PATTERN : along_k ? PATTERN / 2 : 0;
  return ts_gpu_shared(&p->b, name, p->x.in, 3, dim, swizzle);
}

/* ---- where a tile is */
/* Of a tile: its row of A and its column. With groups where k begins, C_more, and its row of C and
 * where the group's rows end there. */
typedef struct Corner {
  V m, n, k, more, row, end;
} Corner;

/* An item is a tile's rows. */
static void rows_of_item(Product *p, V item, Corner *c) {
  c->m = place(p, TS_GPU_PLACE_from, item);
  c->row = place(p, TS_GPU_PLACE_row, item), c->end = place(p, TS_GPU_PLACE_end, item);
  c->more = op2(p, TS_OP_mul, place(p, TS_GPU_PLACE_group, item), p->wide);
}

/* Rows of all groups' tiles are one behind the other: of which group, and where that is. */
static void depth_of_group(Product *p, V row, Corner *c) {
  V each = ts_gpu_div_up(&p->b, p->m, p->x.rows), group = op2(p, TS_OP_floordiv, row, each);
  V in = op2(p, TS_OP_sub, row, op2(p, TS_OP_mul, group, each));
  V above = op2(p, TS_OP_mul, group, p->wide);
  c->m = by(p, TS_OP_mul, in, p->x.rows);
  c->k = place(p, TS_GPU_PLACE_row, group), c->more = place(p, TS_GPU_PLACE_end, group);
  c->row = op2(p, TS_OP_add, above, c->m), c->end = op2(p, TS_OP_add, above, p->wide);
}

/* Of tile number t: down a group of rows, then the next column. */
static Corner corner(Product *p, V t) {
  const TsGpuWarpProduct *x = &p->x;
  V g = op2(p, TS_OP_floordiv, t, p->span);
  V in = op2(p, TS_OP_sub, t, op2(p, TS_OP_mul, g, p->span));
  V first = by(p, TS_OP_mul, g, x->group);
  V high = by(p, TS_OP_minimum, op2(p, TS_OP_sub, p->tm, first), x->group);
  V col = op2(p, TS_OP_floordiv, in, high);
  V row = op2(p, TS_OP_sub, in, op2(p, TS_OP_mul, col, high));
  row = op2(p, TS_OP_add, first, row);
  Corner c = {.m = x->ragged ? NULL : by(p, TS_OP_mul, row, x->rows),
              .n = by(p, TS_OP_mul, col, x->cols)};
  if (x->ragged == TS_GPU_RAGGED_rows) rows_of_item(p, row, &c);
  if (x->ragged == TS_GPU_RAGGED_depth) depth_of_group(p, row, &c);
  return c;
}

static V tile_of(Product *p, V nth) {
  return op2(p, TS_OP_add, p->round, op2(p, TS_OP_mul, nth, p->p));
}

static void yield(Product *p, int n, const V *v) {
  ts_gpu_say(&p->b, TS_TILE_yield, n, v, TS_GPU_PLAIN, NULL);
}

/* An if that gives n positions; the builder stands in its first way. */
static TsTileStmt *either(Product *p, V condition, int n) {
  TsTileType type[CURSOR];
  for (int i = 0; i < n; i++) type[i] = ts_tile_scalar(TS_DT_i64);
  TsTileStmt *s =
      condition ? ts_tile_emit(&p->b, TS_TILE_if, 1, &condition, NULL, n, type) : NULL;
  if (s) p->b.at = s->region[0];
  return s;
}

/* Moves copies to the corner of the block's tile number turn, outside of the result if there is
 * none. */
static void corner_of_nth(Product *p, V nth, V *c) {
  TsTileRegion *before = p->b.at;
  int n = p->x.ragged ? 4 : 2;
  TsTileStmt *s = either(p, op2(p, TS_OP_lt, nth, p->rounds), n);
  if (!s) return;
  Corner at = corner(p, tile_of(p, nth));
  if (n > 2 && !at.k) at.k = number(p, 0);
  yield(p, n, (V[]){at.m, at.n, at.k, at.more});
  p->b.at = s->region[1];
  V none = n > 2 ? number(p, 0) : NULL, rows = n > 2 ? ts_gpu_size(&p->b, 4, "r") : NULL;
  yield(p, n, (V[]){p->m, p->n, none, rows});
  p->b.at = before;
  c[C_nth] = nth, c[C_m] = s->out[0], c[C_n] = s->out[1];
  c[C_k] = n > 2 ? s->out[2] : number(p, 0);
  if (n > 2) c[C_more] = s->out[3];
}

/* ---- copies */
static void copy_piece(Product *p, V to, V from, bool along_k, V at, const V *c, int64_t wide,
                       int piece, int pieces) {
  bool moves = p->x.ragged == TS_GPU_RAGGED_rows && from == p->bm;
  int64_t rows = along_k ? wide : p->x.depth, cols = along_k ? p->x.depth : wide;
  int64_t shape[2] = {rows / pieces, cols}, first = piece * shape[0];
  V row = along_k ? at : c[C_k], col = along_k ? c[C_k] : at;
  if (moves) row = op2(p, TS_OP_add, row, c[C_more]);
  if (first) row = by(p, TS_OP_add, row, first);
  ts_gpu_say(&p->b, TS_TILE_copy_async,
             TS_GPU_IN(to, from, c[C_slot], number(p, first), number(p, 0), row, col),
             TS_GPU_SET({"bytes", ts_gpu_whole(p->x.bytes)}, {"shape", ts_gpu_list(2, shape)}),
             NULL);
}

/* As many parts as pieces, or fewer, so that all threads have a copy of each. */
static int parts_of(const Product *p, int64_t wide, int pieces) {
  int64_t copies = wide * p->x.depth * bytes_of(p) / p->x.bytes, threads = 32 * p->x.warps;
  while (pieces > 1 && copies / pieces < threads) pieces /= 2;
  return pieces;
}

static void copy_pieces(Product *p, const V *c, int piece, int pieces) {
  const TsGpuWarpProduct *x = &p->x;
  int a = parts_of(p, x->rows, pieces), b = parts_of(p, x->cols, pieces);
  if (piece < a) copy_piece(p, p->sa, p->a, !x->transposed_a, c[C_m], c, x->rows, piece, a);
  if (piece < b) copy_piece(p, p->sb, p->bm, x->transposed_b, c[C_n], c, x->cols, piece, b);
}

static V next_slot(Product *p, V slot) {
  V next = by(p, TS_OP_add, slot, 1);
  return ts_tile_op3(&p->b, TS_OP_where, by(p, TS_OP_eq, next, p->x.stages), number(p, 0),
                     next);
}

/* To the next stage: along k, or the block's next tile. */
static void advance(Product *p, V *c) {
  TsTileRegion *before = p->b.at;
  V k = by(p, TS_OP_add, c[C_k], p->x.depth), slot = next_slot(p, c[C_slot]), next[CURSOR];
  V end = p->x.ragged == TS_GPU_RAGGED_depth ? c[C_more] : p->k;
  int n = p->cursor - 1; /* all but the slot */
  TsTileStmt *s = either(p, op2(p, TS_OP_lt, k, end), n);
  if (!s) return;
  yield(p, n, (V[]){c[C_nth], c[C_m], c[C_n], k, c[C_more]});
  p->b.at = s->region[1];
  corner_of_nth(p, by(p, TS_OP_add, c[C_nth], 1), next);
  yield(p, n, (V[]){next[C_nth], next[C_m], next[C_n], next[C_k], next[C_more]});
  p->b.at = before;
  for (int i = 0; i < 4; i++) c[i] = s->out[i];
  if (n > 4) c[C_more] = s->out[4];
  c[C_slot] = slot;
}

/* All stages but one are under way before the first product. */
static void first_copies(Product *p, V *c) {
  corner_of_nth(p, number(p, 0), c);
  c[C_slot] = number(p, 0);
  for (int i = 0; i + 1 < p->x.stages; i++) {
    copy_pieces(p, c, 0, 1);
    ts_gpu_commit(&p->b, 0);
    advance(p, c);
  }
}

/* A stage is there, and everybody has left the one before it. */
static void meet(Product *p) {
  ts_gpu_wait(&p->b, 0, p->x.stages - 2);
  ts_gpu_say(&p->b, TS_TILE_barrier, TS_GPU_PLAIN,
             TS_GPU_SET({"threads", ts_gpu_whole(32 * p->x.warps)}), NULL);
}

/* ---- products */
static V fragment(Product *p, V memory, const V *at, int64_t rows, int64_t cols,
                  const int64_t *axes) {
  TsTileType t = ts_gpu_fragment((TsDtype)memory->type.dtype, rows, cols);
  TsTileAccess access = {.naxis = axes ? t.rank : 0, .axes = axes};
  return ts_tile_load(&p->b, memory, at, &t, axes ? &access : NULL);
}

/* depth steps of k of a stage, from `k` on. */
static const int64_t transposed[2] = {2, 1};
static V of_a(Product *p, V slot, int64_t k, int64_t depth) {
  bool t = p->x.transposed_a;
  V at[3] = {slot, number(p, t ? k : 0), number(p, t ? 0 : k)};
  return fragment(p, p->sa, at, p->x.rows, depth, t ? transposed : NULL);
}

static V of_b(Product *p, V slot, int64_t k, int64_t depth) {
  bool t = p->x.transposed_b;
  V at[3] = {slot, number(p, t ? 0 : k), number(p, t ? k : 0)};
  return fragment(p, p->sb, at, depth, p->x.cols, t ? transposed : NULL);
}

static V multiply(Product *p, V a, V b, V acc) {
  static const char *const name[] = {"mma", "tf32", "fma"};
  if (!acc) return NULL;
  return ts_gpu_give(&p->b, TS_TILE_mma, TS_GPU_IN(a, b, acc),
                     TS_GPU_SET({"unit", ts_gpu_word(name[p->x.unit])}), &acc->type);
}

/* Copies stand behind the first steps; they are all asked for before the last one. */
static void copy_between(Product *p, const V *c, int step, int steps) {
  for (int piece = 0; piece < steps; piece++)
    if ((piece < steps - 1 ? piece : 0) == step) copy_pieces(p, c, piece, steps);
  if (step == steps - 2) ts_gpu_commit(&p->b, 0);
}

static int left_of(const Product *p) { return 2 + p->cursor; }

/* A stage in steps. v: the sums, the slot, the cursor, operands of the first step, which become
 * those of the next stage. */
static void unit_stage(Product *p, V *v) {
  int64_t step = STEP / bytes_of(p);
  int n = (int)(p->x.depth / step);
  V slot = v[1], later = next_slot(p, slot), a = v[left_of(p)], b = v[left_of(p) + 1];
  for (int i = 0; i < n; i++) {
    bool last = i + 1 == n;
    V now_a = a, now_b = b;
    if (last) meet(p);
    a = of_a(p, last ? later : slot, last ? 0 : (i + 1) * step, step);
    b = of_b(p, last ? later : slot, last ? 0 : (i + 1) * step, step);
    copy_between(p, v + 2, i, n);
    v[0] = multiply(p, now_a, now_b, v[0]);
  }
  v[1] = later, v[left_of(p)] = a, v[left_of(p) + 1] = b;
}

static void fma_stage(Product *p, V *v) {
  meet(p);
  copy_pieces(p, v + 2, 0, 1);
  ts_gpu_commit(&p->b, 0);
  V a = of_a(p, v[1], 0, p->x.depth), b = of_b(p, v[1], 0, p->x.depth);
  v[0] = multiply(p, a, b, v[0]);
  v[1] = next_slot(p, v[1]);
}

static int carried(const Product *p) { return p->cursor + (p->fma ? 1 : 3); }
static TsDtype sum_of(const TsGpuWarpProduct *x) {
  return x->in == TS_DT_f64 ? TS_DT_f64 : x->in == TS_DT_i8 ? TS_DT_i32 : TS_DT_f32;
}

/* The loop along k. carry: the slot that is multiplied, the cursor, operands. */
static V stages_of_tile(Product *p, V *carry) {
  TsTileType t = ts_gpu_fragment(sum_of(&p->x), p->x.rows, p->x.cols);
  int n = carried(p);
  V next[1 + CARRIED] = {ts_tile_const(&p->b, 0, &t)}, out[1 + CARRIED] = {NULL};
  memcpy(next + 1, carry, sizeof *carry * (size_t)n);
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->nk, 1, false, 1 + n, next);
  if (!l.stmt) return NULL;
  memcpy(next, l.carry, sizeof *next * (size_t)(1 + n));
  (p->fma ? fma_stage : unit_stage)(p, next);
  advance(p, next + 2);
  ts_tile_for_end(&p->b, &l, next, out);
  memcpy(carry, out + 1, sizeof *carry * (size_t)n);
  return out[0];
}

/* One step of the last stage, which k does not fill. */
static V rest_step(Product *p, V slot, V i, V acc) {
  const TsGpuWarpProduct *x = &p->x;
  V zero = number(p, 0);
  int64_t wide_a = x->transposed_a ? 2 : 1, wide_b = x->transposed_b ? 1 : 2;
  V a = fragment(p, p->sa, x->transposed_a ? (V[]){slot, i, zero} : (V[]){slot, zero, i},
                 x->rows, 0, &wide_a);
  V b = fragment(p, p->sb, x->transposed_b ? (V[]){slot, zero, i} : (V[]){slot, i, zero},
                 x->cols, 0, &wide_b);
  return acc ? ts_tile_emit1(&p->b, TS_TILE_outer, 3, (V[]){a, b, acc}, NULL, &acc->type)
             : NULL;
}

/* The rest of k, step by step: zeros behind its end would turn a sum of -0 into +0. A loop of
 * one round or none around it, so that nothing is decided twice. */
static V rest(Product *p, V acc, V *carry) {
  V some = op2(p, TS_OP_sub, p->length, by(p, TS_OP_mul, p->nk, p->x.depth));
  V any = by(p, TS_OP_minimum, some, 1);
  V first[2 + CURSOR] = {acc}, out[2 + CURSOR] = {NULL}, sum;
  size_t bytes = sizeof *carry * (1 + (size_t)p->cursor);
  if (p->x.ragged == TS_GPU_RAGGED_depth) /* of an empty group a stage came as well */
    any = op2(p, TS_OP_maximum, any, op2(p, TS_OP_sub, number(p, 1), p->nk));
  memcpy(first + 1, carry, bytes);
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), any, 1, false, 2 + p->cursor, first);
  if (!l.stmt) return NULL;
  V next[2 + CURSOR];
  memcpy(next, l.carry, bytes + sizeof *next);
  meet(p);
  copy_pieces(p, l.carry + 2, 0, 1);
  ts_gpu_commit(&p->b, 0);
  TsTileLoop step = ts_tile_for(&p->b, number(p, 0), some, 1, false, 1, l.carry);
  if (!step.stmt) return NULL;
  sum = rest_step(p, l.carry[1], step.i, step.carry[0]);
  ts_tile_for_end(&p->b, &step, &sum, &next[0]);
  next[1] = next_slot(p, l.carry[1]);
  advance(p, next + 2);
  ts_tile_for_end(&p->b, &l, next, out);
  memcpy(carry, out + 1, bytes);
  return out[0];
}

/* ---- what follows */
static V widened(Product *p, V x, const TsTileType *t) {
  return ts_tile_cast(&p->b, x, (TsDtype)t->dtype);
}

/* Pointwise rows on some columns of the sums, which begin at column n of the result. */
static V named_rows(Product *p, V x, V n) {
  TsTileType t = x->type, line = ts_tile_vector(p->x.out, t.dim[1]);
  TsTileAccess edge = {.edge = true};
  line.space = TS_SPACE_fragment;
  if (p->bias) {
    V v = widened(p, ts_tile_load(&p->b, p->bias, &n, &line, &edge), &t);
    x = op2(p, TS_OP_add, x, ts_tile_broadcast(&p->b, v, &t, (int64_t[]){1}));
  }
  if (p->x.activation) x = ts_tile_op1(&p->b, p->x.activation, x);
  if (p->residual) {
    V r = ts_tile_load(&p->b, p->residual, (V[]){p->m0, n}, &t, &edge);
    TsTileType of = t;
    of.dtype = (uint8_t)p->x.out;
    if (p->x.out != (TsDtype)t.dtype)
      r = ts_tile_load(&p->b, p->residual, (V[]){p->m0, n}, &of, &edge);
    x = op2(p, TS_OP_add, x, widened(p, r, &t));
  }
  return ts_tile_cast(&p->b, x, p->x.out);
}

static void store(Product *p, V to, V n, V y) {
  TsTileAccess edge = {.edge = true};
  if (p->x.ragged)
    ts_gpu_store_below(&p->b, to, p->row, n, p->end, y);
  else
    ts_tile_store(&p->b, to, (V[]){p->m0, n}, y, &edge);
}

/* Rows of a block form. */
static void block_rows(Product *p, V x, V n) {
  const TsGpuEpilogue *f = p->x.epilogue;
  ts_gpu_epilogue_begin(&p->rows_of, p->m0, n, NULL);
  p->rows_of.made[f->mma->out[0]->id] = x;
  for (int i = 0; i < f->nout; i++)
    store(p, p->param[f->to[i]->index], n, ts_gpu_epilogue(&p->rows_of, f->out[i]));
}

static void epilogue(Product *p, V acc) {
  for (int64_t at = 0; acc && at < p->x.cols; at += p->piece) {
    V n = at ? by(p, TS_OP_add, p->n0, at) : p->n0;
    V x = p->piece < p->x.cols ? ts_gpu_span(&p->b, acc, at, p->piece) : acc;
    if (p->x.epilogue)
      block_rows(p, x, n);
    else
      store(p, p->c, n, named_rows(p, x, n));
  }
}

static void begin_tile(Product *p, V t) {
  Corner c = corner(p, t);
  p->row = c.row, p->end = c.end;
  p->m0 = ts_gpu_named(c.m, "m0"), p->n0 = ts_gpu_named(c.n, "n0");
  if (p->x.ragged != TS_GPU_RAGGED_depth) return;
  p->length = ts_gpu_named(op2(p, TS_OP_sub, c.more, c.k), "length");
  p->nk = ts_gpu_named(by(p, TS_OP_floordiv, p->length, p->x.depth), "nk");
}

static void role(Product *p) {
  V next[CARRIED] = {number(p, 0)};
  int64_t step = STEP / bytes_of(p);
  TsTileRegion *before = ts_gpu_role(&p->b, "mma", p->x.warps);
  first_copies(p, next + 1);
  if (!p->fma) {
    meet(p);
    V *held = next + left_of(p) - 1;
    held[0] = of_a(p, next[0], 0, step), held[1] = of_b(p, next[0], 0, step);
  }
  TsTileLoop l = ts_tile_for(&p->b, number(p, 0), p->rounds, 1, false, carried(p), next);
  if (!l.stmt) return;
  begin_tile(p, tile_of(p, l.i));
  memcpy(next, l.carry, sizeof *next * (size_t)carried(p));
  V acc = stages_of_tile(p, next);
  if (p->fma) acc = rest(p, acc, next);
  epilogue(p, acc);
  ts_tile_for_end(&p->b, &l, next, NULL);
  ts_gpu_wait(&p->b, 0, 0);
  p->b.at = before;
}

/* ---- the kernel */
static int refuse(const TsGpuWarpProduct *x, TsError *err) {
  return ts_error_set(err, TS_ERR_argument, "no product of %s to %s in tiles of %dx%dx%d",
                      ts_dtype_name(x->in), ts_dtype_name(x->out), x->rows, x->cols, x->depth);
}

static bool good_types(const TsGpuWarpProduct *x) {
  bool half = x->in == TS_DT_bf16 || x->in == TS_DT_f16;
  bool out = x->out == x->in || x->out == TS_DT_f32;
  switch (x->unit) {
  case TS_GPU_UNIT_mma:
    if (x->in == TS_DT_i8)
      return !x->transposed_a && x->transposed_b && x->out == TS_DT_i32 && !x->epilogue;
    return half && out;
  case TS_GPU_UNIT_tf32: return x->in == TS_DT_f32 && x->out == x->in;
  default: return half ? out : (x->in == TS_DT_f32 || x->in == TS_DT_f64) && x->out == x->in;
  }
}

static bool ragged_fits(const TsGpuWarpProduct *x, bool fma) {
  bool plain = !x->epilogue && !x->bias && !x->residual && !x->activation;
  if (x->ragged == TS_GPU_RAGGED_rows) return plain && !x->transposed_a;
  return plain && fma && x->transposed_a && !x->transposed_b;
}

static int legal(const TsGpuWarpProduct *x, TsError *err) {
  int bytes = ts_dtypes[x->in].nbytes, high = x->rows > 64 ? x->rows / 64 : 1;
  int across = ts_gpu_warps_across(x->rows, x->warps);
  bool fma = x->unit == TS_GPU_UNIT_fma;
  bool fits = fma ? x->depth * bytes == PATTERN / 2 : x->depth * bytes == PATTERN;
  fits = fits && good_types(x) && x->stages > 1 && x->group > 0 && x->warps > 0;
  if (!fma)
    fits = fits && x->rows % 16 == 0 && x->warps % high == 0 && across <= 8 &&
           x->cols % (16 * across) == 0 && x->rows % high == 0 &&
           (!x->transposed_a || x->rows * bytes % PATTERN == 0) &&
           (x->transposed_b || x->cols * bytes % PATTERN == 0);
  if (x->ragged) fits = fits && ragged_fits(x, fma);
  fits = fits && (x->bytes == 16 || x->bytes == 8 || x->bytes == 4);
  return fits ? 0 : refuse(x, err);
}

static void head(Product *p, const TsTarget *target) {
  TsTile *k = p->b.k;
  const TsGpuWarpProduct *x = &p->x;
  k->form = TS_FORM_explicit;
  k->target = target->name;
  k->ntile = 3;
  k->tile[0] = x->rows, k->tile[1] = x->cols, k->tile[2] = x->depth;
  k->stages = x->stages;
  k->threads = 32 * x->warps;
}

static void body(Product *p) {
  const TsGpuWarpProduct *x = &p->x;
  sizes(p);
  TsTileLoop grid = ts_tile_for(&p->b, number(p, 0), p->p, 1, true, 0, NULL);
  if (!grid.stmt) return;
  p->round = grid.i;
  if (x->ragged) find_items(p);
  V left = op2(p, TS_OP_sub, p->total, grid.i), up = by(p, TS_OP_sub, p->p, 1);
  p->rounds = ts_gpu_named(op2(p, TS_OP_floordiv, op2(p, TS_OP_add, left, up), p->p), "rounds");
  p->sa = stages(p, "sa", x->rows, !x->transposed_a);
  p->sb = stages(p, "sb", x->cols, x->transposed_b);
  role(p);
  ts_tile_for_end(&p->b, &grid, NULL, NULL);
}

static void begin_rows(Product *p) {
  V *made = calloc(p->x.epilogue->block->nvalue + 1, sizeof *made);
  p->rows_of = (TsGpuEpiloguePiece){.f = p->x.epilogue,
                                    .b = &p->b,
                                    .param = p->param,
                                    .rows = p->x.rows,
                                    .width = p->piece,
                                    .made = made};
  if (!made) p->b.k->failed = true;
}

TsTile *ts_tile_gpu_warp_product(const TsGpuWarpProduct *x, const TsTarget *target,
                                 TsError *err) {
  if (x->bulk) return ts_tile_gpu_reading_product(x, target, err);
  if (legal(x, err)) return NULL;
  TsTile *k = ts_tile_new("matmul");
  if (!k) return ts_error_memory(err), NULL;
  Product p = {.x = *x, .fma = x->unit == TS_GPU_UNIT_fma, .cursor = CURSOR - !x->ragged};
  p.piece = p.fma ? x->cols : 16 * ts_gpu_warps_across(x->rows, x->warps);
  p.b = ts_tile_build(k);
  params(&p);
  head(&p, target);
  if (x->epilogue) begin_rows(&p);
  if (!k->failed) body(&p);
  free(p.rows_of.made);
  if (!k->failed) return k;
  ts_tile_free(k);
  return ts_error_memory(err), NULL;
}
