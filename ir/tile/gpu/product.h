/* A matrix product for a GPU in explicit form: C = A B, with pointwise rows behind it
 * (ir/tile/gpu/product.c). Sizes are symbolic: M, N, K, and P, how many blocks (or clusters)
 * run at a time. Parameters: A, B, then what the epilogue reads, then C.
 *
 *   unit "wgmma"  bf16, f16 and fp8, sums in f32 by the matrix unit of sm_90a; fp8 of matrices
 *                 that lie along K both, with what the unit keeps of sums (14 bits); i8 of
 *                 such matrices, exact sums in i32; f32 as tf32, 10 bits of each number
 *   unit "fma"    f32 and f64, one chain of fused multiply-adds an element, the VM's bits */
#ifndef TS_IR_TILE_GPU_PRODUCT_H
#define TS_IR_TILE_GPU_PRODUCT_H

#include "ir/tile/gpu/epilogue.h"
#include "ir/tile/gpu/ragged.h"

/* How an operand lies: elements from row to row of what memory has (all zero: one behind the
 * other), from matrix to matrix along the two axes of a batch; 0: one for all. */
typedef struct TsGpuOperandLayout {
  int64_t row, step[2];
} TsGpuOperandLayout;

typedef struct TsGpuProduct {
  TsDtype in, out;
  bool transposed_a, transposed_b; /* A lies in memory as [K,M], B as [N,K] */
  /* Sizes are M, N, K, two axes of matrices, P then. C's are one behind the other. */
  bool batch;
  TsGpuOperandLayout a, b;
  int rows, cols, depth; /* of a block's tile and of one stage */
  int stages, cluster;   /* cluster: blocks along M that share columns of B; 1 or 2 */
  int most;              /* stages, if more would fit; 0: as many as do */
  int buffers;           /* of pieces on their way to C; 1 or 2 */
  int group;             /* tiles of rows that are done column by column */
  bool bias, residual;   /* more inputs: [N] and [M,N], of type out */
  int activation;        /* a pointwise row of one operand, or 0 */
  int limit;             /* stages between two waits of the clusters for each other; 0: none */
  const TsGpuEpilogue
      *epilogue; /* instead of bias .. activation: rows of a block form, or NULL */
  bool tf32;     /* f32 by the matrix unit, for the profile fast */
  /* Sums wait in registers, rounded: what follows and is stored comes between the products of
   * the next tile. */
  bool late;
  /* Sizes are M, N, K, G, I, L, P then. Behind A and B come places, and where the matrix unit
   * reads whole stages along rows the last one of each group, of A [L,M] and of B [L,N], with
   * zeros behind the group: L is G times the stage. */
  TsGpuRagged ragged;
} TsGpuProduct;

/* The usual numbers of a tile: what fits, and was measured to be good. rows and cols of 0: the
 * largest tile. */
TsGpuProduct ts_gpu_product(TsDtype in, TsDtype out, bool transposed_a, bool transposed_b,
                            int rows, int cols);
/* For these sizes, and so many matrices, on a GPU with so many multiprocessors: the tile whose
 * time is least by what was measured. late: what follows can be, in tiles for which it is. */
TsGpuProduct ts_gpu_product_for(TsDtype in, TsDtype out, bool transposed_a, bool transposed_b,
                                int64_t m, int64_t n, int64_t k, int64_t batch, int nsm,
                                bool late);
/* f32 as tf32; A as it lies, B transposed. */
TsGpuProduct ts_gpu_product_tf32(int64_t m, int64_t n, int64_t k, int nsm);
/* When bias and activation are known: whether they are late, and how many stages fit then. */
void ts_gpu_product_settle(TsGpuProduct *p, int64_t k);
/* With these rows behind it, for products of this depth; settled. */
void ts_gpu_product_epilogue(TsGpuProduct *p, const TsGpuEpilogue *f, int64_t k);
/* The one matrix that rows read, of as many bits as the one result: it can come ahead, to where
 * the result goes. A number of a parameter, 0: there is none. */
int ts_gpu_product_prefetched(const TsGpuProduct *p);
/* Whether all that has to wait for the next tile is 16 bits an element, and registers hold
 * it. */
bool ts_gpu_product_can_be_late(const TsGpuProduct *p);
/* NULL with the error. */
TsTile *ts_tile_gpu_product(const TsGpuProduct *p, TsError *err);

#endif
