/* Tiles of 6 rows by 4 vectors of bf16 pairs, and their panels. */
#include "vm/kernels/gemm/pairs.h"

#include <stddef.h>

#include "vm/kernels/simd/isa.h"

#if defined TS_ISA_avx512
#include "vm/kernels/gemm/simd_f32.h"

enum { RM = TS_PAIRS_ROWS, RN = TS_PAIRS_COLS, RV = RN / 16, PREFETCH = 32, SOON = 8 };

#if defined __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif
#define PAIRS  __attribute__((target("avx512bf16")))
#define INLINE static inline __attribute__((always_inline))

/* ---- packing */
static uint32_t pair_at(const uint16_t *x, int64_t ks, bool both) {
  return x[0] | (both ? (uint32_t)x[ks] << 16 : 0);
}

static void pack_any(uint32_t *dst, int width, const uint16_t *src, int64_t is, int64_t ks,
                     int64_t from, int64_t n, int64_t nk) {
  for (int64_t k = 0; k < nk; k += 2, dst += width)
    for (int64_t i = from; i < width; i++)
      dst[i] = i < n ? pair_at(src + i * is + k * ks, ks, k + 1 < nk) : 0;
}

/* 16 columns of two rows; of one where the other does not exist. */
INLINE __m512i join(const uint16_t *x, int64_t ks, bool both) {
  __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)x));
  if (!both) return low;
  __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(x + ks)));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/* Steps of k are rows in memory: two rows become one of pairs. */
INLINE void pack_rows(const int width, uint32_t *dst, const uint16_t *src, int64_t ks,
                      int64_t nk) {
  for (int64_t k = 0; k < nk; k += 2, src += 2 * ks, dst += width) {
    UNROLL for (int u = 0; u < width; u += 16)
        _mm512_storeu_si512(dst + u, join(src + u, ks, k + 1 < nk));
    for (int r = 0; r < 2; r++)
      for (int at = 0; at < 2 * width; at += 64) {
        uintptr_t next = (uintptr_t)src + (uintptr_t)((PREFETCH + r) * ks) * 2;
        __builtin_prefetch((const void *)(next + (uintptr_t)at));
      }
  }
}

/* Pairs lie side by side: squares of 16 x 16 of them are turned. */
static void pack_transposed(uint32_t *dst, int width, const uint16_t *src, int64_t is,
                            int64_t n, int64_t nk) {
  int64_t whole = nk / 32 * 32, i0 = 0;
  for (; i0 + 16 <= n; i0 += 16)
    for (int64_t k = 0; k < whole; k += 32) {
      V r[16];
      UNROLL for (int i = 0; i < 16; i++) {
        const uint16_t *x = src + (i0 + i) * is + k;
        r[i] = v_load((const float *)(const void *)x);
        __builtin_prefetch((const void *)((uintptr_t)x + 512));
      }
      v_transpose(r);
      UNROLL for (int p = 0; p < 16; p++)
          v_store((float *)(void *)(dst + (k / 2 + p) * width + i0), r[p]);
    }
  pack_any(dst, width, src, is, 1, i0, n, whole);
  pack_any(dst + whole / 2 * width, width, src + whole, is, 1, 0, n, nk - whole);
}

static void pack(uint32_t *dst, int width, const uint16_t *src, int64_t is, int64_t ks,
                 int64_t n, int64_t nk) {
  if (is == 1 && width == RN && n == RN)
    pack_rows(RN, dst, src, ks, nk);
  else if (is == 1 && width == RN / 2 && n == RN / 2)
    pack_rows(RN / 2, dst, src, ks, nk);
  else if (ks == 1)
    pack_transposed(dst, width, src, is, n, nk);
  else
    pack_any(dst, width, src, is, ks, 0, n, nk);
}

/* ---- tiles */
typedef bool TileFn(int64_t npair, const char *a, int64_t ars, int64_t acs, const uint32_t *b,
                    float *c, bool resume, uint16_t *dst, int64_t drs);

