/* Rotation of pairs in one row by angles whose cosines and sines are given. */
#ifndef TS_VM_KERNELS_ROPE_H
#define TS_VM_KERNELS_ROPE_H

#include <stdint.h>

/* For each i < half: (a, b) becomes (fma(a, cos, -(b * sin)), fma(b, cos, a * sin));
 * the pair is x[i], x[i + half], or x[2i], x[2i + 1]. y may be x. */
typedef void TsRopeFn(void *y, const void *x, int64_t half, const void *cos, const void *sin);

typedef struct TsRopeKernels {
  TsRopeFn *halves[2], *neighbours[2]; /* f32, f64 */
} TsRopeKernels;

void ts_kernels_rope_avx512(TsRopeKernels *k);
void ts_kernels_rope_avx2(TsRopeKernels *k);
void ts_kernels_rope_base(TsRopeKernels *k);

#endif
