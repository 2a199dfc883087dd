/* Philox 4x32-10 on the 64-bit lanes of simd_f64.h: a lane holds one 32-bit word in
 * its low half, since the product that a round needs is 64 bits wide; what the upper
 * half holds does not matter until the end. Layout of the bits: random.h. */
#include "vm/kernels/simd/isa.h"
#include "vm/kernels/random.h"
#include "vm/kernels/simd/f64.h"

enum { SIDE = 16, VECTORS = SIDE / V_LANES, ROUNDS = 10 };

static const uint32_t MULTIPLY[2] = {0xD2511F53, 0xCD9E8D57};
static const uint32_t WEYL[2] = {0x9E3779B9, 0xBB67AE85};

/* One group: the blocks 16 group .. 16 group + 15, word w of all of them in c[w]. */
FN void philox(uint64_t seed, uint64_t stream, uint64_t group, I c[4][VECTORS]) {
  static const int64_t step[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  I lane, m0 = i_set(MULTIPLY[0]), m1 = i_set(MULTIPLY[1]);
  memcpy(&lane, step, sizeof lane);
  for (int v = 0; v < VECTORS; v++) {
    I block = i_add(i_set((int64_t)(group * SIDE) + v * V_LANES), lane);
    c[0][v] = block;
    c[1][v] = i_shr(block, 32);
    c[2][v] = i_set((int64_t)stream);
    c[3][v] = i_set((int64_t)(stream >> 32));
  }
  for (int round = 0; round < ROUNDS; round++) {
    I k0 = i_set(key[0]), k1 = i_set(key[1]);
    for (int v = 0; v < VECTORS; v++) {
      I p0 = i_mulwide(c[0][v], m0), p1 = i_mulwide(c[2][v], m1);
      c[0][v] = i_xor(i_xor(i_shr(p1, 32), c[1][v]), k0);
      c[2][v] = i_xor(i_xor(i_shr(p0, 32), c[3][v]), k1);
      c[1][v] = p1;
      c[3][v] = p0;
    }
    key[0] += WEYL[0], key[1] += WEYL[1];
  }
}

FN void store_low(uint32_t *out, const I *c) {
#if defined TS_ISA_avx512
  for (int v = 0; v < VECTORS; v++)
    _mm256_storeu_si256((__m256i *)(out + v * V_LANES), _mm512_cvtepi64_epi32(c[v]));
#else
  uint64_t wide[SIDE];
  memcpy(wide, c, sizeof wide);
  for (int i = 0; i < SIDE; i++) out[i] = (uint32_t)wide[i];
#endif
}

static void bits32(uint64_t seed, uint64_t stream, uint64_t group, int64_t count,
                   uint32_t *out) {
  I c[4][VECTORS];
  for (int64_t g = 0; g < count; g++, out += 4 * SIDE) {
    philox(seed, stream, group + (uint64_t)g, c);
    for (int w = 0; w < 4; w++) store_low(out + w * SIDE, c[w]);
  }
}

FN void store_pairs(uint64_t *out, const I *low, const I *high) {
  for (int v = 0; v < VECTORS; v++) {
    I x = i_or(i_and(low[v], i_set(0xffffffff)), i_shl(high[v], 32));
    memcpy(out + v * V_LANES, &x, sizeof x);
  }
}

static void bits64(uint64_t seed, uint64_t stream, uint64_t group, int64_t count,
                   uint64_t *out) {
  I c[4][VECTORS];
  for (int64_t g = 0; g < count; g++, out += 2 * SIDE) {
    philox(seed, stream, group + (uint64_t)g, c);
    store_pairs(out, c[0], c[1]);
    store_pairs(out + SIDE, c[2], c[3]);
  }
}

/* (bits >> 8) 2^-24 < p for integers: below the next whole number from p 2^24 up. */
static void below(int64_t n, uint8_t *y, const uint32_t *bits, double p) {
  uint32_t limit = (uint32_t)__builtin_ceil(p * 0x1p24);
  for (int64_t i = 0; i < n; i++) y[i] = (bits[i] >> 8) < limit;
}

void TS_ISA(ts_kernels_random)(TsRandomKernels *k) {
  k->bits32 = bits32;
  k->bits64 = bits64;
  k->below = below;
  TS_ISA(ts_random_fill_f32)(k);
  TS_ISA(ts_random_fill_f64)(k);
}
