/* Rotation of pairs: plain loops that compilers vectorise. */
#include "vm/kernels/rope.h"
#include "vm/kernels/simd/isa.h"

/* In place, a pair is read before it is written: no dependence between rounds. */
#ifdef __clang__
#define IVDEP
#else
#define IVDEP _Pragma("GCC ivdep")
#endif

#define ROPE(T, t, FMA)                                                                        \
  static void halves_##t(void *yp, const void *xp, int64_t half, const void *cp,               \
                         const void *sp) {                                                     \
    const T *x = xp, *c = cp, *s = sp;                                                         \
    T *y = yp;                                                                                 \
    IVDEP for (int64_t i = 0; i < half; i++) {                                                 \
      T a = x[i], b = x[i + half];                                                             \
      y[i] = FMA(a, c[i], -(b * s[i]));                                                        \
      y[i + half] = FMA(b, c[i], a * s[i]);                                                    \
    }                                                                                          \
  }                                                                                            \
  static void neighbours_##t(void *yp, const void *xp, int64_t half, const void *cp,           \
                             const void *sp) {                                                 \
    const T *x = xp, *c = cp, *s = sp;                                                         \
    T *y = yp;                                                                                 \
    IVDEP for (int64_t i = 0; i < half; i++) {                                                 \
      T a = x[2 * i], b = x[2 * i + 1];                                                        \
      y[2 * i] = FMA(a, c[i], -(b * s[i]));                                                    \
      y[2 * i + 1] = FMA(b, c[i], a * s[i]);                                                   \
    }                                                                                          \
  }

ROPE(float, f32, __builtin_fmaf)
ROPE(double, f64, __builtin_fma)

void TS_ISA(ts_kernels_rope)(TsRopeKernels *k) {
  k->halves[0] = halves_f32, k->halves[1] = halves_f64;
  k->neighbours[0] = neighbours_f32, k->neighbours[1] = neighbours_f64;
}
