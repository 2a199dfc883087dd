/* See ir/lower/blocks_value.h. Where a format has what stands in vm/kernels/blocks_read.c. */
#include "ir/lower/blocks_value.h"

#include "ir/compose/build.h"
#include "ir/lower/short.h"

typedef TsTileVal V;

/* ---- short forms. Positions are i64, codes i32. */
static V by(TsTileBuild *b, int op, V x, int64_t y) { return ts_short_by(b, op, x, y); }

static V bits(TsTileBuild *b, int op, V x, int64_t y) {
  if (!x) return NULL;
  V in[2] = {x, ts_tile_bits(b, (uint64_t)y, &x->type)};
  return ts_tile_emit1(b, op, 2, in, NULL, &x->type);
}

static V pair(TsTileBuild *b, int op, V x, V y) {
  return x && y ? ts_tile_emit1(b, op, 2, (V[]){x, y}, NULL, &x->type) : NULL;
}

static V low_bits(TsTileBuild *b, V x, int64_t y) {
  return x ? ts_tile_op2(b, TS_OP_bitwise_and, x, ts_tile_bits(b, (uint64_t)y, &x->type))
           : NULL;
}

static V joined(TsTileBuild *b, V x, V y) { return ts_tile_op2(b, TS_OP_bitwise_or, x, y); }
static V i32(TsTileBuild *b, V x) { return ts_tile_cast(b, x, TS_DT_i32); }
static V f32(TsTileBuild *b, V x) { return ts_tile_cast(b, x, TS_DT_f32); }

static V byte(TsTileBuild *b, const TsBlocksSpan *s, V at) {
  return i32(b, ts_short_gather(b, s->memory, at, false));
}

static V signed_byte(TsTileBuild *b, const TsBlocksSpan *s, V at) {
  return bits(b, TS_TILE_sar, bits(b, TS_TILE_shl, byte(b, s, at), 24), 24);
}

static V half(TsTileBuild *b, const TsBlocksSpan *s, int64_t offset) {
  V at = by(b, TS_OP_add, s->at, offset);
  V low = byte(b, s, at), high = byte(b, s, by(b, TS_OP_add, at, 1));
  V word = ts_tile_cast(b, joined(b, low, bits(b, TS_TILE_shl, high, 8)), TS_DT_i16);
  return f32(b, ts_tile_bitcast(b, word, TS_DT_f16));
}

/* Four bits of byte `at`, the upper ones where `up` is 1. */
static V nibble(TsTileBuild *b, const TsBlocksSpan *s, V at, V up) {
  V shift = bits(b, TS_TILE_shl, i32(b, up), 2);
  return low_bits(b, pair(b, TS_TILE_shr, byte(b, s, at), shift), 15);
}

static V less(TsTileBuild *b, V code, int64_t n) {
  return code ? ts_tile_op2(b, TS_OP_sub, code, ts_tile_bits(b, (uint64_t)n, &code->type))
              : NULL;
}

/* ---- scales */
/* Of mxfp4: 2^(b - 127), 0xff NaN, 0 the half of the smallest normal number. */
static V power(TsTileBuild *b, V e) {
  if (!e) return NULL;
  V is_zero = ts_tile_op2(b, TS_OP_eq, e, ts_tile_bits(b, 0, &e->type));
  V is_nan = ts_tile_op2(b, TS_OP_eq, e, ts_tile_bits(b, 0xff, &e->type));
  V usual = bits(b, TS_TILE_shl, e, 23);
  V word = ts_tile_op3(b, TS_OP_where, is_zero, ts_tile_bits(b, 0x00400000, &e->type), usual);
  word = ts_tile_op3(b, TS_OP_where, is_nan, ts_tile_bits(b, 0x7fc00000, &e->type), word);
  return ts_tile_bitcast(b, word, TS_DT_f32);
}

