/* The vector vocabulary of the integer matrix kernels, for T = uint32_t or
 * uint64_t (unsigned, so that it wraps): the compiler's own vectors do, for no
 * integer product here is worth intrinsics. See vm/kernels/gemm/simd_f32.h. */
#ifndef TS_VM_KERNELS_GEMM_SIMD_INT_H
#define TS_VM_KERNELS_GEMM_SIMD_INT_H

#include <stdint.h>
#include <string.h>

#if defined TS_ISA_avx512
enum { LANES = 64 / sizeof(T), MR = 12, NV = 2 };
#elif defined TS_ISA_avx2
enum { LANES = 32 / sizeof(T), MR = 6, NV = 2 };
#else
enum { LANES = 16 / sizeof(T), MR = 4, NV = 4 };
#endif
typedef T V __attribute__((vector_size(LANES * sizeof(T))));

static inline V v_zero(void) { return (V){0}; }
static inline V v_set1(T x) { return x - (V){0}; }
static inline V v_load(const T *p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
static inline V v_part(const T *p, int n) {
  V v = {0};
  memcpy(&v, p, (size_t)n * sizeof(T));
  return v;
}
static inline void v_store(T *p, V v) { memcpy(p, &v, sizeof v); }
static inline void v_store_part(T *p, V v, int n) {
  if (n == LANES)
    v_store(p, v);
  else
    memcpy(p, &v, (size_t)n * sizeof(T));
}
static inline V v_fma(V a, V b, V c) { return a * b + c; }

/* TsGemmPack of an integer type; 16 steps of k at a time, for the caches' sake. */
#define PACK(name, elem)                                                                       \
  static void name(void *dst, int width, const void *src, int64_t is, int64_t ks, int64_t n,   \
                   int64_t nk) {                                                               \
    for (int64_t k0 = 0; k0 < nk; k0 += 16) {                                                  \
      int64_t steps = nk - k0 < 16 ? nk - k0 : 16;                                             \
      const elem *s = (const elem *)src + k0 * ks;                                             \
      T *d = (T *)dst + k0 * width;                                                            \
      for (int64_t k = 0; is == 1 && k < steps; k++) {                                         \
        for (int64_t i = 0; i < n; i++) d[k * width + i] = (T)s[k * ks + i];                   \
      }                                                                                        \
      for (int64_t i = 0; is != 1 && i < n; i++) {                                             \
        for (int64_t k = 0; k < steps; k++) d[k * width + i] = (T)s[i * is + k * ks];          \
      }                                                                                        \
      for (int64_t k = 0; k < steps; k++) {                                                    \
        for (int64_t i = n; i < width; i++) d[k * width + i] = 0;                              \
      }                                                                                        \
    }                                                                                          \
  }
PACK(i8_pack, int8_t)
PACK(u8_pack, uint8_t)
PACK(i16_pack, int16_t)
PACK(i32_pack, int32_t)

#define STORE(name, elem)                                                                      \
  static void name(void *dst, int64_t ds, const void *acc, int64_t n) {                        \
    elem *d = dst;                                                                             \
    const T *a = acc;                                                                          \
    for (int64_t j = 0; j < n; j++) d[j * ds] = (elem)a[j];                                    \
  }
STORE(store_i8, uint8_t)
STORE(store_i16, uint16_t)
STORE(store_i32, uint32_t)

#endif
