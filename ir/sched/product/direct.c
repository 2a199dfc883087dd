/* Stages of a product by a unit that makes squares, copied past registers into shared memory
 * (ir/sched/product/square.c): a ring of them, all but one under way. Threads meet once a stage,
 * when it has come: then all have left the one in front of it, whose place the next copies take. Behind the
 * end of k the last stage is copied once more, which nobody reads.
 *
 * In pairs, half of the waves multiply a stage while the other half reads the next one into registers,
 * and they meet where they change over. The half that comes last reads a stage before it multiplies the
 * one in front, so a place is free two meetings later: three stages. Rejected: two stages of such
 * blocks, which would fit 64 KiB; the copies of the half that comes last would be waited for where they
 * are asked for. */
#include "ir/sched/product/state.h"
#include "ir/tile/square.h"

enum { WIDEST = 16, WORD = 4 /* bytes of a copy of a lane */ };

/* The axis of step[] along k. */
static int k_axis(const TsProductAccess *a) { return a->side == TS_SIDE_a; }

bool ts_product_lies_across(const TsProductAccess *a) { return a->step[k_axis(a)] != 1; }

/* ---- whether */
/* Whether all rows begin, and end, at multiples of so many bytes. */
static bool is_whole(const TsProductLower *l, const TsProductAccess *a, int bytes) {
  int64_t size = ts_dtypes[l->factor].nbytes, k = k_axis(a), across = ts_product_lies_across(a);
  int batch = l->naxis - 2;
  int64_t row = a->step[across ? k : !k];
  int64_t last = across ? l->axis[batch + a->side] : l->k;
  for (int i = 0; i < batch; i++)
    if (a->moves[i] * size % bytes) return false;
  return row > 0 && row * size % bytes == 0 && last * size % bytes == 0;
}

/* A position in a block's part of the matrix is a number of 31 bits. */
static bool is_near(const TsProductLower *l, const TsProductAccess *a) {
  int64_t size = ts_dtypes[l->factor].nbytes, k = k_axis(a), most = INT32_MAX / size;
  int64_t rows = ts_product_lies_across(a) ? l->k : l->block[a->side];
  int64_t row = a->step[ts_product_lies_across(a) ? k : !k];
  return row <= most / 2 && l->k <= most / 4 && row <= (most / 2) / (rows + 1);
}

static bool can(const TsProductLower *l, int side, int bytes) {
  const TsProductAccess *a = &l->access[side];
  int64_t size = ts_dtypes[l->factor].nbytes, depth = ts_product_square_depth(l);
  bool across = ts_product_lies_across(a);
  if ((TsDtype)l->product->in[side]->meta.dtype != l->factor) return false;
  if (across && (a->step[!k_axis(a)] != 1 || !l->s->target->turns || size != 2)) return false;
  /* What is behind the end of a chain is no zero. */
  if (l->k % depth && (l->d == TS_DT_f64 || l->factor == TS_DT_f32)) return false;
  return is_whole(l, a, bytes) && is_near(l, a) &&
         l->block[side] * depth * size % ((int64_t)l->how.threads * bytes) == 0;
}

/* Where lanes copy a word at most the loop is longer than through registers, by loads and stores of
 * 16 bytes (of bf16 on gfx942 115 instructions for 32 MFMA, else 101), and no more waves are held. */
int ts_product_direct_bytes(const TsProductLower *l) {
  const TsTarget *t = l->s->target;
  static const int some[] = {WIDEST, WORD};
  for (int i = 0; i < 2 && t->direct >= WIDEST; i++)
    if (can(l, 0, some[i]) && can(l, 1, some[i])) return some[i];
  return 0;
}

/* ---- the tile */
typedef struct Ring {
  TsTileVal memory[2];
  int64_t tile[2][2]; /* as it lies: rows, then what is one behind the other */
  bool across[2];
} Ring;

static TsTileVal zero(TsProductLower *l) { return ts_tile_index(&l->b, 0); }

static void open_ring(TsProductLower *l, Ring *r) {
  int64_t depth = ts_product_square_depth(l);
  for (int side = 0; side < 2; side++) {
    bool across = r->across[side] = ts_product_lies_across(&l->access[side]);
    r->tile[side][across] = l->block[side], r->tile[side][!across] = depth;
    int64_t dim[3] = {l->how.stages, r->tile[side][0], r->tile[side][1]};
    TsTileType t = ts_tile_type(l->factor, 3, dim);
    r->memory[side] = ts_tile_alloc(&l->b, TS_SPACE_shared, &t);
  }
}

