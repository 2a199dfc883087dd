/* The row `random` as primitive rows: Philox 4x32-10 on tiles of i32, laid out as
 * vm/kernels/random.h says. A block gives four words; where 64 elements begin at a multiple of
 * 64, sixteen blocks side by side give them all, elsewhere each element takes a word of a block
 * of its own, which costs four times as much. */
#include "ir/tile/pass/random.h"

enum { SIDE = 16, WORDS = 4, GROUP = SIDE * WORDS, ROUNDS = 10 };

typedef struct Words {
  TsTileVal c[WORDS], key[2];
} Words;

static TsTileVal word(TsTileBuild *b, uint32_t bits, const TsTileType *t) {
  return ts_tile_bits(b, bits, t);
}

static TsTileVal spread(TsTileBuild *b, TsTileVal x, const TsTileType *like) {
  if (!x) return NULL;
  TsTileType t = *like;
  t.dtype = x->type.dtype;
  return t.rank ? ts_tile_broadcast(b, x, &t, NULL) : x;
}

/* Bits [32 half, 32 half + 32) of an i64. */
static TsTileVal half_of(TsTileBuild *b, TsTileVal x, int half) {
  if (!x) return NULL;
  TsTileType t = x->type;
  if (half)
    x = ts_tile_op2(b, TS_TILE_shr, x, ts_tile_bits(b, 32, &t));
  else
    x = ts_tile_op2(b, TS_OP_bitwise_and, x, ts_tile_bits(b, 0xffffffffu, &t));
  /* A cast keeps low bits, and takes no more than the type holds. */
  TsTileVal sign = ts_tile_bits(b, 0x80000000u, &t);
  x = ts_tile_op2(b, TS_OP_sub, ts_tile_op2(b, TS_OP_bitwise_xor, x, sign), sign);
  return ts_tile_cast(b, x, TS_DT_i32);
}

/* One round on the words c and the keys behind them. */
static void round_of(TsTileBuild *b, TsTileVal const *c, TsTileVal *next, const TsTileType *t) {
  TsTileVal m0 = word(b, 0xD2511F53, t), m1 = word(b, 0xCD9E8D57, t);
  TsTileType one = ts_tile_scalar(TS_DT_i32);
  TsTileVal hi0 = ts_tile_op2(b, TS_TILE_mulhi, c[0], m0);
  TsTileVal hi1 = ts_tile_op2(b, TS_TILE_mulhi, c[2], m1);
  next[1] = ts_tile_op2(b, TS_OP_mul, c[2], m1);
  next[3] = ts_tile_op2(b, TS_OP_mul, c[0], m0);
  next[0] = ts_tile_op2(b, TS_OP_bitwise_xor, ts_tile_op2(b, TS_OP_bitwise_xor, hi1, c[1]),
                        spread(b, c[4], t));
  next[2] = ts_tile_op2(b, TS_OP_bitwise_xor, ts_tile_op2(b, TS_OP_bitwise_xor, hi0, c[3]),
                        spread(b, c[5], t));
  next[4] = ts_tile_op2(b, TS_OP_add, c[4], word(b, 0x9E3779B9, &one));
  next[5] = ts_tile_op2(b, TS_OP_add, c[5], word(b, 0xBB67AE85, &one));
}

/* Ten rounds, as a loop: a tenth of the code, and as fast. c becomes the block's words. */
static void philox(TsTileBuild *b, Words *w, const TsTileType *t) {
  TsTileVal state[6] = {w->c[0], w->c[1], w->c[2], w->c[3], w->key[0], w->key[1]}, next[6];
  for (int i = 0; i < 6; i++)
    if (!state[i]) return;
  TsTileLoop l =
      ts_tile_for(b, ts_tile_index(b, 0), ts_tile_index(b, ROUNDS), 1, false, 6, state);
  if (!l.carry) return;
  round_of(b, l.carry, next, t);
  ts_tile_for_end(b, &l, next, state);
  for (int i = 0; i < WORDS; i++) w->c[i] = state[i];
}

