/* Products by a matrix unit that makes squares of sums (ir/tile/square.h), in block form: a round's
 * block is made in stages of 32 steps of k. What the next stage needs is loaded before a stage is
 * multiplied and carried to it, so that it is on its way meanwhile. The order of sums is k
 * ascending; no block changes it. */
#include "ir/sched/product_state.h"
#include "ir/tile/square.h"

enum {
  DEPTH = 32,
  MOST = 128, /* rows, columns of a block */
  SOME = 64,
  WAVE = 1024, /* sums of a wave, at least, */
  EACH = 64,   /* sums of a thread of Intel's, half of whose registers they take, */
  LEAST = 64,  /* and its threads of a block */
  WIDE = 4,
  NARROW = 8 /* and waves of a block, of 64 lanes and of 32 */
};

static TsDtype type_of(const TsProductLower *l, int side) {
  return (TsDtype)l->product->in[side]->meta.dtype;
}

/* Operands that are made first, and those of other types, take the chain that all have. */
const char *ts_product_square_unit(const TsProductLower *l) {
  const TsTarget *t = l->s->target;
  TsDtype d = type_of(l, 0);
  bool half = d == TS_DT_bf16 || d == TS_DT_f16;
  if (!t->matrix || !half || type_of(l, 1) != d || l->d != TS_DT_f32 ||
      l->s->profile == TS_PROFILE_strict)
    return NULL;
  for (int side = 0; side < 2; side++) {
    const TsProductAccess *a = &l->access[side];
    if (a->side != (TsSide)side || a->v != l->product->in[side] || !a->has[0] || !a->has[1])
      return NULL;
  }
  if (t->matrix == TS_MATRIX_dpas) return "dpas";
  return t->matrix == TS_MATRIX_mfma16 || t->matrix == TS_MATRIX_mfma32 ? "mfma" : "wmma";
}

static int64_t blocks(const TsProductSize *size, int64_t rows, int64_t cols) {
  return size->batch * ((size->m + rows - 1) / rows) * ((size->n + cols - 1) / cols);
}

/* As large as there is one for each processor. */
void ts_product_square_block(TsProductLower *l, const TsProductSize *size) {
  const TsTarget *t = l->s->target;
  int64_t rows = size->m > SOME ? MOST : size->m > TS_SQUARE ? SOME : TS_SQUARE;
  int64_t cols = size->n > SOME ? MOST : SOME;
  if (cols > SOME && blocks(size, rows, cols) < t->processors) cols = SOME;
  if (rows > SOME && blocks(size, rows, cols) < t->processors) rows = SOME;
  int64_t waves = rows * cols / WAVE, most = t->lanes > 32 ? WIDE : NARROW;
  l->block[0] = rows, l->block[1] = cols;
  l->tile->threads = (int)((waves > most ? most : waves) * t->lanes);
  if (t->matrix == TS_MATRIX_dpas)
    l->tile->threads = (int)(rows * cols / EACH > LEAST ? rows * cols / EACH : LEAST);
}

/* From this step of k on. */
static TsTileVal load(TsProductLower *l, int side, TsTileVal k) {
  TsTileBuild *b = &l->b;
  const TsProductAccess *a = &l->access[side];
  int batch = l->naxis - 2, n = 0;
  int64_t dim[2] = {side ? DEPTH : l->block[0], side ? l->block[1] : DEPTH};
  TsTileVal at[TS_TILE_RANK];
  for (int i = 0; i < batch; i++)
    if (a->moves[i]) at[n++] = l->at[i];
  at[n + side] = l->at[batch + side], at[n + !side] = k;
  TsTileType t = ts_tile_type(type_of(l, side), 2, dim);
  TsTileAccess how = {.edge = l->k % DEPTH || l->axis[batch + side] % l->block[side]};
  return ts_tile_load(b, a->param, at, &t, &how);
}

TsTileVal ts_product_square_sums(TsProductLower *l) {
  TsTileBuild *b = &l->b;
  TsTileType t = ts_tile_type(TS_DT_f32, 2, l->block);
  TsTileVal zero = ts_tile_index(b, 0), end = ts_tile_index(b, l->k);
  TsTileVal first[3] = {ts_tile_const(b, 0, &t), load(l, 0, zero), load(l, 1, zero)}, out[3];
  TsAttr unit = {.type = TS_ATTR_str, .str = l->unit};
  TsTileLoop stage = ts_tile_for(b, zero, end, DEPTH, false, 3, first);
  if (!stage.carry) return NULL;
  TsTileVal behind = ts_tile_op2(b, TS_OP_add, stage.i, ts_tile_index(b, DEPTH));
  if (l->k % DEPTH == 0) /* the last one once more: no edge */
    behind = ts_tile_op2(b, TS_OP_minimum, behind, ts_tile_index(b, l->k - DEPTH));
  TsTileVal next[3] = {NULL, load(l, 0, behind), load(l, 1, behind)};
  TsTileVal in[3] = {stage.carry[1], stage.carry[2], stage.carry[0]};
  next[0] = ts_tile_emit1(b, TS_TILE_mma, 3, in, &unit, &t);
  ts_tile_for_end(b, &stage, next, out);
  return out[0];
}
