/* See vm/kernels/blocks_dot.h. Lanes are rows of the matrix, so a lane's chain is one element of the result. Four bytes of
 * each row are a word of its lane, and codes are shifted out of them in the order of k: a byte holds two that are
 * 16 or 32 apart, so the lower halves of some bytes come first and then the upper ones. A step of a chain takes
 * as long as a fused multiply-add, so one row of x goes through two chains side by side. */
#include "vm/kernels/blocks_dot.h"

#include <string.h>

#include "vm/kernels/blocks.h"
#include "vm/kernels/blocks_read.h"
#include "vm/kernels/simd/isa.h"

#if defined TS_ISA_avx512 || defined TS_ISA_avx2
#include <immintrin.h>

typedef uint8_t u8;

#if defined TS_ISA_avx512
enum { LANES = 16 };
typedef __m512 F;
typedef __m512i I;
#define ZIP(how, a, b) _mm512_unpack##how(a, b)
#define SPLAT(x)       _mm512_set1_ps(x)
#define WORD(x)        _mm512_set1_epi32(x)
#define GATHER(at, by) _mm512_i32gather_epi32(by, at, 1)
#define AND(a, b)      _mm512_and_si512(a, b)
#define OR(a, b)       _mm512_or_si512(a, b)
#define SUB(a, b)      _mm512_sub_epi32(a, b)
#define RIGHT(a, n)    _mm512_srli_epi32(a, (unsigned)(n))
#define LEFT(a, n)     _mm512_slli_epi32(a, (unsigned)(n))
#define SIGNED(a, n)   _mm512_srai_epi32(a, (unsigned)(n))
#define FLOAT(a)       _mm512_cvtepi32_ps(a)
#define MUL(a, b)      _mm512_mul_ps(a, b)
#define FMA(a, b, c)   _mm512_fmadd_ps(a, b, c)
#define FMS(a, b, c)   _mm512_fmsub_ps(a, b, c)
#define LOAD(p)        _mm512_loadu_si512(p)
#define STORE(p, x)    _mm512_storeu_ps(p, x)
/* f16 in the lower half of each word. */
static inline F half(I a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }
#else
enum { LANES = 8 };
typedef __m256 F;
typedef __m256i I;
#define ZIP(how, a, b) _mm256_unpack##how(a, b)
#define SPLAT(x)       _mm256_set1_ps(x)
#define WORD(x)        _mm256_set1_epi32(x)
#define GATHER(at, by) _mm256_i32gather_epi32((const int *)(at), by, 1)
#define AND(a, b)      _mm256_and_si256(a, b)
#define OR(a, b)       _mm256_or_si256(a, b)
#define SUB(a, b)      _mm256_sub_epi32(a, b)
#define RIGHT(a, n)    _mm256_srli_epi32(a, n)
#define LEFT(a, n)     _mm256_slli_epi32(a, n)
#define SIGNED(a, n)   _mm256_srai_epi32(a, n)
#define FLOAT(a)       _mm256_cvtepi32_ps(a)
#define MUL(a, b)      _mm256_mul_ps(a, b)
#define FMA(a, b, c)   _mm256_fmadd_ps(a, b, c)
#define FMS(a, b, c)   _mm256_fmsub_ps(a, b, c)
#define LOAD(p)        _mm256_loadu_si256((const void *)(p))
#define STORE(p, x)    _mm256_storeu_ps(p, x)
static inline F half(I a) {
  I low = AND(a, WORD(0xffff));
  __m128i both =
      _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  return _mm256_cvtph_ps(both);
}
#endif

#define INLINE static inline __attribute__((always_inline))
/* Shifts and words are constants then, and words stay in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* What a block is added to: rows of x from its first element on, a sum each. */
typedef struct Rows {
  const int32_t *at; /* of the lanes' rows in w, bytes */
  const float *x[TS_BLOCKS_DOT_ROWS];
  F acc[TS_BLOCKS_DOT_ROWS];
} Rows;

INLINE void add(Rows *r, int m, int k, F w) {
  for (int i = 0; i < m; i++) r->acc[i] = FMA(SPLAT(r->x[i][k]), w, r->acc[i]);
}

/* 16 bytes of each lane's row as four words a lane: loads and a transpose of four by four, which are
 * less work than four gathers. */
INLINE I every_fourth(const u8 *s, const int32_t *at) {
#define ROW(i) _mm_loadu_si128((const void *)(s + at[4 * (i)]))
#if defined TS_ISA_avx512
  I a = _mm512_inserti32x4(_mm512_castsi128_si512(ROW(0)), ROW(1), 1);
  return _mm512_inserti32x4(_mm512_inserti32x4(a, ROW(2), 2), ROW(3), 3);
#else
  return _mm256_inserti128_si256(_mm256_castsi128_si256(ROW(0)), ROW(1), 1);
#endif
#undef ROW
}