static void set_stream(TsTileBuild *b, Words *w, const TsTileVal *in, const TsTileType *t) {
  for (int i = 0; i < 2; i++) {
    w->key[i] = half_of(b, in[0], i);
    w->c[2 + i] = spread(b, half_of(b, in[1], i), t);
  }
}

static TsTileVal iota(TsTileBuild *b, const TsTileType *t) {
  return ts_tile_emit1(b, TS_TILE_iota, 0, NULL, NULL, t);
}

/* 64 elements from `first` on, whose blocks are first / 4 and the fifteen behind. */
static TsTileVal group(TsTileBuild *b, const TsTileVal *in, TsTileVal first) {
  TsTileType t = ts_tile_vector(TS_DT_i32, SIDE), all = ts_tile_vector(TS_DT_i32, GROUP);
  TsTileVal block = ts_tile_op2(b, TS_TILE_shr, first, ts_tile_bits(b, 2, &first->type));
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  Words w;
  set_stream(b, &w, in, &t);
  w.c[0] = ts_tile_op2(b, TS_OP_bitwise_or, spread(b, half_of(b, block, 0), &t), iota(b, &t));
  w.c[1] = spread(b, half_of(b, block, 1), &t);
  philox(b, &w, &t);
  return ts_tile_emit1(b, TS_TILE_join, WORDS, w.c, &axis, &all);
}

static TsTileVal groups(TsTileBuild *b, const TsTileVal *in, int64_t n) {
  TsTileVal y = NULL;
  TsAttr axis = {.type = TS_ATTR_int, .i = 0};
  for (int64_t i = 0; i < n; i += GROUP) {
    TsTileVal first = i ? ts_tile_op2(b, TS_OP_add, in[2], ts_tile_index(b, i)) : in[2];
    TsTileVal part = group(b, in, first);
    TsTileType t = ts_tile_vector(TS_DT_i32, i + GROUP);
    y = y ? ts_tile_emit1(b, TS_TILE_join, 2, (TsTileVal[]){y, part}, &axis, &t) : part;
  }
  return y;
}

/* Each element by itself. */
static TsTileVal elements(TsTileBuild *b, const TsTileVal *in, const TsTileType *t) {
  TsTileType wide = *t;
  wide.dtype = TS_DT_i64;
  TsTileVal i = spread(b, in[2], &wide), y[2];
  if (t->rank) i = ts_tile_op2(b, TS_OP_add, i, iota(b, &wide));
  TsTileVal block = ts_tile_op2(b, TS_TILE_shr, i, ts_tile_bits(b, 6, &wide));
  block = ts_tile_op2(b, TS_TILE_shl, block, ts_tile_bits(b, 4, &wide));
  TsTileVal lane = ts_tile_op2(b, TS_OP_bitwise_and, i, ts_tile_bits(b, SIDE - 1, &wide));
  block = ts_tile_op2(b, TS_OP_bitwise_or, block, lane);
  Words w;
  set_stream(b, &w, in, t);
  w.c[0] = half_of(b, block, 0), w.c[1] = half_of(b, block, 1);
  philox(b, &w, t);
  TsTileVal zero = ts_tile_bits(b, 0, &wide);
  for (int k = 0; k < 2; k++) {
    TsTileVal bit = ts_tile_op2(b, TS_OP_bitwise_and, i, ts_tile_bits(b, 16, &wide));
    bit = ts_tile_op2(b, TS_OP_ne, bit, zero);
    y[k] = ts_tile_op3(b, TS_OP_where, bit, w.c[2 * k + 1], w.c[2 * k]);
  }
  TsTileVal high = ts_tile_op2(b, TS_OP_bitwise_and, i, ts_tile_bits(b, 32, &wide));
  return ts_tile_op3(b, TS_OP_where, ts_tile_op2(b, TS_OP_ne, high, zero), y[1], y[0]);
}

TsTileVal ts_tile_random_expand(TsTileBuild *b, const TsTileVal *in, const TsTileType *t,
                                bool aligned) {
  bool whole = aligned && t->rank == 1 && t->dim[0] % GROUP == 0;
  return whole ? groups(b, in, t->dim[0]) : elements(b, in, t);
}
