/* Tiles of products by fused multiply-adds (unit "fma"): one chain an element, whatever the tile. */
#ifndef TS_IR_TILE_GPU_CHAIN_TILE_H
#define TS_IR_TILE_GPU_CHAIN_TILE_H

#include "lib/dtype.h"

/* How many warps such a tile has: threads of a large tile have 128 sums (64 of f64), which read
 * least for each; those of smaller ones 64 or 16, so that there are warps enough to be busy. */
int ts_gpu_chain_warps(TsDtype sum, int rows, int cols);
/* Whether warps (jit/emit/roles/unit.c) fill it. */
bool ts_gpu_chain_fits(TsDtype sum, int rows, int cols);
/* The tile for so many matrices of m x n sums, on a GPU with so many multiprocessors. */
void ts_gpu_chain_tile(TsDtype sum, int64_t m, int64_t n, int64_t batch, int nsm, int *rows,
                       int *cols);

#endif
