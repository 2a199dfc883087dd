/* Products of bf16 by instructions that take two steps of k at once, for the profile "fast": what
 * the units of a CPU mean, by which `mma` names them.
 *
 * A word is two bf16: the even step's in its low half, the odd one's in its high half. Denormal
 * numbers are zeros, as operands and as what each operation gives; all round to nearest, ties to
 * even. Steps behind k are zeros of both operands. Of an element, with words in increasing k:
 *
 *   "avx512_bf16"  for each word a fused multiply-add of the odd step, then one of the even step
 *   "amx_bf16"     for each 16 words a chain of fused multiply-adds from +0 over the even steps and
 *                  one over the odd ones, whose sum is added to the element
 *
 * In block form a and b are bf16, as of any product. In explicit form those of "amx_bf16" are
 * registers of the matrix unit: fragments of 16 rows of 64 bytes, a i32[16 rows, 16 words], b
 * i32[16 words, 16 columns], acc f32[16,16]; "avx512_bf16" is the row `dot2` on vectors of
 * words there.
 *
 * Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, TDPBF16PS and VDPBF16PS;
 * of the latter, that multiply-adds are fused and the odd step comes first was measured (3 million
 * words of all kinds of numbers). */
#ifndef TS_IR_TILE_PAIRS_H
#define TS_IR_TILE_PAIRS_H

#include "ir/tile/tile.h"

typedef enum TsTilePairs { TS_PAIRS_none, TS_PAIRS_avx512_bf16, TS_PAIRS_amx_bf16 } TsTilePairs;

enum {
  TS_PAIRS_LINE = 16, /* rows of a register of the matrix unit, words of one */
  TS_PAIRS_LINE_BYTES = 64
};

/* By the unit's name, and of a statement; none of other units and other rows. */
TsTilePairs ts_tile_pairs_named(const char *unit);
TsTilePairs ts_tile_pairs_of(const TsTileStmt *s);

/* Whether t is what a register of the matrix unit holds. */
bool ts_tile_pairs_register(const TsTileType *t);

/* For the interpreter: acc[m,n] and the products of k steps, a[m,k]; b[k,n], or words: b[k/2,n]
 * of pairs. */
void ts_tile_run_pairs(TsTilePairs unit, int64_t m, int64_t n, int64_t k, const uint16_t *a,
                       const uint16_t *b, bool words, float *acc);

#endif
