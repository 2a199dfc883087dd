/* Products by a matrix unit that makes squares of sums (ir/tile/square.h), in block form: a round's
 * block is made in stages of 64 bytes of k. What the next stage needs is loaded before a stage is
 * multiplied and carried to it, so that it is on its way meanwhile; an operand whose elements along k
 * are neighbours in memory is loaded so, and stands transposed before the product. Where the target
 * copies past registers, stages are copies under way (direct.c); where Intel's GPUs read operands
 * as the unit wants them, nothing is carried. The order of sums is k ascending; no block changes it.
 *
 * What is multiplied has all numbers of the operands: fp8 are bf16 where the unit has no such product,
 * and in strict, where sums are the CPU's chain, 16 bits and 8 are f32. Steps behind k add nothing: of
 * f32 and f64, whose sums are to have the CPU's bits, -0 times +0, which leaves a sum of -0 as it is. */
#include "ir/sched/product/state.h"
#include "ir/tile/square.h"

enum {
  DEEP = 64,  /* bytes of k of a stage */
  MOST = 128, /* rows, columns of a block */
  SOME = 64,
  HELD = 64,   /* numbers of an operand that a lane has at most */
  WAVE = 1024, /* sums of a wave, at least, */
  EACH = 64,   /* sums of a thread of Intel's, half of whose registers they take, */
  LEAST = 64,  /* and its threads of a block */
  WIDE = 4,
  NARROW = 8,  /* and waves of a block, of 64 lanes and of 32 */
  PAIRED = 256 /* rows, columns of one whose waves take turns, twice as many */
};

static TsDtype type_of(const TsProductLower *l, int side) {
  return (TsDtype)l->product->in[side]->meta.dtype;
}

static bool is_eight(TsDtype d) { return d == TS_DT_fp8_e4m3 || d == TS_DT_fp8_e5m2; }

/* In what the unit multiplies operands of d; false: it does not. */
static bool factor_of(const TsTarget *t, TsProfile profile, TsDtype d, TsDtype *factor) {
  unsigned has = t->matrix ? t->factors : 0;
  if (is_eight(d) && ts_target_by_groups(t)) return false;
  bool narrow = d == TS_DT_bf16 || d == TS_DT_f16 || is_eight(d);
  if (narrow && t->matrix == TS_MATRIX_cooperative && profile != TS_PROFILE_fast) return false;
  *factor = d;
  if (narrow && profile == TS_PROFILE_strict)
    *factor = TS_DT_f32;
  else if (is_eight(d) && !(has & TS_FACTOR_eight))
    *factor = TS_DT_bf16;
  switch (*factor) {
  case TS_DT_bf16:
  case TS_DT_f16: return has & TS_FACTOR_half;
  case TS_DT_f32: return has & TS_FACTOR_single;
  case TS_DT_f64: return has & TS_FACTOR_twice;
  case TS_DT_i8: return has & TS_FACTOR_whole;
  default: return is_eight(d) && (has & TS_FACTOR_eight);
  }
}

/* Operands that are made first, and those of other types, take the chain that all have. */
const char *ts_product_square_unit(TsProductLower *l) {
  const TsTarget *t = l->s->target;
  TsDtype factor;
  if (!l->k || type_of(l, 1) != type_of(l, 0) ||
      !factor_of(t, l->s->profile, type_of(l, 0), &factor))
    return NULL;
  for (int side = 0; side < 2; side++) {
    const TsProductAccess *a = &l->access[side];
    if (a->side != (TsSide)side || a->v != l->product->in[side] || !a->has[0] || !a->has[1])
      return NULL;
  }
  l->factor = factor;
  if (t->matrix == TS_MATRIX_cooperative) return "cooperative";
  return t->matrix == TS_MATRIX_dpas ? "dpas" : ts_target_has_chain(t) ? "mfma" : "wmma";
}

const char *ts_sched_square_unit(const TsSched *s, TsDtype d, TsDtype *factor) {
  const TsTarget *t = s->target;
  if (!t->matrix || ts_target_by_groups(t) || !factor_of(t, s->profile, d, factor)) return NULL;
  return ts_target_has_chain(t) ? "mfma" : "wmma";
}