INLINE void quads(const u8 *s, const int32_t *at, I *q) {
  I a = every_fourth(s, at), b = every_fourth(s, at + 1), c = every_fourth(s, at + 2),
    d = every_fourth(s, at + 3);
  I ab = ZIP(lo_epi32, a, b), cd = ZIP(lo_epi32, c, d), ef = ZIP(hi_epi32, a, b),
    gh = ZIP(hi_epi32, c, d);
  q[0] = ZIP(lo_epi64, ab, cd), q[1] = ZIP(hi_epi64, ab, cd);
  q[2] = ZIP(lo_epi64, ef, gh), q[3] = ZIP(hi_epi64, ef, gh);
}

INLINE I code(I words, int shift, int bits) {
  return AND(RIGHT(words, shift), WORD((1 << bits) - 1));
}

/* ---- a block of each format, at s for lane 0 */
INLINE void q4_0_block(const u8 *s, I by, Rows *r, int m) {
  F d = half(GATHER(s, by));
  I q[4];
  quads(s + 2, r->at, q);
  UNROLL for (int k = 0; k < 32; k++) {
    I c = code(q[k % 16 / 4], k % 4 * 8 + k / 16 * 4, 4);
    add(r, m, k, MUL(d, FLOAT(SUB(c, WORD(8)))));
  }
}

INLINE void q4_1_block(const u8 *s, I by, Rows *r, int m) {
  I both = GATHER(s, by);
  F d = half(both), least = half(RIGHT(both, 16));
  I q[4];
  quads(s + 4, r->at, q);
  UNROLL for (int k = 0; k < 32; k++)
      add(r, m, k, FMA(d, FLOAT(code(q[k % 16 / 4], k % 4 * 8 + k / 16 * 4, 4)), least));
}

INLINE void q8_0_block(const u8 *s, I by, Rows *r, int m) {
  F d = half(GATHER(s, by));
  I q[8];
  quads(s + 2, r->at, q), quads(s + 18, r->at, q + 4);
  UNROLL for (int j = 0; j < 8; j++) {
    UNROLL for (int b = 0; b < 4; b++)
        add(r, m, 4 * j + b, MUL(d, FLOAT(SIGNED(LEFT(q[j], 24 - 8 * b), 24))));
  }
}

/* 32 elements, of which the codes are the lower or the upper halves of bytes. */
INLINE void nibbles(const u8 *s, int upper, Rows *r, int m, int k, F d, F less) {
  I q[8];
  quads(s, r->at, q), quads(s + 16, r->at, q + 4);
  UNROLL for (int j = 0; j < 8; j++) {
    UNROLL for (int b = 0; b < 4; b++)
        add(r, m, k + 4 * j + b, FMS(d, FLOAT(code(q[j], 8 * b + 4 * upper, 4)), less));
  }
}

INLINE void q4_k_block(const u8 *s, I by, Rows *r, int m) {
  I both = GATHER(s, by), low = GATHER(s + 4, by), min = GATHER(s + 8, by),
    rest = GATHER(s + 12, by);
  F d = half(both), least = half(RIGHT(both, 16));
  UNROLL for (int j = 0; j < 8; j++) {
    int at = j % 4 * 8;
    I scale = j < 4 ? code(low, at, 6) : OR(code(rest, at, 4), LEFT(code(low, at + 6, 2), 4));
    I under =
        j < 4 ? code(min, at, 6) : OR(code(rest, at + 4, 4), LEFT(code(min, at + 6, 2), 4));
    nibbles(s + 16 + j / 2 * 32, j % 2, r, m, 32 * j, MUL(d, FLOAT(scale)),
            MUL(least, FLOAT(under)));
  }
}

INLINE void q6_k_block(const u8 *s, I by, Rows *r, int m) {
  F d = half(RIGHT(GATHER(s + 206, by), 16));
  for (int part = 0; part < 8; part++) { /* of 32 elements */
    int p = part % 4;
    const u8 *low = s + part / 4 * 64 + p % 2 * 32, *high = s + 128 + part / 4 * 32;
    I scales = GATHER(s + 192 + 4 * (part / 2), by);
    UNROLL for (int j = 0; j < 8; j++) {
      I four = GATHER(low + 4 * j, by), two = GATHER(high + 4 * j, by);
      int at = part % 2 * 16 + j / 4 * 8;
      F by_scale = MUL(d, FLOAT(SIGNED(LEFT(scales, 24 - at), 24)));
      UNROLL for (int b = 0; b < 4; b++) {
        I c = OR(code(four, 8 * b + p / 2 * 4, 4), LEFT(code(two, 8 * b + 2 * p, 2), 4));
        add(r, m, 32 * part + 4 * j + b, MUL(by_scale, FLOAT(SUB(c, WORD(32)))));
      }
    }
  }
}

/* ---- all blocks of some rows */
/* Rows behind those at work, which are read next and lie in a row: gathers of lanes that are far
 * from each other show the processor no order that it could foresee. */