/* The instruction that rounds takes denormals for zeros and keeps payloads. */
enum { ODD = 0x01 | 0x20 | 0x80 }; /* quiet NaN, denormal, signalling NaN */

/* nv vectors of a row's sums as bf16; which of them are odd. */
INLINE PAIRS unsigned round_row(const int nv, const __m512 *x, uint16_t *y) {
  unsigned odd = 0;
  UNROLL for (int j = 0; j < nv; j++) odd |= _mm512_fpclass_ps_mask(x[j], ODD);
  UNROLL for (int j = 0; j + 1 < nv; j += 2)
      _mm512_storeu_si512(y + 16 * j, (__m512i)_mm512_cvtne2ps_pbh(x[j + 1], x[j]));
  if (nv % 2)
    _mm256_storeu_si256((void *)(y + 16 * (nv - 1)), (__m256i)_mm512_cvtneps_pbh(x[nv - 1]));
  return odd;
}

INLINE PAIRS bool body(const int rows, const int nv, int64_t npair, const char *a, int64_t ars,
                       int64_t acs, const uint32_t *b, float *c, bool resume, uint16_t *dst,
                       int64_t drs) {
  __m512 acc[RM][RV];
  const char *p[2] = {a, a + 3 * ars};
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++) {
    acc[i][j] = resume ? _mm512_loadu_ps(c + i * RN + 16 * j) : _mm512_setzero_ps();
  }
  for (int64_t k = 0; k < npair; k++, b += RN) {
    __m512bh y[RV];
    UNROLL for (int j = 0; j < nv; j++) y[j] = (__m512bh)_mm512_loadu_si512(b + 16 * j);
    UNROLL for (int j = 0; j < nv; j++) __builtin_prefetch(b + SOON * RN + 16 * j);
    UNROLL for (int i = 0; i < rows; i++) {
      int x;
      __builtin_memcpy(&x, p[i / 3] + (i % 3) * ars, sizeof x);
      __m512bh v = (__m512bh)_mm512_set1_epi32(x);
      UNROLL for (int j = 0; j < nv; j++) acc[i][j] = _mm512_dpbf16_ps(acc[i][j], v, y[j]);
    }
    p[0] += acs, p[1] += acs;
  }
  if (dst) {
    unsigned odd = 0;
    UNROLL for (int i = 0; i < rows; i++) odd |= round_row(nv, acc[i], dst + i * drs);
    if (!odd) return true;
  }
  UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < nv; j++) {
    _mm512_storeu_ps(c + i * RN + 16 * j, acc[i][j]);
  }
  return false;
}

#define TILE(rows, nv)                                                                         \
  PAIRS static bool tile_##rows##_##nv(int64_t npair, const char *a, int64_t ars, int64_t acs, \
                                       const uint32_t *b, float *c, bool resume,               \
                                       uint16_t *dst, int64_t drs) {                           \
    return body(rows, nv, npair, a, ars, acs, b, c, resume, dst, drs);                         \
  }
#define TILES(rows) TILE(rows, 1) TILE(rows, 2) TILE(rows, 3) TILE(rows, 4)
#define TILE_ROW(rows)                                                                         \
  { tile_##rows##_1, tile_##rows##_2, tile_##rows##_3, tile_##rows##_4 }
/* clang-format off */
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)

static bool tile(int rows, int cols, int64_t npair, const void *a, int64_t ars, int64_t acs,
                 const uint32_t *b, float *c, bool resume, void *dst, int64_t drs) {
  /* clang-format on */
  static TileFn *const tiles[RM][RV] = {TILE_ROW(1), TILE_ROW(2), TILE_ROW(3),
                                        TILE_ROW(4), TILE_ROW(5), TILE_ROW(6)};
  return tiles[rows - 1][(cols + 15) / 16 - 1](npair, a, ars, acs, b, c, resume, dst, drs);
}