/* Scale and minimum of a span, of 6 bits, in the 12 bytes behind two f16. */
static void six_bits(TsTileBuild *b, TsBlocksSpan *s) {
  V at = ts_tile_op2(b, TS_OP_add, by(b, TS_OP_add, s->at, 4), by(b, TS_OP_mod, s->sub, 4));
  V first = by(b, TS_OP_lt, s->sub, 4);
  V low = byte(b, s, at), mid = byte(b, s, by(b, TS_OP_add, at, 4)),
    rest = byte(b, s, by(b, TS_OP_add, at, 8));
  V scale =
      joined(b, low_bits(b, rest, 15), bits(b, TS_TILE_shl, bits(b, TS_TILE_shr, low, 6), 4));
  V least = joined(b, bits(b, TS_TILE_shr, rest, 4),
                   bits(b, TS_TILE_shl, bits(b, TS_TILE_shr, mid, 6), 4));
  scale = ts_tile_op3(b, TS_OP_where, first, low_bits(b, low, 63), scale);
  least = ts_tile_op3(b, TS_OP_where, first, low_bits(b, mid, 63), least);
  s->scale = ts_tile_op2(b, TS_OP_mul, half(b, s, 0), f32(b, scale));
  s->least = ts_tile_op2(b, TS_OP_mul, half(b, s, 2), f32(b, least));
}

TsBlocksSpan ts_blocks_span(TsTileBuild *b, TsDtype d, V memory, V span) {
  int64_t spans = ts_dtypes[d].block / TS_BLOCKS_SPAN;
  TsBlocksSpan s = {.d = d, .memory = memory};
  V block = spans > 1 ? by(b, TS_OP_floordiv, span, spans) : span;
  s.sub = spans > 1 ? by(b, TS_OP_mod, span, spans) : NULL;
  s.at = by(b, TS_OP_mul, block, ts_dtypes[d].nbytes);
  switch (d) {
  case TS_DT_mxfp4: s.scale = power(b, byte(b, &s, s.at)); break;
  case TS_DT_q4_1:
  case TS_DT_q5_1: s.scale = half(b, &s, 0), s.least = half(b, &s, 2); break;
  case TS_DT_q4_k:
  case TS_DT_q5_k: six_bits(b, &s); break;
  case TS_DT_q6_k: s.scale = half(b, &s, 208); break;
  default: s.scale = half(b, &s, 0); break;
  }
  return s;
}

TsBlocksSpan ts_blocks_span_apart(TsTileBuild *b, V codes, V scales, V span) {
  TsBlocksSpan s = {.d = TS_DT_mxfp4, .memory = codes};
  s.at = by(b, TS_OP_sub, by(b, TS_OP_mul, span, ts_dtypes[s.d].nbytes - 1), 1);
  s.scale = power(b, i32(b, ts_short_gather(b, scales, span, false)));
  return s;
}

/* ---- codes */
static V looked(TsTileBuild *b, V code, const double *table) {
  if (!code) return NULL;
  TsTileType t = ts_tile_type(TS_DT_f32, code->type.rank, code->type.dim);
  TsAttr a = ts_b_floats(table, 32);
  return ts_tile_emit1(b, TS_TILE_look, 1, &code, &a, &t);
}

static V offset(TsTileBuild *b, const TsBlocksSpan *s, int64_t first, V more) {
  return ts_tile_op2(b, TS_OP_add, by(b, TS_OP_add, s->at, first), more);
}

/* Byte i holds element i below and i + 16 above. */
static V of_halves(TsTileBuild *b, const TsBlocksSpan *s, int64_t first, V i) {
  return nibble(b, s, offset(b, s, first, by(b, TS_OP_mod, i, 16)),
                by(b, TS_OP_floordiv, i, 16));
}

/* Bit i of a word, as the fifth of a code. */
static V with_bit(TsTileBuild *b, const TsBlocksSpan *s, int64_t first, V i, V code) {
  V word = byte(b, s, offset(b, s, first, by(b, TS_OP_floordiv, i, 8)));
  V bit = low_bits(b, pair(b, TS_TILE_shr, word, i32(b, by(b, TS_OP_mod, i, 8))), 1);
  return joined(b, code, bits(b, TS_TILE_shl, bit, 4));
}

/* Of two spans 32 bytes hold the first one's codes below and the other's above. */
static V of_spans(TsTileBuild *b, const TsBlocksSpan *s, int64_t first, V i) {
  V at = ts_tile_op2(b, TS_OP_add, by(b, TS_OP_mul, by(b, TS_OP_floordiv, s->sub, 2), 32), i);
  return nibble(b, s, offset(b, s, first, at), by(b, TS_OP_mod, s->sub, 2));
}

static V of_five(TsTileBuild *b, const TsBlocksSpan *s, V i) {
  V word = byte(b, s, offset(b, s, 16, i));
  V bit = low_bits(b, pair(b, TS_TILE_shr, word, i32(b, s->sub)), 1);
  return joined(b, of_spans(b, s, 48, i), bits(b, TS_TILE_shl, bit, 4));
}

