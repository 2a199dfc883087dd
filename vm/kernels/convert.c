/* Conversions between element types. float to integer truncates, saturates and
 * takes NaN to 0; integer to narrower integer wraps; everything to a float rounds
 * once, to nearest even; to bool is "not zero", NaN included; complex to real
 * takes the real part, real to complex has imaginary part zero.
 *
 * A few pairs are loops of their own, the ones with memory speed in mind. All
 * others take two or three of them through a block in L1: the steps before the
 * last one are exact or round to odd (convert_bits.h), so the result is rounded
 * once. NaN: 8 and 16 bit results are one positive quiet NaN; wider results keep
 * the payload as the hardware does. */
#include "vm/kernels/convert.h"

#include <immintrin.h>

#include "lib/convert_bits.h"
#include "vm/kernels/blocks_read.h"
#include "vm/kernels/blocks_write.h"
#include "vm/kernels/simd/isa.h"

typedef uint8_t u8;
typedef int8_t i8;
typedef int16_t i16;
typedef uint16_t u16;
typedef int32_t i32;
typedef int64_t i64;
typedef float f32;
typedef double f64;

#define LOOP(name, D, S, expr)                                                                 \
  static void name(int64_t n, void *dst, const void *src) {                                    \
    D *restrict d = dst;                                                                       \
    const S *restrict s = src;                                                                 \
    for (int64_t i = 0; i < n; i++) {                                                          \
      const S x = s[i];                                                                        \
      d[i] = (D)(expr);                                                                        \
    }                                                                                          \
  }

/* ---- integers: narrowing ignores the sign of the target, so u8 and i8 share */
LOOP(u8_bool, u8, u8, x != 0)
LOOP(i16_bool, u8, i16, x != 0)
LOOP(i32_bool, u8, i32, x != 0)
LOOP(i64_bool, u8, i64, x != 0)
LOOP(u8_i16, i16, u8, x)
LOOP(u8_i32, i32, u8, x)
LOOP(u8_i64, i64, u8, x)
LOOP(i8_i16, i16, i8, x)
LOOP(i8_i32, i32, i8, x)
LOOP(i8_i64, i64, i8, x)
LOOP(i16_u8, u8, i16, x)
LOOP(i16_i32, i32, i16, x)
LOOP(i16_i64, i64, i16, x)
LOOP(i32_u8, u8, i32, x)
LOOP(i32_i16, i16, i32, x)
LOOP(i32_i64, i64, i32, x)
LOOP(i64_u8, u8, i64, x)
LOOP(i64_i16, i16, i64, x)
LOOP(i64_i32, i32, i64, x)

/* ---- to f32 */
LOOP(u8_f32, f32, u8, x)
LOOP(i8_f32, f32, i8, x)
LOOP(i16_f32, f32, i16, x)
LOOP(i32_f32, f32, i32, x)
LOOP(i64_f32, f32, i64, x)
LOOP(fp8_e4m3_f32, f32, u8, f32_of_e4m3(x))
LOOP(fp8_e5m2_f32, f32, u8, f32_of_e5m2(x))
LOOP(bf16_f32, f32, u16, f32_of_bf16(x))
LOOP(f64_f32, f32, f64, x)

/* ---- from f32 */
LOOP(f32_bool, u8, f32, x != 0)
LOOP(f32_u8, u8, f32, small_of_f32(x, 0, 255))
LOOP(f32_i8, i8, f32, small_of_f32(x, -128, 127))
LOOP(f32_i16, i16, f32, small_of_f32(x, -32768, 32767))
LOOP(f32_i32, i32, f32, i32_of_f32(x))
LOOP(f32_i64, i64, f32, i64_of_f32(x))
LOOP(f32_fp8_e4m3, u8, f32, e4m3_of_f32(x))
LOOP(f32_fp8_e5m2, u8, f32, e5m2_of_f32(x))
LOOP(f32_bf16, u16, f32, bf16_of_f32(x))
LOOP(f32_f64, f64, f32, x)

/* ---- f64, and the steps that round to odd */
LOOP(i32_f64, f64, i32, x)
LOOP(i64_f64, f64, i64, x)
LOOP(f64_bool, u8, f64, x != 0)
LOOP(f64_u8, u8, f64, i32_of_f64(x, 0, 255))
LOOP(f64_i8, i8, f64, i32_of_f64(x, -128, 127))
LOOP(f64_i16, i16, f64, i32_of_f64(x, -32768, 32767))
LOOP(f64_i32, i32, f64, i32_of_f64(x, -2147483648.0, 2147483647.0))
LOOP(f64_i64, i64, f64, i64_of_f64(x))
LOOP(f64_odd, f32, f64, f32_odd_of_f64(x))
LOOP(i32_odd, f32, i32, f32_odd_of_f64(x))
LOOP(i64_odd, f32, i64, f32_odd_of_f64(f64_odd_of_i64(x)))

