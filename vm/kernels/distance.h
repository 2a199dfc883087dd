/* Distances of points from many, summed in the canonical order. */
#ifndef TS_VM_KERNELS_DISTANCE_H
#define TS_VM_KERNELS_DISTANCE_H

#include <stdbool.h>
#include <stdint.h>

enum { TS_DISTANCE_PANEL = 32, TS_DISTANCE_LEAF = 4096 }; /* points; most numbers of one */

/* Some points of x and the first n of a panel; y: a row of y_row numbers for each of x. */
typedef struct TsDistances {
  const void *x, *panel; /* [points][d]; [d][TS_DISTANCE_PANEL] */
  void *y;
  int64_t points, n, y_row;
  double scale;
} TsDistances;

/* y[p][i] = square root of the sum over k < d of ((x[p][k] - panel[k][i]) * scale)^2, the sum as
 * vm/kernels/rows/reduce_tree.h has it for a leaf, so d is 1 to TS_DISTANCE_LEAF. Whether all of
 * them are finite; what the panel has beyond n may count. */
typedef bool TsDistanceFn(int64_t d, const TsDistances *t);

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
