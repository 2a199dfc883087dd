/* Numbers of few bits as f32, and their scales. Plain loops, which the compiler has vectors for. */
#include "vm/kernels/scaled.h"

#include "vm/kernels/simd/isa.h"

static void halves_i8(int64_t n, float *restrict y, const void *from) {
  const int8_t *restrict q = from;
  for (int64_t i = 0; i < n; i++) {
    y[2 * i] = (float)((int)((unsigned)q[i] << 28) >> 28);
    y[2 * i + 1] = (float)(q[i] >> 4);
  }
}

static void halves_u8(int64_t n, float *restrict y, const void *from) {
  const uint8_t *restrict q = from;
  for (int64_t i = 0; i < n; i++) {
    y[2 * i] = (float)(q[i] & 15);
    y[2 * i + 1] = (float)(q[i] >> 4);
  }
}

static inline __attribute__((always_inline)) void group(int64_t n, float *y, float scale,
                                                        const float *zero) {
  if (zero) {
    float z = *zero;
    for (int64_t i = 0; i < n; i++) y[i] = (y[i] - z) * scale;
  } else {
    for (int64_t i = 0; i < n; i++) y[i] *= scale;
  }
}

/* Sizes that are known have no loops for what is left over. */
static inline __attribute__((always_inline)) void groups(int64_t n, int64_t size, float *y,
                                                         const TsScaledGroups *g) {
  const float *s = g->scale, *z = g->zero;
  for (; n >= size; n -= size, y += size, s += g->step, z = z ? z + g->zero_step : z)
    group(size, y, *s, z);
  if (n > 0) group(n, y, *s, z);
}

static void apply(int64_t n, float *y, const TsScaledGroups *g) {
  switch (g->size) {
  case 32: groups(n, 32, y, g); break;
  case 64: groups(n, 64, y, g); break;
  case 128: groups(n, 128, y, g); break;
  default: groups(n, g->size, y, g);
  }
}

void TS_ISA(ts_kernels_scaled)(TsScaledKernels *k) {
  k->halves[0] = halves_i8, k->halves[1] = halves_u8;
  k->apply = apply;
}