/* ---- complex: pairs of numbers */
#define PARTS(C, R, T)                                                                         \
  static void C##_##R(int64_t n, void *dst, const void *src) {                                 \
    T *restrict d = dst;                                                                       \
    const T *restrict s = src;                                                                 \
    for (int64_t i = 0; i < n; i++) d[i] = s[2 * i];                                           \
  }                                                                                            \
  static void R##_##C(int64_t n, void *dst, const void *src) {                                 \
    T *restrict d = dst;                                                                       \
    const T *restrict s = src;                                                                 \
    for (int64_t i = 0; i < n; i++) d[2 * i] = s[i], d[2 * i + 1] = 0;                         \
  }                                                                                            \
  static void C##_bool(int64_t n, void *dst, const void *src) {                                \
    u8 *restrict d = dst;                                                                      \
    const T *restrict s = src;                                                                 \
    for (int64_t i = 0; i < n; i++) d[i] = s[2 * i] != 0 || s[2 * i + 1] != 0;                 \
  }

PARTS(complex64, f32, float)
PARTS(complex128, f64, double)

static void complex64_complex128(int64_t n, void *dst, const void *src) {
  f32_f64(2 * n, dst, src);
}

static void complex128_complex64(int64_t n, void *dst, const void *src) {
  f64_f32(2 * n, dst, src);
}

/* ---- f16: by instruction where there is one, with the same bits */
static void f16_f32(int64_t n, void *dst, const void *src) {
  float *restrict d = dst;
  const u16 *restrict s = src;
  int64_t i = 0;
#if defined TS_ISA_avx512
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(s + i))));
#elif defined TS_ISA_avx2
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(s + i))));
#endif
  for (; i < n; i++) d[i] = f32_of_f16(s[i]);
}

static void f32_f16(int64_t n, void *dst, const void *src) {
  u16 *restrict d = dst;
  const float *restrict s = src;
  int64_t i = 0;
#if defined TS_ISA_avx512
  for (; i + 16 <= n; i += 16) {
    __m512 x = _mm512_loadu_ps(s + i);
    __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    h = _mm256_mask_mov_epi16(h, nan, _mm256_set1_epi16(0x7e00));
    _mm256_storeu_si256((void *)(d + i), h);
  }
#elif defined TS_ISA_avx2
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps(s + i);
    __m128i h = _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT);
    __m256i wide = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m128i nan =
        _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
    h = _mm_blendv_epi8(h, _mm_set1_epi16(0x7e00), nan);
    _mm_storeu_si128((void *)(d + i), h);
  }
#endif
  for (; i < n; i++) d[i] = f16_of_f32(s[i]);
}

/* ---- identities by size */
#define COPY(name, bytes)                                                                      \
  static void name(int64_t n, void *dst, const void *src) {                                    \
    memcpy(dst, src, (size_t)n *bytes);                                                        \
  }
COPY(copy1, 1)
COPY(copy2, 2)
COPY(copy4, 4)
COPY(copy8, 8)
COPY(copy16, 16)

/* ---- the other pairs: two steps through a block */
enum { BLOCK = 512 };

static void two_steps(int64_t n, char *dst, const char *src, TsDtype to, TsDtype from,
                      TsConvertFn *first, TsConvertFn *second) {
  _Alignas(64) char buf[BLOCK * 16];
  int64_t src_step = ts_dtype_nbytes(from, BLOCK), dst_step = ts_dtype_nbytes(to, BLOCK);
  for (; n > 0; n -= BLOCK, src += src_step, dst += dst_step) {
    int64_t m = n < BLOCK ? n : BLOCK;
    first(m, buf, src);
    second(m, dst, buf);
  }
}

#define VIA(from, to, first, second)                                                           \
  static void from##_##to(int64_t n, void *dst, const void *src) {                             \
    two_steps(n, dst, src, TS_DT_##to, TS_DT_##from, first, second);                           \
  }

