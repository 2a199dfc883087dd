/* The vector vocabulary of the integer matrix kernels, for T = uint32_t or
 * uint64_t (unsigned, so that it wraps): the compiler's own vectors do, for no
 * integer product here is worth intrinsics. See gemm_simd_f32.h. */
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
  if (n == LANES) v_store(p, v);
  else memcpy(p, &v, (size_t)n * sizeof(T));
}
static inline V v_fma(V a, V b, V c) { return a * b + c; }

static inline void v_transpose(V r[LANES]) {
  T s[LANES * LANES];
  for (int i = 0; i < LANES; i++) v_store(s + i * LANES, r[i]);
  for (int i = 0; i < LANES; i++) {
    T t[LANES];
    for (int j = 0; j < LANES; j++) t[j] = s[j * LANES + i];
    r[i] = v_load(t);
  }
}

#define WIDEN(name, elem)                                                                      \
  static inline T name##_one(const elem *p) { return (T)*p; }                                  \
  static inline V name##_part(const elem *p, int n) {                                          \
    V v = {0};                                                                                 \
    for (int i = 0; i < n; i++) v[i] = (T)p[i];                                                \
    return v;                                                                                  \
  }                                                                                            \
  static inline V name##_load(const elem *p) {                                                 \
    typedef elem E __attribute__((vector_size(LANES * sizeof(elem))));                         \
    E e;                                                                                       \
    memcpy(&e, p, sizeof e);                                                                   \
    return __builtin_convertvector(e, V);                                                      \
  }
WIDEN(i8, int8_t)
WIDEN(u8, uint8_t)
WIDEN(i16, int16_t)
WIDEN(i32, int32_t)

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
