/* Normalising by given statistics: plain loops that compilers vectorise, one for each choice of
 * what is there. */
#include "vm/kernels/batch_norm.h"
#include "vm/kernels/simd/isa.h"

#define LOOP(VALUE)                                                                            \
  for (int64_t i = 0; i < n; i++) y[i] = VALUE;                                                \
  return

#define BATCH_NORM(T, t, name, AT)                                                             \
  static void name##_##t(int64_t n, void *restrict yp, const void *restrict xp,                \
                         const void *mp, const void *sp, const void *wp, const void *bp) {     \
    const T *x = xp, *m = mp, *s = sp, *w = wp, *b = bp;                                       \
    T *restrict y = yp;                                                                        \
    if (w && b) {                                                                              \
      LOOP((x[i] - m[AT]) / s[AT] * w[AT] + b[AT]);                                            \
    }                                                                                          \
    if (w) {                                                                                   \
      LOOP((x[i] - m[AT]) / s[AT] * w[AT]);                                                    \
    }                                                                                          \
    if (b) {                                                                                   \
      LOOP((x[i] - m[AT]) / s[AT] + b[AT]);                                                    \
    }                                                                                          \
    LOOP((x[i] - m[AT]) / s[AT]);                                                              \
  }

BATCH_NORM(float, f32, run, 0)
BATCH_NORM(double, f64, run, 0)
BATCH_NORM(float, f32, columns, i)
BATCH_NORM(double, f64, columns, i)

void TS_ISA(ts_kernels_batch_norm)(TsBatchNormKernels *k) {
  k->run[0] = run_f32, k->run[1] = run_f64;
  k->columns[0] = columns_f32, k->columns[1] = columns_f64;
}
