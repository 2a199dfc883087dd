/* Groups of rows with a matrix each, in kernels of products (ir/tile/gpu/ragged.c). A kernel
 * finds them in `places` i64[I], which ir/lower/grouped.c makes: TS_GPU_PLACES numbers of
 * each item, those of one kind side by side. */
#ifndef TS_IR_TILE_GPU_RAGGED_H
#define TS_IR_TILE_GPU_RAGGED_H

#include "ir/tile/tile.h"

typedef enum TsGpuRagged {
  TS_GPU_RAGGED_none,
  TS_GPU_RAGGED_rows, /* C[M,N] = A[M,K] B[g,K,N]: an item is a tile's rows of one group */
  TS_GPU_RAGGED_depth /* C[g,M,N] = A[K,M]^T B[K,N] over rows of K: an item is a group */
} TsGpuRagged;

typedef enum TsGpuPlace {
  TS_GPU_PLACE_row,   /* the first of the item */
  TS_GPU_PLACE_end,   /* of its group */
  TS_GPU_PLACE_group, /* rows behind all groups have one that B has not, .. */
  TS_GPU_PLACE_from,  /* the first row of A, which for those is outside: zeros times zeros */
  TS_GPU_PLACE_count, /* how many items there are, with each of them */
  TS_GPU_PLACES
} TsGpuPlace;

/* Items that there is room for in i64[n]. */
TsTileVal ts_gpu_items(TsTileBuild *b, TsTileVal n);
TsTileVal ts_gpu_place(TsTileBuild *b, TsTileVal places, TsTileVal items, TsGpuPlace kind,
                       TsTileVal item);
/* y to a matrix at this row and column, as far as rows go before end. */
void ts_gpu_store_below(TsTileBuild *b, TsTileVal to, TsTileVal row, TsTileVal col,
                        TsTileVal end, TsTileVal y);

#endif