bool ts_sched_square_has(const TsTarget *t, TsDtype d) {
  TsDtype factor;
  return factor_of(t, TS_PROFILE_deterministic, d, &factor);
}

static int64_t blocks(const TsProductSize *size, int64_t rows, int64_t cols) {
  return size->batch * ((size->m + rows - 1) / rows) * ((size->n + cols - 1) / cols);
}

int64_t ts_product_square_depth(const TsProductLower *l) {
  return DEEP / ts_dtypes[l->factor].nbytes;
}

/* Half of shared memory holds so many stages, so that another block fits beside it. */
static int stages_of(const TsProductLower *l, int most) {
  int64_t bytes = (l->block[0] + l->block[1]) * DEEP;
  int64_t n = l->s->target->shared_bytes / 2 / bytes;
  return n < 1 ? 1 : n < most ? (int)n : most;
}

/* What follows the sums reads something: sums and operands leave no registers for it. */
static bool reads_more(const TsProductLower *l) {
  for (int i = 0; i < l->naccess; i++)
    if (l->access[i].side == TS_SIDE_result && !l->access[i].written) return true;
  return false;
}

/* Two waves of a SIMD, of which one multiplies while the other reads, with a block as large as all
 * registers: each number that is read is multiplied most often. The third stage is on its way. */
static bool pairs(TsProductLower *l, const TsProductSize *size) {
  const TsTarget *t = l->s->target;
  int64_t bytes = 3 * 2 * PAIRED * DEEP;
  if (t->paired != 2 || ts_dtypes[l->d].nbytes > 4 || bytes > t->shared_bytes) return false;
  if (reads_more(l)) return false;
  if (size->m <= MOST || size->n <= MOST || blocks(size, PAIRED, PAIRED) < t->processors)
    return false;
  TsProductLower was = *l;
  l->block[0] = l->block[1] = PAIRED;
  l->how = (TsProductStages){.threads = 2 * WIDE * t->lanes, .stages = 3, .paired = true};
  if ((l->how.direct = ts_product_direct_bytes(l))) return true;
  *l = was;
  return false;
}

/* As large as there is one for each processor; sums of f64 are twice as long. */
void ts_product_square_block(TsProductLower *l, const TsProductSize *size) {
  const TsTarget *t = l->s->target;
  int64_t large = l->d == TS_DT_f64 ? SOME : MOST;
  int64_t rows = size->m > SOME ? large : size->m > TS_SQUARE ? SOME : TS_SQUARE;
  int64_t cols = size->n > SOME ? large : SOME;
  if (pairs(l, size)) return;
  if (cols > SOME && blocks(size, rows, cols) < t->processors) cols = SOME;
  if (rows > SOME && blocks(size, rows, cols) < t->processors) rows = SOME;
  int64_t waves = rows * cols / WAVE, most = t->lanes > 32 ? WIDE : NARROW;
  int64_t each = (rows > cols ? rows : cols) * ts_product_square_depth(l) / (t->lanes * HELD);
  if (waves < each) waves = each;
  l->block[0] = rows, l->block[1] = cols;
  l->how = (TsProductStages){.threads = (int)((waves > most ? most : waves) * t->lanes)};
  if (ts_target_by_groups(t)) {
    l->how.threads = (int)(rows * cols / EACH > LEAST ? rows * cols / EACH : LEAST);
    return;
  }
  l->how.stages = stages_of(l, 3);
  if (l->how.stages > 1) l->how.direct = ts_product_direct_bytes(l);
  if (!l->how.direct) l->how.stages = stages_of(l, 2);
}

/* Whether neighbours in memory lie across the tile's rows. */
static bool lies_across(const TsProductLower *l, const TsProductAccess *a) {
  return !ts_target_by_groups(l->s->target) && a->step[0] == 1 && a->step[1] != 1;
}