/* Of each half, 4 spans, 64 bytes with 4 bits of a code and 32 bytes with the 2 above. */
static V of_six(TsTileBuild *b, const TsBlocksSpan *s, V i) {
  V half_of = by(b, TS_OP_floordiv, s->sub, 4), part = by(b, TS_OP_mod, s->sub, 4);
  V low = ts_tile_op2(b, TS_OP_add, by(b, TS_OP_mul, half_of, 64),
                      by(b, TS_OP_mul, by(b, TS_OP_mod, part, 2), 32));
  V four = nibble(b, s, offset(b, s, 0, ts_tile_op2(b, TS_OP_add, low, i)),
                  by(b, TS_OP_floordiv, part, 2));
  V high = byte(b, s,
                offset(b, s, 128, ts_tile_op2(b, TS_OP_add, by(b, TS_OP_mul, half_of, 32), i)));
  V two = low_bits(b, pair(b, TS_TILE_shr, high, bits(b, TS_TILE_shl, i32(b, part), 1)), 3);
  return less(b, joined(b, four, bits(b, TS_TILE_shl, two, 4)), 32);
}

static V scale_of_six(TsTileBuild *b, const TsBlocksSpan *s, V i) {
  V at = ts_tile_op2(b, TS_OP_add, by(b, TS_OP_mul, s->sub, 2), by(b, TS_OP_floordiv, i, 16));
  return ts_tile_op2(b, TS_OP_mul, s->scale, f32(b, signed_byte(b, s, offset(b, s, 192, at))));
}

bool ts_blocks_known(TsDtype d) {
  switch (d) {
  case TS_DT_mxfp4:
  case TS_DT_q4_0:
  case TS_DT_q4_1:
  case TS_DT_q5_0:
  case TS_DT_q5_1:
  case TS_DT_q8_0:
  case TS_DT_iq4_nl:
  case TS_DT_q4_k:
  case TS_DT_q5_k:
  case TS_DT_q6_k: return true;
  default: return false;
  }
}

V ts_blocks_value(TsTileBuild *b, const TsBlocksSpan *s, V i) {
  static const double e2m1[32] = {0,    .5, 1,    1.5, 2,  3,    4,  6,  -0.0, -.5, -1,
                                  -1.5, -2, -3,   -4,  -6, 0,    .5, 1,  1.5,  2,   3,
                                  4,    6,  -0.0, -.5, -1, -1.5, -2, -3, -4,   -6};
  static const double iq4[32] = {-127, -104, -83, -65, -49, -35,  -22,  -10, 1,   13,  25,
                                 38,   53,   69,  89,  113, -127, -104, -83, -65, -49, -35,
                                 -22,  -10,  1,   13,  25,  38,   53,   69,  89,  113};
  V scale = s->scale, x = NULL;
  switch (s->d) {
  case TS_DT_mxfp4:
    x = looked(
        b, nibble(b, s, offset(b, s, 1, by(b, TS_OP_floordiv, i, 2)), by(b, TS_OP_mod, i, 2)),
        e2m1);
    break;
  case TS_DT_q4_0: x = f32(b, less(b, of_halves(b, s, 2, i), 8)); break;
  case TS_DT_q4_1: x = f32(b, of_halves(b, s, 4, i)); break;
  case TS_DT_q5_0: x = f32(b, less(b, with_bit(b, s, 2, i, of_halves(b, s, 6, i)), 16)); break;
  case TS_DT_q5_1: x = f32(b, with_bit(b, s, 4, i, of_halves(b, s, 8, i))); break;
  case TS_DT_q8_0: x = f32(b, signed_byte(b, s, offset(b, s, 2, i))); break;
  case TS_DT_iq4_nl: x = looked(b, of_halves(b, s, 2, i), iq4); break;
  case TS_DT_q4_k: x = f32(b, of_spans(b, s, 16, i)); break;
  case TS_DT_q5_k: x = f32(b, of_five(b, s, i)); break;
  default: x = f32(b, of_six(b, s, i)), scale = scale_of_six(b, s, i); break;
  }
  x = ts_tile_op2(b, TS_OP_mul, scale, x);
  bool below = s->d == TS_DT_q4_k || s->d == TS_DT_q5_k;
  return s->least ? ts_tile_op2(b, below ? TS_OP_sub : TS_OP_add, x, s->least) : x;
}
