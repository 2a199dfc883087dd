/* Rows times the matrices of experts that were chosen for them, which are codes of mxfp4 with
 * scales beside them, in explicit form (ir/tile/gpu/experts.c): y[r] = x[r / times] w[e]^T +
 * bias[e], bf16 with sums in f32.
 *
 * An item is up to `rows` rows of one expert. Without `sorted` there is one for each row,
 * whose expert `places` i64[I] says. Else places are: how many items there are, the expert of
 * each, and rows of each, -1 where there are fewer, one item behind the other. An expert that
 * there is not gives zeros.
 *
 * Sizes: M rows of x, W rows of all matrices, L lines of scales, I places, R rows of y, P
 * blocks at a time. Parameters: x bf16[M,k], codes u8[W,k/2], scales u8[L,cols k/32], places,
 * bias bf16[W], y bf16[R,n]. */
#ifndef TS_IR_TILE_GPU_EXPERTS_H
#define TS_IR_TILE_GPU_EXPERTS_H

#include "ir/tile/gpu/warp_product.h"

typedef struct TsGpuExperts {
  int64_t n, k, times, items; /* items that there is room for */
  bool bias, sorted;
  int rows, cols, warps, stages, beside; /* beside: blocks on a processor */
} TsGpuExperts;

/* With tiles for `rows` rows of `experts` experts; cols 0: there is none. */
TsGpuExperts ts_gpu_experts(int64_t rows, int64_t experts, int64_t n, int64_t k,
                            const TsGpuMachine *gpu);
/* NULL with the error. */
TsTile *ts_tile_gpu_experts(const TsGpuExperts *x, const TsTarget *target, TsError *err);

#endif
