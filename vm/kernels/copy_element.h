/* What copy.c and copy_transpose.c share: elements of 1, 2, 4, 8 and 16 bytes at any
 * address, loops over them, and lines written past the caches. */
#ifndef TS_VM_KERNELS_COPY_ELEMENT_H
#define TS_VM_KERNELS_COPY_ELEMENT_H

#include <immintrin.h>
#include <stdint.h>

#include "vm/kernels/simd/isa.h"

#define INLINE static inline __attribute__((always_inline))

enum { LINE = 64 };

/* Elements at any address, by size. */
typedef uint8_t elem1;
typedef uint16_t __attribute__((aligned(1), may_alias)) elem2;
typedef uint32_t __attribute__((aligned(1), may_alias)) elem4;
typedef uint64_t __attribute__((aligned(1), may_alias)) elem8;
typedef __m128i_u elem16;

/* call(1, args) to call(16, args) by elem_bytes */
#define BY_SIZE(bytes, call, ...)                                                              \
  switch (bytes) {                                                                             \
  case 1: call##1(__VA_ARGS__); break;                                                         \
  case 2: call##2(__VA_ARGS__); break;                                                         \
  case 4: call##4(__VA_ARGS__); break;                                                         \
  case 8: call##8(__VA_ARGS__); break;                                                         \
  default: call##16(__VA_ARGS__);                                                              \
  }

/* strided: any steps; gather and scatter: one side contiguous */
#define STRIDED(bytes)                                                                         \
  INLINE void strided##bytes(int64_t n, char *d, int64_t ds, const char *s, int64_t ss) {      \
    for (; n >= 4; n -= 4, d += 4 * ds, s += 4 * ss) {                                         \
      elem##bytes a = *(const elem##bytes *)s, b = *(const elem##bytes *)(s + ss);             \
      elem##bytes c = *(const elem##bytes *)(s + 2 * ss);                                      \
      elem##bytes e = *(const elem##bytes *)(s + 3 * ss);                                      \
      *(elem##bytes *)d = a, *(elem##bytes *)(d + ds) = b;                                     \
      *(elem##bytes *)(d + 2 * ds) = c, *(elem##bytes *)(d + 3 * ds) = e;                      \
    }                                                                                          \
    for (; n > 0; n--, d += ds, s += ss) *(elem##bytes *)d = *(const elem##bytes *)s;          \
  }                                                                                            \
  INLINE void gather##bytes(int64_t n, char *d, const char *s, int64_t ss) {                   \
    strided##bytes(n, d, bytes, s, ss);                                                        \
  }                                                                                            \
  INLINE void scatter##bytes(int64_t n, char *d, int64_t ds, const char *s) {                  \
    strided##bytes(n, d, ds, s, bytes);                                                        \
  }

STRIDED(1)
STRIDED(2)
STRIDED(4)
STRIDED(8)
STRIDED(16)

INLINE void copy_line(char *d, const char *s) {
#if defined TS_ISA_avx512
  _mm512_storeu_si512((void *)d, _mm512_loadu_si512((const void *)s));
#elif defined TS_ISA_avx2
  _mm256_storeu_si256((void *)d, _mm256_loadu_si256((const void *)s));
  _mm256_storeu_si256((void *)(d + 32), _mm256_loadu_si256((const void *)(s + 32)));
#else
  for (int i = 0; i < LINE; i += 16)
    _mm_storeu_si128((void *)(d + i), _mm_loadu_si128((const void *)(s + i)));
#endif
}

/* A line of d, which is aligned, past the caches. */
INLINE void stream_line(char *d, const char *s) {
#if defined TS_ISA_avx512
  _mm512_stream_si512((void *)d, _mm512_loadu_si512((const void *)s));
#elif defined TS_ISA_avx2
  __m256i a = _mm256_loadu_si256((const void *)s),
          b = _mm256_loadu_si256((const void *)(s + 32));
  _mm256_stream_si256((void *)d, a);
  _mm256_stream_si256((void *)(d + 32), b);
#else
  for (int i = 0; i < LINE; i += 16)
    _mm_stream_si128((void *)(d + i), _mm_loadu_si128((const void *)(s + i)));
#endif
}

/* TsCopyKernels.transpose, in copy_transpose.c. */
void TS_ISA(ts_copy_transpose)(int64_t rows, int64_t cols, void *dst, int64_t dr,
                               const void *src, int64_t sc, int bytes, int past_cache);

#endif
