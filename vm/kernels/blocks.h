/* Numbers stored in blocks: a scale or more for each, and a few bits for each of its elements. An
 * element is the number that f32 has nearest to what its format says; all of them are one rounding
 * of an exact product, or of the difference of two. Those of mxfp4 are exact, and reach beyond f32. n
 * is a multiple of the block. */
#ifndef TS_VM_KERNELS_BLOCKS_H
#define TS_VM_KERNELS_BLOCKS_H

#include <stdint.h>
#include <string.h>

#include "lib/convert_bits.h"

/* By format: elements of a block, bytes of a block, f32 of blocks, and blocks of f32. */
#define TS_BLOCK_FORMATS(X)                                                                    \
  X(mxfp4, 32, 17)                                                                             \
  X(q4_0, 32, 18)                                                                              \
  X(q4_1, 32, 20)                                                                              \
  X(q5_0, 32, 22)                                                                              \
  X(q5_1, 32, 24)                                                                              \
  X(q8_0, 32, 34)                                                                              \
  X(iq4_nl, 32, 18)                                                                            \
  X(q4_k, 256, 144)                                                                            \
  X(q5_k, 256, 176)                                                                            \
  X(q6_k, 256, 210)

static inline float ts_block_f16(const uint8_t *at) {
  uint16_t h;
  memcpy(&h, at, 2);
  return f32_of_f16(h);
}

/* Scale and minimum j of 8, of 6 bits each, in 12 bytes: of the first four in the low bits of a byte
 * each, of the others four bits in a byte of both and two above those of the first. */
static inline int ts_block_scale(const uint8_t *at, int j) {
  return j < 4 ? at[j] & 63 : (at[j + 4] & 15) | at[j - 4] >> 6 << 4;
}
static inline int ts_block_min(const uint8_t *at, int j) {
  return j < 4 ? at[j + 4] & 63 : at[j + 4] >> 4 | at[j] >> 6 << 4;
}

/* What a code of iq4_nl stands for, before the scale. */
static const signed char ts_block_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                             1,    13,   25,  38,  53,  69,  89,  113};

#endif