static void copy(TsProductLower *l, const Ring *r, int side, TsTileVal slot, TsTileVal k) {
  const TsProductAccess *a = &l->access[side];
  int batch = l->naxis - 2, n = 0;
  int64_t depth = ts_product_square_depth(l);
  TsTileVal in[5 + TS_TILE_RANK] = {r->memory[side], a->param, slot, zero(l), zero(l)};
  for (int i = 0; i < batch; i++)
    if (a->moves[i]) in[5 + n++] = l->at[i];
  in[5 + n + r->across[side]] = l->at[batch + side], in[5 + n + !r->across[side]] = k;
  bool inside = l->k % depth == 0 && l->axis[batch + side] % l->block[side] == 0;
  TsAttr attr[3] = {{.type = TS_ATTR_int, .i = l->how.direct},
                    {.type = TS_ATTR_ints, .n = 2, .ints = r->tile[side]},
                    {.type = TS_ATTR_bool, .i = inside}};
  ts_tile_emit(&l->b, TS_TILE_copy_async, 7 + n, in, attr, 0, NULL);
}

static void plain(TsProductLower *l, int op, int64_t i) {
  TsAttr attr[2] = {{.type = TS_ATTR_int, .i = i}, {.type = TS_ATTR_choice}};
  if (op == TS_TILE_turn) attr[0].type = TS_ATTR_bool;
  if (op == TS_TILE_barrier) attr[1].type = TS_ATTR_none;
  if (op == TS_TILE_commit) attr[0] = attr[1];
  ts_tile_emit(&l->b, op, 0, NULL, attr, 0, NULL);
}

static void copy_stage(TsProductLower *l, const Ring *r, TsTileVal slot, TsTileVal k) {
  for (int side = 0; side < 2; side++) copy(l, r, side, slot, k);
  plain(l, TS_TILE_commit, 0);
}

static TsTileVal operand(TsProductLower *l, const Ring *r, int side, TsTileVal slot) {
  TsTileType t = ts_tile_type(l->factor, 2, r->tile[side]);
  TsTileVal at[3] = {slot, zero(l), zero(l)};
  TsTileVal x = ts_tile_load(&l->b, r->memory[side], at, &t, NULL);
  bool across = r->across[side] != (side == 1); /* wanted: [rows, k], [k, columns] */
  return across ? ts_tile_transposed(&l->b, x) : x;
}

/* The slot behind, of the ring. */
static TsTileVal next_slot(TsProductLower *l, TsTileVal slot) {
  TsTileBuild *b = &l->b;
  TsTileVal next = ts_tile_op2(b, TS_OP_add, slot, ts_tile_index(b, 1));
  TsTileVal end = ts_tile_op2(b, TS_OP_eq, next, ts_tile_index(b, l->how.stages));
  return ts_tile_op3(b, TS_OP_where, end, zero(l), next);
}

/* From this step on, or the last stage once more. */
static TsTileVal inside(TsProductLower *l, TsTileVal k) {
  int64_t depth = ts_product_square_depth(l), last = (l->k - 1) / depth * depth;
  return ts_tile_op2(&l->b, TS_OP_minimum, k, ts_tile_index(&l->b, last > 0 ? last : 0));
}

TsTileVal ts_product_direct_sums(TsProductLower *l) {
  TsTileBuild *b = &l->b;
  int64_t depth = ts_product_square_depth(l), ahead = l->how.stages - 1;
  TsTileType t = ts_tile_type(l->d, 2, l->block);
  TsAttr unit = {.type = TS_ATTR_str, .str = l->unit};
  bool paired = l->how.paired;
  Ring r;
  open_ring(l, &r);
  for (int i = 0; i < ahead; i++)
    copy_stage(l, &r, ts_tile_index(b, i), inside(l, ts_tile_index(b, i * depth)));
  if (paired) {
    plain(l, TS_TILE_wait, ahead - 1);
    plain(l, TS_TILE_barrier, 0);
  }
  TsTileVal first[3] = {ts_tile_const(b, 0, &t), zero(l), ts_tile_index(b, ahead)}, out[3];
  TsTileLoop stage = ts_tile_for(b, zero(l), ts_tile_index(b, l->k), depth, false, 3, first);
  if (!stage.carry) return NULL;
  if (!paired) {
    plain(l, TS_TILE_wait, ahead - 1);
    plain(l, TS_TILE_barrier, 0);
  }
  TsTileVal behind = ts_tile_op2(b, TS_OP_add, stage.i, ts_tile_index(b, ahead * depth));
  copy_stage(l, &r, stage.carry[2], inside(l, behind));
  TsTileVal in[3] = {operand(l, &r, 0, stage.carry[1]), operand(l, &r, 1, stage.carry[1]),
                     stage.carry[0]};
  if (paired) {
    plain(l, TS_TILE_wait, ahead - 1);
    plain(l, TS_TILE_turn, false);
  }
  TsTileVal next[3] = {ts_tile_emit1(b, TS_TILE_mma, 3, in, &unit, &t)};
  if (paired) plain(l, TS_TILE_turn, true);
  next[1] = next_slot(l, stage.carry[1]), next[2] = next_slot(l, stage.carry[2]);
  ts_tile_for_end(b, &stage, next, out);
  plain(l, TS_TILE_wait, 0);
  return out[0];
}
