/* Distances of one point from many, summed in the canonical order. */
#ifndef TS_VM_KERNELS_DISTANCE_H
#define TS_VM_KERNELS_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum { TS_DISTANCE_PANEL = 32, TS_DISTANCE_LEAF = 4096 }; /* points; most numbers of one */

/* y[i] = square root of the sum over k < d of ((x[k] - panel[k * TS_DISTANCE_PANEL + i]) *
 * scale)^2, the sum as vm/kernels/rows/reduce_tree.h has it for a leaf, so d is at most
 * TS_DISTANCE_LEAF. Whether all of them are finite. */
typedef bool TsDistanceFn(int64_t d, void *y, const void *x, const void *panel, double scale);

typedef struct TsDistanceKernels {
  TsDistanceFn *from[2]; /* f32, f64 */
} TsDistanceKernels;

void ts_kernels_distance_avx512(TsDistanceKernels *k);
void ts_kernels_distance_avx2(TsDistanceKernels *k);
void ts_kernels_distance_base(TsDistanceKernels *k);

#define TS_DISTANCE_DECLARE(t, isa) TsDistanceFn ts_distance_from_##t##_##isa;
TS_DISTANCE_DECLARE(f32, avx512)
TS_DISTANCE_DECLARE(f32, avx2)
TS_DISTANCE_DECLARE(f32, base)
TS_DISTANCE_DECLARE(f64, avx512)
TS_DISTANCE_DECLARE(f64, avx2)
TS_DISTANCE_DECLARE(f64, base)
#undef TS_DISTANCE_DECLARE

#endif