INLINE void fetch(const u8 **next, int64_t nbytes) {
  for (int64_t i = 0; i < nbytes; i += 64) _mm_prefetch((const char *)*next + i, _MM_HINT_T0);
  *next += nbytes;
}

/* A row of w behind the last one is the last one, and is not stored. */
#define DOT(name, size, bytes, M)                                                              \
  static void name##_##M(const u8 *w, int64_t step, int n, int64_t k, const float *x,          \
                         int64_t x_step, float *y, int64_t y_step) {                           \
    int32_t at[LANES];                                                                         \
    float out[LANES];                                                                          \
    Rows r;                                                                                    \
    for (int i = 0; i < LANES; i++) at[i] = (int32_t)((i < n ? i : n - 1) * step);             \
    for (int i = 0; i < M; i++) r.x[i] = x + i * x_step, r.acc[i] = SPLAT(0);                  \
    r.at = at;                                                                                 \
    I by = LOAD(at);                                                                           \
    const u8 *next = w + LANES * step;                                                         \
    for (int64_t b = 0; b < k; b += (size), w += (bytes)) {                                    \
      fetch(&next, LANES *(bytes));                                                            \
      name##_block(w, by, &r, M);                                                              \
      for (int i = 0; i < M; i++) r.x[i] += (size);                                            \
    }                                                                                          \
    for (int i = 0; i < M; i++) {                                                              \
      STORE(out, r.acc[i]);                                                                    \
      memcpy(y + i * y_step, out, sizeof *out * (size_t)n);                                    \
    }                                                                                          \
  }
/* One row of x and twice as many rows of w: two chains, of which one goes on while the other waits. */
#define PAIR(name, size, bytes)                                                                \
  static void name##_pair(const u8 *w, int64_t step, int64_t k, const float *x, float *y) {    \
    int32_t at[LANES];                                                                         \
    Rows r[2];                                                                                 \
    for (int i = 0; i < LANES; i++) at[i] = (int32_t)(i * step);                               \
    for (int i = 0; i < 2; i++) r[i].x[0] = x, r[i].acc[0] = SPLAT(0), r[i].at = at;           \
    I by = LOAD(at);                                                                           \
    const u8 *other = w + LANES * step, *next = other + LANES * step;                          \
    for (int64_t b = 0; b < k; b += (size), w += (bytes), other += (bytes)) {                  \
      fetch(&next, 2 * LANES * (bytes));                                                       \
      name##_block(w, by, &r[0], 1);                                                           \
      name##_block(other, by, &r[1], 1);                                                       \
      r[0].x[0] += (size), r[1].x[0] += (size);                                                \
    }                                                                                          \
    STORE(y, r[0].acc[0]);                                                                     \
    STORE(y + LANES, r[1].acc[0]);                                                             \
  }
#define DOTS(name, size, bytes)                                                                \
  DOT(name, size, bytes, 1)                                                                    \
  DOT(name, size, bytes, 2)                                                                    \
  DOT(name, size, bytes, 3)                                                                    \
  DOT(name, size, bytes, 4)                                                                    \
  PAIR(name, size, bytes)                                                                      \
  static void name(const void *w, int64_t step, int64_t n, int64_t k, int m, const float *x,   \
                   int64_t x_step, float *y, int64_t y_step) {                                 \
    int64_t j = 0;                                                                             \
    for (; m == 1 && n - j >= 2 * LANES; j += 2 * LANES)                                       \
      name##_pair((const u8 *)w + j * step, step, k, x, y + j);                                \
    for (; j < n; j += LANES) {                                                                \
      const u8 *at = (const u8 *)w + j * step;                                                 \
      int some = (int)(n - j < LANES ? n - j : LANES);                                         \
      if (m == 1) name##_1(at, step, some, k, x, x_step, y + j, y_step);                       \
      if (m == 2) name##_2(at, step, some, k, x, x_step, y + j, y_step);                       \
      if (m == 3) name##_3(at, step, some, k, x, x_step, y + j, y_step);                       \
      if (m == 4) name##_4(at, step, some, k, x, x_step, y + j, y_step);                       \
    }                                                                                          \
  }
DOTS(q4_0, 32, 18)
DOTS(q4_1, 32, 20)
DOTS(q8_0, 32, 34)
DOTS(q4_k, 256, 144)
DOTS(q6_k, 256, 210)

void TS_ISA(ts_kernels_blocks_dot)(TsBlocksDotKernels *k) {
  *k = (TsBlocksDotKernels){.lanes = LANES,
                            .dot = {[TS_DT_q4_0] = q4_0,
                                    [TS_DT_q4_1] = q4_1,
                                    [TS_DT_q8_0] = q8_0,
                                    [TS_DT_q4_k] = q4_k,
                                    [TS_DT_q6_k] = q6_k}};
}

#else

void TS_ISA(ts_kernels_blocks_dot)(TsBlocksDotKernels *k) {
  *k = (TsBlocksDotKernels){.lanes = 1};
}

#endif