/* Types that f32 holds exactly, to and from everything else. */
#define SMALL_FLOAT(t)                                                                         \
  VIA(t, bool, t##_f32, f32_bool)                                                              \
  VIA(t, u8, t##_f32, f32_u8)                                                                  \
  VIA(t, i8, t##_f32, f32_i8)                                                                  \
  VIA(t, i16, t##_f32, f32_i16)                                                                \
  VIA(t, i32, t##_f32, f32_i32)                                                                \
  VIA(t, i64, t##_f32, f32_i64)                                                                \
  VIA(t, f64, t##_f32, f32_f64)                                                                \
  VIA(t, complex64, t##_f32, f32_complex64)                                                    \
  VIA(t, complex128, t##_f64, f64_complex128)                                                  \
  VIA(u8, t, u8_f32, f32_##t)                                                                  \
  VIA(i8, t, i8_f32, f32_##t)                                                                  \
  VIA(i16, t, i16_f32, f32_##t)                                                                \
  VIA(i32, t, i32_odd, f32_##t)                                                                \
  VIA(i64, t, i64_odd, f32_##t)                                                                \
  VIA(f64, t, f64_odd, f32_##t)                                                                \
  VIA(complex64, t, complex64_f32, f32_##t)                                                    \
  VIA(complex128, t, complex128_f64, f64_##t)

SMALL_FLOAT(fp8_e4m3)
SMALL_FLOAT(fp8_e5m2)
SMALL_FLOAT(f16)
SMALL_FLOAT(bf16)
VIA(fp8_e4m3, fp8_e5m2, fp8_e4m3_f32, f32_fp8_e5m2)
VIA(fp8_e4m3, f16, fp8_e4m3_f32, f32_f16)
VIA(fp8_e4m3, bf16, fp8_e4m3_f32, f32_bf16)
VIA(fp8_e5m2, fp8_e4m3, fp8_e5m2_f32, f32_fp8_e4m3)
VIA(fp8_e5m2, f16, fp8_e5m2_f32, f32_f16)
VIA(fp8_e5m2, bf16, fp8_e5m2_f32, f32_bf16)
VIA(f16, fp8_e4m3, f16_f32, f32_fp8_e4m3)
VIA(f16, fp8_e5m2, f16_f32, f32_fp8_e5m2)
VIA(f16, bf16, f16_f32, f32_bf16)
VIA(bf16, fp8_e4m3, bf16_f32, f32_fp8_e4m3)
VIA(bf16, fp8_e5m2, bf16_f32, f32_fp8_e5m2)
VIA(bf16, f16, bf16_f32, f32_f16)

/* What is stored in blocks, through f32, whose numbers its are (but for the largest of mxfp4). */
#define BLOCKS(t, size, bytes)                                                                 \
  VIA(t, f16, TS_ISA(ts_blocks_##t), f32_f16)                                                  \
  VIA(t, bf16, TS_ISA(ts_blocks_##t), f32_bf16)                                                \
  VIA(t, f64, TS_ISA(ts_blocks_##t), f32_f64)                                                  \
  static void t##_##t(int64_t n, void *dst, const void *src) {                                 \
    memcpy(dst, src, (size_t)(n / (size) * (bytes)));                                          \
  }
TS_BLOCK_FORMATS(BLOCKS)

#define INTEGER(t)                                                                             \
  VIA(t, complex64, t##_f32, f32_complex64)                                                    \
  VIA(t, complex128, t##_f64, f64_complex128)                                                  \
  VIA(complex64, t, complex64_f32, f32_##t)                                                    \
  VIA(complex128, t, complex128_f64, f64_##t)

VIA(u8, f64, u8_i32, i32_f64)
VIA(i8, f64, i8_i32, i32_f64)
VIA(i16, f64, i16_i32, i32_f64)
INTEGER(u8)
INTEGER(i8)
INTEGER(i16)
INTEGER(i32)
INTEGER(i64)
VIA(f32, complex128, f32_f64, f64_complex128)
VIA(f64, complex64, f64_f32, f32_complex64)
VIA(complex64, f64, complex64_f32, f32_f64)
VIA(complex128, f32, complex128_f64, f64_f32)

/* ---- names of the pairs that share another's code */
#define i8_bool u8_bool
#define u8_i8   copy1
#define i8_u8   copy1
#define i16_i8  i16_u8
#define i32_i8  i32_u8
#define i64_i8  i64_u8

#define TO(from, to)         [TS_DT_##to] = from##_##to
#define TO_SAME(from, bytes) [TS_DT_##from] = copy##bytes
#define TO_INT(f)            TO(f, bool), TO(f, u8), TO(f, i8), TO(f, i16), TO(f, i32), TO(f, i64)
#define TO_COMPLEX(f)        TO(f, complex64), TO(f, complex128)
#define TO_WIDE(f)           TO(f, f32), TO(f, f64), TO_COMPLEX(f)
#define TO_FLOAT(f)          TO(f, fp8_e4m3), TO(f, fp8_e5m2), TO(f, f16), TO(f, bf16), TO_WIDE(f)

void TS_ISA(ts_kernels_convert)(TsConvertKernels *k) {
  static const TsConvertKernels table = {
      {[TS_DT_u8] = {TO(u8, bool), TO_SAME(u8, 1), TO(u8, i8), TO(u8, i16), TO(u8, i32),
                     TO(u8, i64), TO_FLOAT(u8)},
       [TS_DT_i8] = {TO(i8, bool), TO_SAME(i8, 1), TO(i8, u8), TO(i8, i16), TO(i8, i32),
                     TO(i8, i64), TO_FLOAT(i8)},
       [TS_DT_i16] = {TO(i16, bool), TO(i16, u8), TO(i16, i8), TO_SAME(i16, 2), TO(i16, i32),
                      TO(i16, i64), TO_FLOAT(i16)},
       [TS_DT_i32] = {TO(i32, bool), TO(i32, u8), TO(i32, i8), TO(i32, i16), TO_SAME(i32, 4),
                      TO(i32, i64), TO_FLOAT(i32)},
       [TS_DT_i64] = {TO(i64, bool), TO(i64, u8), TO(i64, i8), TO(i64, i16), TO(i64, i32),
                      TO_SAME(i64, 8), TO_FLOAT(i64)},
       [TS_DT_fp8_e4m3] = {TO_INT(fp8_e4m3), TO_SAME(fp8_e4m3, 1), TO(fp8_e4m3, fp8_e5m2),
                           TO(fp8_e4m3, f16), TO(fp8_e4m3, bf16), TO_WIDE(fp8_e4m3)},
       [TS_DT_fp8_e5m2] = {TO_INT(fp8_e5m2), TO(fp8_e5m2, fp8_e4m3), TO_SAME(fp8_e5m2, 1),
                           TO(fp8_e5m2, f16), TO(fp8_e5m2, bf16), TO_WIDE(fp8_e5m2)},
       [TS_DT_f16] = {TO_INT(f16), TO(f16, fp8_e4m3), TO(f16, fp8_e5m2), TO_SAME(f16, 2),
                      TO(f16, bf16), TO_WIDE(f16)},
       [TS_DT_bf16] = {TO_INT(bf16), TO(bf16, fp8_e4m3), TO(bf16, fp8_e5m2), TO(bf16, f16),
                       TO_SAME(bf16, 2), TO_WIDE(bf16)},
       [TS_DT_f32] = {TO_INT(f32), TO(f32, fp8_e4m3), TO(f32, fp8_e5m2), TO(f32, f16),
                      TO(f32, bf16), TO_SAME(f32, 4), TO(f32, f64), TO_COMPLEX(f32)},
       [TS_DT_f64] = {TO_INT(f64), TO(f64, fp8_e4m3), TO(f64, fp8_e5m2), TO(f64, f16),
                      TO(f64, bf16), TO(f64, f32), TO_SAME(f64, 8), TO_COMPLEX(f64)},
       [TS_DT_complex64] = {TO_INT(complex64), TO(complex64, fp8_e4m3), TO(complex64, fp8_e5m2),
                            TO(complex64, f16), TO(complex64, bf16), TO(complex64, f32),
                            TO(complex64, f64), TO_SAME(complex64, 8),
                            TO(complex64, complex128)},
       [TS_DT_complex128] = {TO_INT(complex128), TO(complex128, fp8_e4m3),
                             TO(complex128, fp8_e5m2), TO(complex128, f16),
                             TO(complex128, bf16), TO(complex128, f32), TO(complex128, f64),
                             TO(complex128, complex64), TO_SAME(complex128, 16)},
#define FROM(t, size, bytes)                                                                   \
  [TS_DT_##t] = {TO(t, f16), TO(t, bf16), [TS_DT_f32] = TS_ISA(ts_blocks_##t), TO(t, f64),     \
                 TO(t, t)},
       TS_BLOCK_FORMATS(FROM)}};
  *k = table;
  k->convert[TS_DT_mxfp4][TS_DT_f64] = TS_ISA(ts_blocks_mxfp4_wide);
  TS_ISA(ts_blocks_write)(k);
  /* A bool is the number 0 or 1 in a byte. */
  memcpy(k->convert[TS_DT_bool], k->convert[TS_DT_u8], sizeof k->convert[TS_DT_bool]);
  k->convert[TS_DT_bool][TS_DT_bool] = copy1;
}
