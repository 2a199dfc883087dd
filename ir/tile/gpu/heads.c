/* See ir/tile/gpu/heads.h. */
#include "ir/tile/gpu/heads.h"

enum { PATTERN = TS_GPU_PATTERN, STEP = 16 /* of the unit along k */, COPY = 16 };

typedef TsTileVal V;

static V op2(TsTileBuild *b, int op, V x, V y) { return ts_tile_op2(b, op, x, y); }
static V by(TsTileBuild *b, int op, V x, int64_t y) { return ts_gpu_by(b, op, x, y); }

/* ---- tiles */
void ts_gpu_heads_tile(TsTileBuild *b, V t, V near, V span, V all, V *row, V *head) {
  V group = op2(b, TS_OP_floordiv, t, span);
  V in = op2(b, TS_OP_sub, t, op2(b, TS_OP_mul, group, span));
  V first = op2(b, TS_OP_mul, group, near);
  V heads = op2(b, TS_OP_minimum, op2(b, TS_OP_sub, all, first), near);
  *row = op2(b, TS_OP_floordiv, in, heads);
  V of = op2(b, TS_OP_sub, in, op2(b, TS_OP_mul, *row, heads));
  *head = op2(b, TS_OP_add, first, of);
}

void ts_gpu_heads_seen(TsTileBuild *b, const TsGpuSeen *x, V position, V blocks, V *first,
                       V *count) {
  V end = blocks;
  *first = ts_tile_index(b, 0);
  if (x->causal) {
    V last = by(b, TS_OP_floordiv, by(b, TS_OP_add, position, x->rows - 1), x->keys);
    end = op2(b, TS_OP_minimum, end, by(b, TS_OP_add, last, 1));
    end = by(b, TS_OP_maximum, end, 1);
  }
  if (x->window) {
    V lowest = by(b, TS_OP_maximum, by(b, TS_OP_sub, position, x->window - 1), 0);
    *first =
        op2(b, TS_OP_minimum, by(b, TS_OP_floordiv, lowest, x->keys), by(b, TS_OP_sub, end, 1));
  }
  *count = ts_gpu_named(op2(b, TS_OP_sub, end, *first), "count");
}

/* ---- memory of the block */
V ts_gpu_heads_room(TsTileBuild *b, const char *name, TsDtype d, int slots, int64_t rows,
                    int64_t width) {
  return ts_gpu_shared(b, name, d, 3, (int64_t[]){slots, rows, width}, PATTERN);
}

void ts_gpu_heads_copy(TsTileBuild *b, V to, V slot, V from, V batch, V head, V row) {
  V zero = ts_tile_index(b, 0);
  if (!to) return;
  ts_gpu_say(
      b, TS_TILE_copy_async, TS_GPU_IN(to, from, slot, zero, zero, batch, head, row, zero),
      TS_GPU_SET({"bytes", ts_gpu_whole(COPY)}, {"shape", ts_gpu_list(2, to->type.dim + 1)}),
      NULL);
}

void ts_gpu_heads_meet(TsTileBuild *b, int threads) {
  ts_gpu_say(b, TS_TILE_barrier, TS_GPU_PLAIN, TS_GPU_SET({"threads", ts_gpu_whole(threads)}),
             NULL);
}

/* ---- products */
static V multiply(TsTileBuild *b, V x, V y, V acc) {
  if (!acc) return NULL;
  return ts_gpu_give(b, TS_TILE_mma, TS_GPU_IN(x, y, acc),
                     TS_GPU_SET({"unit", ts_gpu_word("rows")}), &acc->type);
}

static V operand(TsTileBuild *b, V memory, const V *at, int64_t rows, int64_t cols,
                 bool transposed) {
  static const int64_t axes[2] = {2, 1};
  TsTileType t = ts_gpu_fragment((TsDtype)memory->type.dtype, rows, cols);
  TsTileAccess access = {.naxis = 2, .axes = axes};
  return ts_tile_load(b, memory, at, &t, transposed ? &access : NULL);
}

static V left(TsTileBuild *b, V x, V at, int k) {
  V from[3] = {at, ts_tile_index(b, 0), ts_tile_index(b, k)};
  return operand(b, x, from, x->type.dim[1], STEP, false);
}

void ts_gpu_heads_hold(TsTileBuild *b, V x, V at, V *to) {
  for (int k = 0; x && k < x->type.dim[2]; k += STEP) to[k / STEP] = left(b, x, at, k);
}

V ts_gpu_heads_scores(TsTileBuild *b, V x, V at, const V *held, V y, V slot) {
  V zero = ts_tile_index(b, 0);
  if (!x || !y) return NULL;
  int64_t rows = x->type.dim[1], cols = y->type.dim[1];
  V sum = ts_gpu_zeros(b, rows, cols);
  for (int k = 0; k < x->type.dim[2]; k += STEP) {
    V l = held ? held[k / STEP] : left(b, x, at, k),
      from[3] = {slot, zero, ts_tile_index(b, k)};
    sum = multiply(b, l, operand(b, y, from, STEP, cols, true), sum);
  }
  return sum;
}

V ts_gpu_heads_add(TsTileBuild *b, V p, V y, V slot, V sum) {
  V zero = ts_tile_index(b, 0);
  if (!p || !y) return NULL;
  for (int k = 0; k < p->type.dim[1]; k += STEP) {
    V part = ts_gpu_span(b, p, k, STEP), at[3] = {slot, ts_tile_index(b, k), zero};
    if (!part) return NULL;
    part = ts_tile_cast(b, part, (TsDtype)y->type.dtype);
    sum = multiply(b, part, operand(b, y, at, STEP, y->type.dim[2], false), sum);
  }
  return sum;
}
