/* Kernels of collectives of the GPUs of one process: Tile IR in which devices meet (`meet` of
 * ir/tile/tile.def), read each other's memory and write it. One launch a device is all of it. */
#ifndef TS_JIT_COLLECTIVE_KERNEL_H
#define TS_JIT_COLLECTIVE_KERNEL_H

#include "ir/tile/tile.h"
#include "vm/mesh/leaves.h"

enum {
  TS_SUM_MOST = 64,     /* summands, and devices, of a kernel */
  TS_SUM_THREADS = 512, /* of a block */
  TS_SUM_TILE = 4096,   /* elements that a block adds up at a time */
};

/* Sizes of a run: rows of this device, blocks, rounds of each, its rank, and 1; 0: nothing is done,
 * so that the code is there before devices wait for each other. */
typedef enum TsSumDim {
  TS_SUM_rows,
  TS_SUM_blocks,
  TS_SUM_rounds,
  TS_SUM_rank,
  TS_SUM_go,
  TS_SUM_NDIM
} TsSumDim;

/* nsum summands of type `of`, subtrees of a tree of so many leaves, are combined by op and rounded
 * once to `to`: into one memory, or into one of each device. Rows have `width` elements.
 * Parameters: the summands; where it goes; the words of all devices. */
typedef struct TsSumKernel {
  const char *name;
  int n, nsum, nout, leaves, width;
  TsOp op;
  TsDtype of, to;
  int level[TS_SUM_MOST], place[TS_SUM_MOST];
} TsSumKernel;

/* NULL with the error. */
TsTile *ts_sum_kernel(const TsSumKernel *s, const char *target, TsError *err);

#endif