/* ---- results */
PAIRS static bool store(int64_t rows, int64_t n, const float *c, int64_t crs, void *dst,
                        int64_t drs) {
  uint16_t *y = dst;
  unsigned odd = 0;
  for (int64_t i = 0; i < rows; i++, c += crs, y += drs) {
    int64_t j = 0;
    for (; j + 32 <= n; j += 32) {
      __m512 x[] = {_mm512_loadu_ps(c + j), _mm512_loadu_ps(c + j + 16)};
      odd |= round_row(2, x, y + j);
    }
    for (; j + 16 <= n; j += 16) {
      __m512 x[] = {_mm512_loadu_ps(c + j)};
      odd |= round_row(1, x, y + j);
    }
    if (j == n) continue;
    __mmask16 rest = (__mmask16)((1u << (n - j)) - 1);
    __m512 x = _mm512_maskz_loadu_ps(rest, c + j);
    odd |= _mm512_fpclass_ps_mask(x, ODD);
    _mm256_mask_storeu_epi16(y + j, rest, (__m256i)_mm512_cvtneps_pbh(x));
  }
  return !odd;
}

/* ---- few rows: some steps of k at a time over all columns, so that memory is read as long
 * streams, and sums wait in the first cache */
enum { STEPS = 16 };

INLINE PAIRS void few_rows(const int rows, int64_t n, int64_t nk, const char *a, int64_t ars,
                           int64_t acs, const uint16_t *b, int64_t ldb, float *c, int64_t crs,
                           bool resume) {
  for (int64_t k0 = 0; k0 < nk; k0 += STEPS, a += STEPS / 2 * acs, b += STEPS * ldb) {
    int64_t steps = nk - k0 < STEPS ? nk - k0 : STEPS;
    for (int64_t j = 0; j < n; j += RN) {
      __m512 acc[RM][RV];
      UNROLL for (int i = 0; i < rows; i++) UNROLL for (int u = 0; u < RV; u++) {
        const float *q = c + i * crs + j + 16 * u;
        acc[i][u] = resume || k0 ? _mm512_loadu_ps(q) : _mm512_setzero_ps();
      }
      for (int64_t k = 0; k < steps; k += 2) {
        __m512bh y[RV];
        UNROLL for (int u = 0; u < RV; u++) y[u] =
            (__m512bh)join(b + k * ldb + j + 16 * u, ldb, k + 1 < steps);
        UNROLL for (int i = 0; i < rows; i++) {
          int x;
          __builtin_memcpy(&x, a + i * ars + k / 2 * acs, sizeof x);
          __m512bh v = (__m512bh)_mm512_set1_epi32(x);
          UNROLL for (int u = 0; u < RV; u++) acc[i][u] = _mm512_dpbf16_ps(acc[i][u], v, y[u]);
        }
      }
      UNROLL for (int i = 0; i < rows; i++) UNROLL for (int u = 0; u < RV; u++) {
        _mm512_storeu_ps(c + i * crs + j + 16 * u, acc[i][u]);
      }
    }
  }
}

PAIRS static void few(int rows, int64_t n, int64_t nk, const void *a, int64_t ars, int64_t acs,
                      const uint16_t *b, int64_t ldb, float *c, int64_t crs, bool resume) {
#define FEW(r)                                                                                 \
  case r: few_rows(r, n, nk, a, ars, acs, b, ldb, c, crs, resume); return;
  switch (rows) {
    /* clang-format off */
    FEW(1) FEW(2) FEW(3) FEW(4) FEW(5)
  default: few_rows(6, n, nk, a, ars, acs, b, ldb, c, crs, resume);
    /* clang-format on */
  }
}
#endif

void TS_ISA(ts_kernels_gemm_pairs)(TsGemmPairsKernels *k) {
  *k = (TsGemmPairsKernels){.pack = NULL};
#if defined TS_ISA_avx512
  if (!__builtin_cpu_supports("avx512bf16")) return;
  k->pack = pack;
  k->tile = tile;
  k->few = few;
  k->store = store;
#endif
}
