/* Panels of convolutions. Output positions of one row of an image lie side by side in
 * memory, so a group of columns is a few runs, the same for every tap: each is one
 * masked load, and where there is one run for all, a plain one. */
#include "vm/kernels/conv.h"
#include "vm/kernels/simd/isa.h"

#include <string.h>
#ifndef TS_ISA_base
#include <immintrin.h>
#endif

typedef struct Pair {
  uint64_t part[2];
} Pair;

/* Columns that have no run in common with their neighbours, one by one. */
#define SINGLE(name, T)                                                                        \
  static void name(T *dst, int64_t width, int64_t n, const T *x, const int64_t *tap,           \
                   int64_t nk, const int64_t *at, int64_t zeros) {                             \
    for (int64_t k = 0; k < nk; k++, dst += width) {                                           \
      const T *p = x + tap[k];                                                                 \
      for (int64_t i = 0; i < n; i++) dst[i] = p[at[i]];                                       \
      memset(dst + n, 0, (size_t)zeros * sizeof(T));                                           \
    }                                                                                          \
  }

SINGLE(single_4, uint32_t)
SINGLE(single_8, uint64_t)
SINGLE(single_16, Pair)

/* Columns of a panel in runs: copies of whole pieces. */
#define PANEL(name, single, T)                                                                 \
  static void name(void *to, int64_t width, const void *from, const int64_t *tap, int64_t nk,  \
                   const int64_t *at, int64_t n) {                                             \
    T *dst = to;                                                                               \
    const T *x = from;                                                                         \
    int64_t run = 1;                                                                           \
    while (run < n && at[run] == at[run - 1] + 1) run++;                                       \
    if (run < n || n < 1) {                                                                    \
      single(dst, width, n, x, tap, nk, at, width - n);                                        \
      return;                                                                                  \
    }                                                                                          \
    for (int64_t k = 0; k < nk; k++, dst += width) {                                           \
      memcpy(dst, x + tap[k] + at[0], (size_t)n * sizeof(T));                                  \
      memset(dst + n, 0, (size_t)(width - n) * sizeof(T));                                     \
    }                                                                                          \
  }

PANEL(panel_8, single_8, uint64_t)
PANEL(panel_16, single_16, Pair)

#ifdef TS_ISA_base

PANEL(panel_4, single_4, uint32_t)

#else

#if defined TS_ISA_avx512
enum { LANES = 16 };
typedef __m512 V;
typedef __mmask16 Mask;
static inline Mask lanes(int lo, int hi) { return (Mask)((1u << hi) - (1u << lo)); }
static inline V load(const float *p) { return _mm512_loadu_ps(p); }
static inline V load_lanes(Mask m, const float *p) { return _mm512_maskz_loadu_ps(m, p); }
static inline V both(V a, V b) { return _mm512_or_ps(a, b); }
static inline void store(float *p, V v) { _mm512_storeu_ps(p, v); }
#else
enum { LANES = 8 };
typedef __m256 V;
typedef __m256i Mask;
static inline Mask lanes(int lo, int hi) {
  __m256i i = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  __m256i from = _mm256_cmpgt_epi32(i, _mm256_set1_epi32(lo - 1));
  return _mm256_and_si256(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(hi), i));
}
static inline V load(const float *p) { return _mm256_loadu_ps(p); }
static inline V load_lanes(Mask m, const float *p) { return _mm256_maskload_ps(p, m); }
static inline V both(V a, V b) { return _mm256_or_ps(a, b); }
static inline void store(float *p, V v) { _mm256_storeu_ps(p, v); }
#endif

enum { MOST_RUNS = 4 };

/* Where a group of up to LANES columns lies: lane j of run r is x[tap + offset[r] + j]. */
typedef struct Runs {
  int count;
  Mask mask[MOST_RUNS];
  int64_t offset[MOST_RUNS];
} Runs;

static int find_runs(Runs *r, const int64_t *at, int n) {
  r->count = 0;
  for (int i = 0, j; i < n; i = j) {
    for (j = i + 1; j < n && at[j] == at[j - 1] + 1; j++) {
    }
    if (r->count == MOST_RUNS) return 0;
    r->mask[r->count] = lanes(i, j);
    r->offset[r->count++] = at[i] - i;
  }
  return 1;
}

/* Stores may run over into the next rows of dst, which are written later; the last rows
 * go through a buffer. Columns [i0, i0 + w) of the panel belong to the group. */
static void group(float *dst, int64_t width, int64_t i0, int w, const float *x,
                  const int64_t *tap, int64_t nk, const Runs *r) {
  float last[LANES];
  for (int64_t k = 0; k < nk; k++) {
    const float *p = x + tap[k];
    V v = load_lanes(r->mask[0], p + r->offset[0]);
    for (int i = 1; i < r->count; i++) v = both(v, load_lanes(r->mask[i], p + r->offset[i]));
    if (w < LANES && (nk - k) * width - i0 < LANES) {
      store(last, v);
      memcpy(dst + k * width, last, (size_t)w * sizeof *dst);
    } else {
      store(dst + k * width, v);
    }
  }
}

static void whole_group(float *dst, int64_t width, const float *x, const int64_t *tap,
                        int64_t nk) {
  for (int64_t k = 0; k < nk; k++, dst += width) store(dst, load(x + tap[k]));
}

/* Groups from the right to the left would be wrong: a group's stores run into the
 * columns on its right, so the groups on the right come later. */
static void panel_4(void *to, int64_t width, const void *from, const int64_t *tap, int64_t nk,
                    const int64_t *at, int64_t n) {
  float *dst = to;
  const float *x = from;
  Runs r;
  if (nk == 0) return;
  for (int64_t i = 0; i < width; i += LANES) {
    int w = (int)(width - i < LANES ? width - i : LANES);
    int have = (int)(n - i < 0 ? 0 : n - i < w ? n - i : w);
    if (have == LANES && at[i + LANES - 1] == at[i] + LANES - 1) {
      whole_group(dst + i, width, x + at[i], tap, nk);
    } else if (have == 0) {
      for (int64_t k = 0; k < nk; k++) memset(dst + k * width + i, 0, (size_t)w * sizeof *dst);
    } else if (find_runs(&r, at + i, have)) {
      group(dst + i, width, i, w, x, tap, nk, &r);
    } else {
      single_4((uint32_t *)(void *)(dst + i), width, have, (const uint32_t *)(const void *)x,
               tap, nk, at + i, w - have);
    }
  }
}

#endif

void TS_ISA(ts_kernels_conv)(TsConvKernels *k) {
  k->panel[0] = panel_4, k->panel[1] = panel_8, k->panel[2] = panel_16;
  k->plane[0] = TS_ISA(ts_conv_plane_f32);
  k->plane[1] = TS_ISA(ts_conv_plane_f64);
  k->lay[0] = TS_ISA(ts_conv_lay_f32);
  k->lay[1] = TS_ISA(ts_conv_lay_f64);
  k->lane_sums[0] = TS_ISA(ts_conv_lane_sums_f32);
  k->lane_sums[1] = TS_ISA(ts_conv_lane_sums_f64);
  k->lanes[0] = TS_ISA(ts_conv_lanes_f32);
  k->lanes[1] = TS_ISA(ts_conv_lanes_f64);
}
