/* A matrix product for GPUs without a copy engine, in explicit form: C = A B and pointwise rows
 * behind it (ir/tile/gpu/warp_product.c). All warps of a block copy and multiply. Sizes are
 * symbolic: M, N, K, and P, how many blocks run at a time. Parameters: A, B, then what follows
 * reads, then what is written.
 *
 *   unit "mma"   bf16 and f16 with sums in f32, i8 with sums in i32, by the matrix unit as all
 *                have it from sm_80 on
 *   unit "tf32"  f32, of whose numbers the unit reads 10 bits: for the profile fast alone
 *   unit "fma"   f32, f64, and 16 bits with sums in f32: one chain of fused multiply-adds an
 *                element, the VM's bits */
#ifndef TS_IR_TILE_GPU_WARP_PRODUCT_H
#define TS_IR_TILE_GPU_WARP_PRODUCT_H

#include "ir/tile/gpu/epilogue.h"
#include "ir/tile/gpu/ragged.h"

typedef enum TsGpuWarpUnit { TS_GPU_UNIT_mma, TS_GPU_UNIT_tf32, TS_GPU_UNIT_fma } TsGpuWarpUnit;

typedef struct TsGpuWarpProduct {
  TsDtype in, out;
  TsGpuWarpUnit unit;
  bool transposed_a, transposed_b; /* A lies in memory as [K,M], B as [N,K] */
  int rows, cols, depth;           /* of a block's tile and of one stage */
  int warps, stages;
  int group; /* tiles of rows that are done column by column */
  int bytes; /* of one copy, 16, 8 or 4: rows of A, B and C are multiples of it */
  bool
      bulk; /* the copy engine brings stages (reading_product.c), for unit "mma" along k alone */
  bool bias, residual; /* more inputs: [N] and [M,N], of type out */
  int activation;      /* a pointwise row of one operand, or 0 */
  const TsGpuEpilogue
      *epilogue; /* instead of bias .. activation: rows of a block form, or NULL */
  /* Sizes are M, N, K, I, R, P then, and places come behind B. B's matrices, or those of C, lie
   * one behind the other as one of R rows. A matrix unit takes only a B that lies along K, or a
   * K of whole stages: behind one matrix comes the next. Groups of k are multiplied by unit
   * "fma". */
  TsGpuRagged ragged;
} TsGpuWarpProduct;

/* A GPU: shared memory of a processor is about as much as a block's. */
typedef struct TsGpuMachine {
  const TsTarget *target;
  int processors;
} TsGpuMachine;

/* With this tile, or one by the sizes if rows is 0; at_a_time: how many blocks a GPU runs. */
TsGpuWarpProduct ts_gpu_warp_product(TsDtype in, TsDtype out, TsGpuWarpUnit unit,
                                     bool transposed_a, bool transposed_b, int rows, int cols,
                                     const TsGpuMachine *gpu);
TsGpuWarpProduct ts_gpu_warp_product_for(TsDtype in, TsDtype out, TsGpuWarpUnit unit,
                                         bool transposed_a, bool transposed_b, int64_t m,
                                         int64_t n, const TsGpuMachine *gpu);
/* Of so few rows that the time is that of reading B: tiles as high as the rows, and of the widest
 * that there are, or the narrowest of which each processor has one at most. The unit's sums, so the bits are those of any tile. False: there
 * are too many rows; else p, whose types and layouts are known, becomes it. */
bool ts_gpu_warp_product_few(TsGpuWarpProduct *p, int64_t m, int64_t n,
                             const TsGpuMachine *gpu);
/* So many rows, columns and stages, or those nearest to them that there are; 0: as it is. */
void ts_gpu_warp_product_near(TsGpuWarpProduct *p, int rows, int cols, int stages,
                              const TsGpuMachine *gpu);
int ts_gpu_warp_product_blocks(const TsGpuWarpProduct *p, const TsGpuMachine *gpu);
/* NULL with the error. */
TsTile *ts_tile_gpu_warp_product(const TsGpuWarpProduct *p, const TsTarget *target,
                                 TsError *err);

/* The same where `bulk`. */
TsTile *ts_tile_gpu_reading_product(const TsGpuWarpProduct *p, const TsTarget *target,
                                    TsError *err);

/* Warps of a block that stand side by side: each has up to 64 rows of the tile, and of its
 * columns every so many'th block of 16. */
static inline int ts_gpu_warps_across(int rows, int warps) {
  return rows > 64 ? warps / (rows / 64) : warps;
}

#endif