/* From this step of k on, as it lies. */
static TsTileVal load(TsProductLower *l, int side, TsTileVal k) {
  TsTileBuild *b = &l->b;
  const TsProductAccess *a = &l->access[side];
  int batch = l->naxis - 2, n = 0;
  int64_t depth = ts_product_square_depth(l), axes[2];
  int64_t dim[2] = {side ? depth : l->block[0], side ? l->block[1] : depth};
  TsTileVal at[TS_TILE_RANK];
  for (int i = 0; i < batch; i++)
    if (a->moves[i]) at[n++] = l->at[i];
  axes[0] = n, axes[1] = n + 1;
  at[n + side] = l->at[batch + side], at[n + !side] = k;
  bool chain = l->d == TS_DT_f64 || l->factor == TS_DT_f32;
  TsTileAccess how = {.edge = l->k % depth || l->axis[batch + side] % l->block[side]};
  if (how.edge && chain && !side) how.fill = -0.0;
  if (lies_across(l, a)) {
    int64_t was = dim[0];
    dim[0] = dim[1], dim[1] = was;
    axes[0] = n + 1, axes[1] = n, how.naxis = 2, how.axes = axes;
  }
  TsTileType t = ts_tile_type(type_of(l, side), 2, dim);
  return ts_tile_load(b, a->param, at, &t, &how);
}

static TsTileVal operand(TsProductLower *l, int side, TsTileVal x) {
  x = ts_tile_cast(&l->b, x, l->factor);
  return lies_across(l, &l->access[side]) ? ts_tile_transposed(&l->b, x) : x;
}

/* Whether both operands are read in boxes, as the unit wants them: where they are multiplied. */
static bool reads_boxes(const TsProductLower *l) {
  for (int side = 0, along; side < 2; side++) {
    const TsTileType *m = l->access[side].param ? &l->access[side].param->type : NULL;
    if (l->s->target->matrix != TS_MATRIX_dpas || !m || m->rank < 2 || l->factor != m->dtype ||
        !ts_tile_dpas_boxes(m, m->rank - 2, m->rank - 1, side, &along))
      return false;
  }
  return true;
}

static TsTileVal sums_of_boxes(TsProductLower *l) {
  TsTileBuild *b = &l->b;
  TsTileType t = ts_tile_type(l->d, 2, l->block);
  TsTileVal zero = ts_tile_index(b, 0), first = ts_tile_const(b, 0, &t), out;
  TsAttr unit = {.type = TS_ATTR_str, .str = l->unit};
  TsTileLoop stage = ts_tile_for(b, zero, ts_tile_index(b, l->k), ts_product_square_depth(l),
                                 false, 1, &first);
  if (!stage.carry) return NULL;
  TsTileVal in[3] = {load(l, 0, stage.i), load(l, 1, stage.i), stage.carry[0]};
  TsTileVal next = ts_tile_emit1(b, TS_TILE_mma, 3, in, &unit, &t);
  ts_tile_for_end(b, &stage, &next, &out);
  return out;
}

TsTileVal ts_product_square_sums(TsProductLower *l) {
  TsTileBuild *b = &l->b;
  if (l->how.direct) return ts_product_direct_sums(l);
  if (reads_boxes(l)) return sums_of_boxes(l);
  int64_t depth = ts_product_square_depth(l);
  TsTileType t = ts_tile_type(l->d, 2, l->block);
  TsTileVal zero = ts_tile_index(b, 0), end = ts_tile_index(b, l->k);
  TsTileVal first[3] = {ts_tile_const(b, 0, &t), load(l, 0, zero), load(l, 1, zero)}, out[3];
  TsAttr unit = {.type = TS_ATTR_str, .str = l->unit};
  TsTileLoop stage = ts_tile_for(b, zero, end, depth, false, 3, first);
  if (!stage.carry) return NULL;
  TsTileVal behind = ts_tile_op2(b, TS_OP_add, stage.i, ts_tile_index(b, depth));
  if (l->k % depth == 0) /* the last one once more: no edge */
    behind = ts_tile_op2(b, TS_OP_minimum, behind, ts_tile_index(b, l->k - depth));
  TsTileVal next[3] = {NULL, load(l, 0, behind), load(l, 1, behind)};
  TsTileVal in[3] = {operand(l, 0, stage.carry[1]), operand(l, 1, stage.carry[2]),
                     stage.carry[0]};
  next[0] = ts_tile_emit1(b, TS_TILE_mma, 3, in, &unit, &t);
  ts_tile_for_end(b, &stage, next, out);
  return out[0];
}
