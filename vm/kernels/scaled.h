/* Numbers of few bits as f32, and their scales. */
#ifndef TS_VM_KERNELS_SCALED_H
#define TS_VM_KERNELS_SCALED_H

#include <stdint.h>

/* Groups of `size` numbers that share a scale, and a zero where there are such; the steps are 1, or 0
 * where one is everybody's. */
typedef struct TsScaledGroups {
  const float *scale, *zero;
  int64_t size, step, zero_step;
} TsScaledGroups;

typedef struct TsScaledKernels {
  /* y[2 i] the low half of byte i < n, y[2 i + 1] the high one: [0] from -8 to 7, [1] from 0 to 15 */
  void (*halves[2])(int64_t n, float *y, const void *q);
  /* y = (y - zero) * scale, or y * scale, each rounded; the last group may be smaller */
  void (*apply)(int64_t n, float *y, const TsScaledGroups *g);
} TsScaledKernels;

void ts_kernels_scaled_avx512(TsScaledKernels *k);
void ts_kernels_scaled_avx2(TsScaledKernels *k);
void ts_kernels_scaled_base(TsScaledKernels *k);

#endif
