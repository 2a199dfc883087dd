/* The few vector operations of the reduction trees, over one native register of
 * the instruction set: RF is W = RF_W floats, RD is RD_W doubles. + - * are the
 * compiler's. Shuffles are written so that each is one instruction. */
#ifndef TS_VM_KERNELS_REDUCE_VEC_H
#define TS_VM_KERNELS_REDUCE_VEC_H

#include "vm/kernels/simd/isa.h"

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#if defined TS_ISA_avx512
enum { REG = 64 };
#define UNROLL _Pragma("GCC unroll 16") /* 16 registers of accumulators */
#elif defined TS_ISA_avx2
enum { REG = 32 };
#define UNROLL
#else
enum { REG = 16 };
#define UNROLL
#endif
enum { RF_W = REG / 4, RD_W = REG / 8 };

typedef float RF __attribute__((vector_size(REG)));
typedef double RD __attribute__((vector_size(REG)));
typedef int32_t RI __attribute__((vector_size(REG)));
typedef int64_t RL __attribute__((vector_size(REG)));
typedef float RFu __attribute__((vector_size(REG), aligned(4), may_alias));
typedef double RDu __attribute__((vector_size(REG), aligned(8), may_alias));

INLINE RF rf_load(const float *p) { return *(const RFu *)p; }
INLINE RD rd_load(const double *p) { return *(const RDu *)p; }
INLINE void rf_store(float *p, RF v) { *(RFu *)p = v; }
INLINE void rd_store(double *p, RD v) { *(RDu *)p = v; }
INLINE RF rf_set(float x) { return x - (RF){0}; } /* x - 0 keeps -0 */
INLINE RD rd_set(double x) { return x - (RD){0}; }
INLINE RF rf_abs(RF x) { return (RF)((RI)x & 0x7fffffff); }
INLINE RD rd_abs(RD x) { return (RD)((RL)x & INT64_MAX); }

/* The first k < W elements at p; the other lanes are `fill`. Reads nothing beyond. */
INLINE RF rf_loadn(const float *p, int64_t k, RF fill) {
#if defined TS_ISA_avx512
  return (RF)_mm512_mask_loadu_ps((__m512)fill, (__mmask16)((1u << k) - 1), p);
#elif defined TS_ISA_avx2
  RI m = (RI){0, 1, 2, 3, 4, 5, 6, 7} < (int32_t)k;
  RF v = (RF)_mm256_maskload_ps(p, (__m256i)m);
  return (RF)(((RI)v & m) | ((RI)fill & ~m));
#else
  for (int64_t i = 0; i < k; i++) fill[i] = p[i];
  return fill;
#endif
}

INLINE RD rd_loadn(const double *p, int64_t k, RD fill) {
#if defined TS_ISA_avx512
  return (RD)_mm512_mask_loadu_pd((__m512d)fill, (__mmask8)((1u << k) - 1), p);
#elif defined TS_ISA_avx2
  RL m = (RL){0, 1, 2, 3} < k;
  RD v = (RD)_mm256_maskload_pd(p, (__m256i)m);
  return (RD)(((RL)v & m) | ((RL)fill & ~m));
#else
  for (int64_t i = 0; i < k; i++) fill[i] = p[i];
  return fill;
#endif
}

/* The transposing halves. halves(level, a, b, &l, &h): l and h such that op(l, h) holds
 * the halved a and the halved b. After the last level of RF_W registers, lane i has the
 * sum of the register that was fed as rf_feed[i]. */
#define SH __builtin_shufflevector
#if defined TS_ISA_avx512
enum { RF_LEVELS = 4, RD_LEVELS = 3 };
static const uint8_t rf_feed[RF_W] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
static const uint8_t rd_feed[RD_W] = {0, 4, 1, 5, 2, 6, 3, 7};
INLINE void rf_halves(int level, RF a, RF b, RF *l, RF *h) {
  if (level == 0) {
    *l = SH(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    *h = SH(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
  } else if (level == 1) {
    *l = SH(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
    *h = SH(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  } else if (level == 2) {
    *l = SH(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    *h = SH(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  } else {
    *l = SH(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30);
    *h = SH(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
  }
}
INLINE void rd_halves(int level, RD a, RD b, RD *l, RD *h) {
  if (level == 0) {
    *l = SH(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    *h = SH(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  } else if (level == 1) {
    *l = SH(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
    *h = SH(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
  } else {
    *l = SH(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    *h = SH(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  }
}
#elif defined TS_ISA_avx2
enum { RF_LEVELS = 3, RD_LEVELS = 2 };
static const uint8_t rf_feed[RF_W] = {0, 2, 4, 6, 1, 3, 5, 7};
static const uint8_t rd_feed[RD_W] = {0, 2, 1, 3};
INLINE void rf_halves(int level, RF a, RF b, RF *l, RF *h) {
  if (level == 0) {
    *l = SH(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
    *h = SH(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
  } else if (level == 1) {
    *l = SH(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
    *h = SH(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
  } else {
    *l = SH(a, b, 0, 2, 8, 10, 4, 6, 12, 14);
    *h = SH(a, b, 1, 3, 9, 11, 5, 7, 13, 15);
  }
}
INLINE void rd_halves(int level, RD a, RD b, RD *l, RD *h) {
  if (level == 0) {
    *l = SH(a, b, 0, 1, 4, 5);
    *h = SH(a, b, 2, 3, 6, 7);
  } else {
    *l = SH(a, b, 0, 4, 2, 6);
    *h = SH(a, b, 1, 5, 3, 7);
  }
}
#else
enum { RF_LEVELS = 2, RD_LEVELS = 1 };
static const uint8_t rf_feed[RF_W] = {0, 1, 2, 3};
static const uint8_t rd_feed[RD_W] = {0, 1};
INLINE void rf_halves(int level, RF a, RF b, RF *l, RF *h) {
  if (level == 0) {
    *l = SH(a, b, 0, 1, 4, 5);
    *h = SH(a, b, 2, 3, 6, 7);
  } else {
    *l = SH(a, b, 0, 2, 4, 6);
    *h = SH(a, b, 1, 3, 5, 7);
  }
}
INLINE void rd_halves(int level, RD a, RD b, RD *l, RD *h) {
  (void)level;
  *l = SH(a, b, 0, 2);
  *h = SH(a, b, 1, 3);
}
#endif

#endif
